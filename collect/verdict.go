package collect

import (
	"fmt"
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
	WontStart     bool   // ... and that reason never ends by itself
	InGrace       bool   // it ended, or was submitted, so recently that a file system or the scheduler may still hide it
	Memory        string // memory asked for
	Tail          string // last lines of its log
	KillExplained bool   // its OUT_OF_MEMORY belongs to another point, or the kill counter stood still during this one
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
	"PENDING": waiting, "REQUEUED": waiting, "REQUEUE_FED": waiting, "REQUEUE_HOLD": waiting, "RESV_DEL_HOLD": waiting, "SPECIAL_EXIT": waiting,
	"CONFIGURING": running, "RUNNING": running, "SUSPENDED": running, "COMPLETING": running,
	"RESIZING": running, "SIGNALING": running, "STAGE_OUT": running, "STOPPED": running,
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
	if r == nil {
		return withoutResult(s)
	}
	if newer := s.Attempt > r.Attempt || s.Attempt == r.Attempt && s.Restart > r.Restart; newer {
		p := words[s.word()]
		if !r.Outcome.Fits() && (p == waiting || p == running || p == ended && !r.Outcome.Done()) {
			return withoutResult(s)
		}
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

// because is the reason in the result, for a failure with the last line of its evidence behind it.
func because(r *result.Result) string {
	lines := strings.Split(strings.TrimSpace(r.Evidence), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	switch {
	case r.Reason == "":
		return last
	case !r.Outcome.Failed() || last == "" || strings.Contains(r.Reason, last):
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
		return catalogue.Error, "a process of the task was killed for host memory" + s.where()
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
		return catalogue.Timeout, "the task reached its time limit" + s.where()
	case "PREEMPTED", "NODE_FAIL":
		return catalogue.Infra, strings.ToLower(s.word()) + s.where()
	}
	return catalogue.Cancelled, "stopped; the task is " + s.ending() + s.where()
}

func withoutResult(s State) (catalogue.Outcome, string) {
	switch words[s.word()] {
	case waiting:
		if s.WontStart {
			return catalogue.Pending, "will not start: " + s.Reason
		}
		return catalogue.Pending, s.Reason
	case running:
		return catalogue.Running, strings.TrimPrefix(s.where(), " ")
	case ended:
		return endedWithoutResult(s)
	case unknown:
	}
	switch {
	case s.Word != "":
		return catalogue.Lost, fmt.Sprintf("no result, and the state %s is not known to cpbench%s", s.Word, s.where())
	case s.Submitted && s.InGrace && !s.Started:
		return catalogue.Pending, "submitted a moment ago; the scheduler does not show the task yet"
	case s.Submitted && s.Started:
		return catalogue.Lost, "started" + s.where() + ", left no result, and the scheduler no longer knows the task"
	case s.Submitted:
		return catalogue.Lost, "submitted, but the scheduler no longer knows the task: cancelled before its start, or forgotten"
	case s.Started:
		return catalogue.Missing, "running or killed: started" + s.where() + ", left no result"
	}
	return catalogue.Missing, "never started: no worker has left a log"
}

func endedWithoutResult(s State) (catalogue.Outcome, string) {
	switch w := s.word(); w {
	case "OUT_OF_MEMORY":
		reason := "killed for host memory, witness: the scheduler" + s.where()
		if s.Memory != "" {
			reason += ", asked for " + s.Memory
		}
		return catalogue.OOMHost, reason
	case "TIMEOUT":
		return catalogue.Timeout, "killed before it could write" + s.where()
	case "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED":
		return catalogue.Infra, strings.ToLower(w) + s.where()
	case "CANCELLED", "DEADLINE":
		switch {
		case !s.Started:
			return catalogue.Cancelled, s.Word + " before its start"
		case w == "DEADLINE":
			return catalogue.Timeout, s.Word + s.where()
		}
		return catalogue.Cancelled, s.Word + " after its start" + s.where()
	case "FAILED":
		return failedWithoutResult(s)
	case "COMPLETED":
		if s.InGrace {
			return catalogue.Running, "ended a moment ago; its file may not be visible yet"
		}
		return catalogue.Lost, "ended, no result written" + s.where()
	}
	return catalogue.Lost, "ended as " + s.ending() + ", no result written" + s.where()
}

func failedWithoutResult(s State) (catalogue.Outcome, string) {
	code, signal, _ := strings.Cut(s.Exit, ":")
	reason := "exit " + code
	switch {
	case s.Exit == "0:53":
		return catalogue.Infra, "the log folder is missing or not writable" + s.where()
	case s.Exit == "":
		reason = "failed, exit code unknown"
	case signal == "9" || code == "137":
		reason = "killed; nothing witnessed a lack of memory"
	case signal != "" && signal != "0":
		reason = "signal " + signal
	}
	reason += s.where()
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

// where tells node and time, as far as they are known.
func (s State) where() string {
	var b strings.Builder
	if s.Node != "" {
		b.WriteString(" on " + s.Node)
	}
	if !s.Since.IsZero() {
		b.WriteString(" at " + s.Since.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// taskVerdicts judges the executions of one task, given in task order. Results keep their verdict; of those without
// one the first gets the verdict of the task, and the others wait behind it or were not reached.
func taskVerdicts(results []*result.Result, s State) ([]catalogue.Outcome, []string) {
	outcomes, reasons := make([]catalogue.Outcome, len(results)), make([]string, len(results))
	first := true
	var task catalogue.Outcome
	var why string
	for i, r := range results {
		outcomes[i], reasons[i] = Verdict(r, s)
		if r != nil {
			continue
		}
		if first {
			first, task, why = false, outcomes[i], reasons[i]
			continue
		}
		switch {
		case task == catalogue.Pending, task == catalogue.Missing && !s.Started:
			outcomes[i], reasons[i] = task, why
		case task == catalogue.Running:
			outcomes[i], reasons[i] = catalogue.Pending, "later in a running task"
		default:
			outcomes[i], reasons[i] = catalogue.Missing, "not reached"
		}
	}
	return outcomes, reasons
}
