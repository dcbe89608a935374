package collect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// State is what is known about a task from outside its results: from the scheduler, or from the run folder alone.
// The zero value knows nothing.
type State struct {
	Word string // the scheduler's own word, such as PENDING or "CANCELLED by 1000"; empty: not asked, or not known to it
	Exit string // exit code and signal, such as 0:9

	Started bool      // the task has run, or runs
	Node    string    // where
	Since   time.Time // since when; zero: unknown
	Attempt int       // the attempt that this state is about; 0: the newest
	Restart int       // and its restart

	Submitted     bool   // a submission of the task is known
	Reason        string // why it waits
	Advice        string // what to do about that; empty: nothing
	WontStart     bool   // ... and that reason never ends by itself
	InGrace       bool   // it ended, or was submitted, so recently that a file system or the scheduler may still hide it
	Memory        string // memory asked for
	Tail          string // last lines of its log
	KillExplained bool   // it is known what was killed for memory, so that nothing else is in doubt
}

// phase is what a scheduler's word means for a result that is awaited.
type phase int

const (
	unknown phase = iota
	waiting
	running
	ended
)

// words are the scheduler's words that this version understands. Others are printed and never guessed.
var words = map[string]phase{
	"PENDING": waiting, "EXPEDITING": waiting, "REQUEUED": waiting, "REQUEUE_FED": waiting, "REQUEUE_HOLD": waiting, "RESV_DEL_HOLD": waiting, "SPECIAL_EXIT": waiting,
	"CONFIGURING": running, "RUNNING": running, "SUSPENDED": running, "COMPLETING": running,
	"POWER_UP_NODE": running, "RESIZING": running, "SIGNALING": running, "STAGE_OUT": running, "STOPPED": running,
	"COMPLETED": ended, "FAILED": ended, "TIMEOUT": ended, "OUT_OF_MEMORY": ended, "NODE_FAIL": ended, "BOOT_FAIL": ended,
	"PREEMPTED": ended, "CANCELLED": ended, "DEADLINE": ended, "LAUNCH_FAILED": ended, "RECONFIG_FAIL": ended, "REVOKED": ended,
}

// word is the first word: accounting writes "CANCELLED by 1000".
func (s State) word() string {
	w, _, _ := strings.Cut(s.Word, " ")
	return w
}

// Verdict says what became of one execution, from its newest result (nil: none) and the state of its task, and why.
// The reason of an ok is empty, or a doubt. A newer attempt that waits or runs outranks an older result that is not
// ok; one that ended without a result outranks only an ending that counts for nothing.
func Verdict(r *result.Result, s State) (catalogue.Outcome, string) {
	if awaited(r, s) {
		return withoutResult(s)
	}
	if s.compare(r) != 0 {
		s = State{} // it says nothing about the attempt that left this result
	}
	switch {
	case r.Outcome.Fits():
		return okVerdict(s)
	case r.Outcome == catalogue.Cancelled:
		return cancelledVerdict(r, s)
	}
	return r.Outcome, because(r)
}

// awaited reports whether the verdict is that of the task: there is no result, or a newer attempt may leave another.
func awaited(r *result.Result, s State) bool {
	if r == nil {
		return true
	}
	p := words[s.word()]
	return s.compare(r) > 0 && !r.Outcome.Fits() && (p == waiting || p == running || p == ended && !r.Outcome.Done())
}

// compare is above 0 where the state is about a newer attempt or restart than the one that left the result, and below
// 0 where about an older.
func (s State) compare(r *result.Result) int {
	if s.Attempt == 0 {
		return 0
	}
	return cmp.Or(cmp.Compare(s.Attempt, r.Attempt), cmp.Compare(s.Restart, r.Restart))
}

// because is the reason in the result, with the last line of its evidence behind it where something went wrong.
func because(r *result.Result) string {
	lines := strings.Split(strings.TrimSpace(r.Evidence), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	switch {
	case r.Reason == "":
		return last
	case !r.Outcome.Failed() && !r.Outcome.OutOfMemory() || last == "" || strings.Contains(r.Reason, last):
		return r.Reason
	}
	const most = 160
	if cut := []rune(last); len(cut) > most {
		last = string(cut[:most]) + "..."
	}
	return r.Reason + ": " + last
}

func okVerdict(s State) (catalogue.Outcome, string) {
	switch w := s.word(); {
	case w == "TIMEOUT":
		return catalogue.OK, "the task ran over its time limit after this point"
	case w == "OUT_OF_MEMORY" && !s.KillExplained:
		return catalogue.Error, "a process of the task was killed for host memory" + s.Where()
	case w == "COMPLETED", words[w] == running, words[w] == waiting, w == "":
		return catalogue.OK, ""
	}
	return catalogue.OK, "the task ended as " + s.ending() + " after this point"
}

func cancelledVerdict(r *result.Result, s State) (catalogue.Outcome, string) {
	switch s.word() {
	case "":
		return catalogue.Cancelled, because(r)
	case "TIMEOUT":
		return catalogue.Timeout, "the task reached its time limit" + s.Where()
	case "PREEMPTED", "NODE_FAIL":
		return catalogue.Infra, strings.ToLower(s.word()) + s.Where()
	}
	return catalogue.Cancelled, "stopped; the task is " + s.ending() + s.Where()
}

func withoutResult(s State) (catalogue.Outcome, string) {
	switch words[s.word()] {
	case waiting:
		if s.WontStart {
			return catalogue.Pending, "will not start: " + s.Reason
		}
		return catalogue.Pending, s.Reason
	case running:
		return catalogue.Running, strings.TrimPrefix(s.Where(), " ")
	case ended:
		return endedWithoutResult(s)
	case unknown:
	}
	switch {
	case s.Word != "":
		return catalogue.Lost, fmt.Sprintf("no result, and the state %s is not known to cpbench%s", s.Word, s.Where())
	case s.Submitted && s.InGrace && !s.Started:
		return catalogue.Pending, "submitted a moment ago; the scheduler does not show the task yet"
	case s.Submitted && s.Started:
		return catalogue.Lost, "started" + s.Where() + ", left no result, and the scheduler no longer knows the task"
	case s.Submitted:
		return catalogue.Lost, "submitted, but the scheduler no longer knows the task: cancelled before its start, or forgotten"
	case s.Started:
		return catalogue.Missing, "running or killed: started" + s.Where() + ", left no result"
	}
	return catalogue.Missing, "never started: no worker has left a log"
}

func endedWithoutResult(s State) (catalogue.Outcome, string) {
	switch w := s.word(); w {
	case "OUT_OF_MEMORY":
		return outOfMemory(s)
	case "TIMEOUT":
		return catalogue.Timeout, "killed before it could write" + s.Where()
	case "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED":
		return catalogue.Infra, strings.ToLower(w) + s.Where()
	case "CANCELLED", "DEADLINE":
		switch {
		case !s.Started:
			return catalogue.Cancelled, s.Word + " before its start"
		case w == "DEADLINE":
			return catalogue.Timeout, s.Word + s.Where()
		}
		return catalogue.Cancelled, s.Word + " after its start" + s.Where()
	case "FAILED":
		return failedWithoutResult(s)
	case "COMPLETED":
		if s.InGrace {
			return catalogue.Running, "ended a moment ago; its file may not be visible yet"
		}
		return catalogue.Lost, "ended, no result written" + s.Where()
	}
	return catalogue.Lost, "ended as " + s.ending() + ", no result written" + s.Where()
}

// outOfMemory is what the scheduler itself witnesses.
func outOfMemory(s State) (catalogue.Outcome, string) {
	reason := "killed for host memory, witness: the scheduler" + s.Where()
	if s.Memory != "" {
		reason += ", asked for " + s.Memory
	}
	return catalogue.OOMHost, reason
}

// OverMemory reports whether a line of a task's log is Slurm's word that it has ended the task for its memory. With
// JobAcctGatherParams=OverMemoryKill it watches the sum itself, and the state is FAILED 0:9 as after any other KILL.
func OverMemory(line string) bool {
	return strings.HasPrefix(line, "slurmstepd") && strings.Contains(line, "xceeded") && strings.Contains(line, "memory limit")
}

func failedWithoutResult(s State) (catalogue.Outcome, string) {
	code, signal, _ := strings.Cut(s.Exit, ":")
	reason := "exit " + code
	switch {
	case s.Exit == "0:53":
		return catalogue.Infra, "the log folder is missing or not writable" + s.Where()
	case OverMemory(s.Tail):
		outcome, reason := outOfMemory(s)
		return outcome, reason + ": " + s.Tail
	case s.Exit == "":
		reason = "failed, exit code unknown"
	case signal == "9" || code == "137":
		reason = "killed; nothing witnessed a lack of memory"
	case signal != "" && signal != "0":
		reason = "signal " + signal
	}
	reason += s.Where()
	if s.Tail != "" {
		reason += ": " + s.Tail
	}
	return catalogue.Error, reason
}

// ending is the state with its exit code.
func (s State) ending() string {
	if s.Exit == "" || s.Exit == "0:0" {
		return s.Word
	}
	return s.Word + " " + s.Exit
}

// Where tells node and start of the task, as far as they are known, with a blank before each; empty: nothing is.
func (s State) Where() string {
	var b strings.Builder
	if s.Node != "" {
		b.WriteString(" on " + s.Node)
	}
	if !s.Since.IsZero() {
		b.WriteString(" at " + s.Since.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// notReached is why an execution behind the one that its task is at, or ended at, has no result.
const notReached = "not reached: its task stopped, or still is, at an earlier point"

// taskVerdicts judges the executions of one task, given in task order. Results keep their verdict. Of those that are
// awaited the first gets the verdict of the task, and the others wait behind it or were not reached.
func taskVerdicts(results []*result.Result, s State) ([]catalogue.Outcome, []string) {
	outcomes, reasons := make([]catalogue.Outcome, len(results)), make([]string, len(results))
	// What has no result was under way when the scheduler ended the task for its memory: what was measured is not to blame.
	s.KillExplained = s.KillExplained || slices.Contains(results, nil)
	front := -1
	for i, r := range results {
		outcomes[i], reasons[i] = Verdict(r, s)
		// A done result is repeated only by an attempt that was made for it: what is not done comes first.
		if awaited(r, s) && (front < 0 || done(results[front]) && !done(r)) {
			front = i
		}
	}
	if front >= 0 && s.stopped(results) {
		front = -1
	}
	for i, r := range results {
		if i == front || !awaited(r, s) {
			continue
		}
		o, why := catalogue.Missing, notReached
		if front >= 0 {
			o, why = outcomes[front], reasons[front]
		}
		switch {
		case o == catalogue.Pending, o == catalogue.Running && words[s.word()] == ended,
			!s.Started && (o == catalogue.Missing || o == catalogue.Lost || o == catalogue.Cancelled):
			outcomes[i], reasons[i] = o, why // none has begun, or none can be seen yet
		case o == catalogue.Running:
			outcomes[i], reasons[i] = catalogue.Pending, "later in a running task"
		case r != nil:
			outcomes[i], reasons[i] = Verdict(r, State{})
		default:
			outcomes[i], reasons[i] = catalogue.Missing, notReached
		}
	}
	return outcomes, reasons
}

// stopped reports whether the attempt has come to its end at an execution that has a result: its worker was told to stop,
// or ran out of time, and left that result for what was under way. So none of the others has begun.
func (s State) stopped(results []*result.Result) bool {
	own := true // a time-out stops the task
	switch w := s.word(); {
	case w == "" && s.Started:
		own = false // by the files alone: it may have been that of one execution, and only a cancelled one is the last
	case w == "COMPLETED" && s.InGrace:
		return false // another result may be on its way
	case w != "COMPLETED" && w != "TIMEOUT" && w != "CANCELLED" && w != "PREEMPTED" && w != "DEADLINE":
		return false
	}
	return slices.ContainsFunc(results, func(r *result.Result) bool {
		return r != nil && (own && r.Outcome == catalogue.Timeout || r.Outcome == catalogue.Cancelled) && s.Attempt == r.Attempt && s.Restart == r.Restart
	})
}

func done(r *result.Result) bool { return r != nil && r.Outcome.Done() }
