package command

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/evidence"
	"cpbench/worker/node"
	"cpbench/worker/result"
)

// finish is what is known after a run.
type finish struct {
	state    *os.ProcessState // nil: unknown
	stopped  ending           // the end of its context, if that came first
	missing  string           // why its file does not count; empty: it does, or none is asked for
	text     string           // the end of its output
	patterns []*regexp.Regexp // further texts for device memory
	kills    node.Killed      // by the kernels, for lack of host memory, during the run
}

// The parts of the output that an error quotes, and that is searched for doubts about a good run.
const (
	quoteBytes = 1200
	doubtBytes = 64 << 10
)

// judge says how the run ended. Texts count only if it failed or its file is missing, and an unexplained failure stays
// one.
func (f finish) judge() ending {
	if f.stopped.Outcome != "" {
		// A rank that dies of memory leaves its peers waiting. Lines that no exception tells may be warnings of a run
		// that is only slow.
		if found, ok := evidence.Classify(f.text); ok && found.Raised && found.Outcome.OutOfMemory() {
			return ending{Outcome: found.Outcome, Reason: "ran out of memory and did not end by itself", Evidence: found.Fragment}
		}
		end := f.stopped
		end.Evidence = f.quote()
		return end
	}
	if f.good() {
		return ending{}
	}
	found, ok := f.find()
	reason := exitText(f.state)
	if f.success() {
		reason += ", but " + f.missing
	}
	if ok && (found.Outcome == catalogue.OOMDevice || found.Outcome == catalogue.OOMComm) {
		return explained(found, reason)
	}
	if f.kills.N > 0 && f.looksKilled() {
		return ending{
			Outcome: catalogue.OOMHost, Reason: reason + ": the kernel killed for lack of host memory",
			Evidence: strings.TrimSpace(fmt.Sprintf("oom_kill +%d in %s\n%s", f.kills.N, f.kills.Where, f.quote())),
		}
	}
	if ok {
		return explained(found, reason)
	}
	end := ending{Outcome: catalogue.Error, Reason: reason, Evidence: f.quote()}
	if f.success() {
		end.Outcome = catalogue.NoArtifact
	} else if f.kills.Lost != "" { // the machine has failed, and not the program
		end.Outcome, end.Reason = catalogue.Infra, end.Reason+"; "+f.kills.Lost
	} else if f.signal() == syscall.SIGKILL {
		end.Reason += "; nothing shows that memory was the reason"
	}
	return end
}

// farOver is how many times workload.slow_after a run may take before it is given up.
const farOver = 20

// errSlow is the end of the patience with a run that is far over workload.slow_after.
type errSlow struct{ limit time.Duration }

func (e errSlow) Error() string {
	return fmt.Sprintf("the run took longer than %d times workload.slow_after (%v)", farOver, e.limit)
}

// budget bounds a run by its patience. Until then the run goes on, because how slow it is is worth knowing.
func (s *session) budget(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Duration(s.spec.SlowAfter)
	if limit == 0 || limit >= time.Duration(s.spec.Timeout)/farOver { // workload.timeout ends it before
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, farOver*limit, errSlow{limit})
}

// overBudget judges the time of a run that went well. Every run counts, the first as well: each is a whole program from
// its start.
func (s *session) overBudget(seconds float64) ending {
	limit := time.Duration(s.spec.SlowAfter)
	if limit == 0 || seconds <= limit.Seconds() {
		return ending{}
	}
	return ending{Outcome: catalogue.Slow, Reason: fmt.Sprintf("the run took %.3g s, more than workload.slow_after (%v)", seconds, limit)}
}

func explained(found evidence.Finding, reason string) ending {
	if found.Note != "" {
		reason += "; " + found.Note
	}
	return ending{Outcome: found.Outcome, Reason: reason, Evidence: found.Fragment}
}

// find looks for a text that explains a failure: the user's own first.
func (f finish) find() (evidence.Finding, bool) {
	for _, p := range f.patterns {
		if all := p.FindAllStringIndex(f.text, -1); len(all) > 0 {
			last := all[len(all)-1]
			return evidence.Finding{Outcome: catalogue.OOMDevice, Fragment: lineAround(f.text, last[0], last[1])}, true
		}
	}
	return evidence.Classify(f.text)
}

// lineAround is the line in which a part of a text stands, shortened.
func lineAround(text string, start, end int) string {
	from := strings.LastIndexByte(text[:start], '\n') + 1
	to := len(text)
	if n := strings.IndexByte(text[end:], '\n'); n >= 0 {
		to = end + n
	}
	line := strings.TrimSpace(text[from:to])
	if len(line) > quoteBytes {
		line = strings.ToValidUTF8(line[:quoteBytes], "")
	}
	return line
}

// doubts warns about a good run.
func (f finish) doubts(r *result.Result) {
	f.text = f.text[max(0, len(f.text)-doubtBytes):] // it is looked at after every run
	const hint = "the time may be that of a second try; see the log of the run"
	if found, ok := f.find(); ok && (found.Outcome.OutOfMemory() || found.Outcome == catalogue.OOMSuspect) {
		r.Warn(catalogue.MemoryPressure, fmt.Sprintf("ended well, but its output says: %.160s", found.Fragment), hint)
	}
	if f.kills.N > 0 {
		r.Warn(catalogue.MemoryPressure, "ended well, but the kernel killed a process of the job for lack of host memory", hint)
	}
}

// good reports whether the program ended well and left its file.
func (f finish) good() bool { return f.success() && f.missing == "" }

func (f finish) success() bool { return f.state != nil && f.state.Success() }

// signal is the signal that ended the program; 0: none did.
func (f finish) signal() syscall.Signal {
	if f.state == nil {
		return 0
	}
	if status, _ := f.state.Sys().(syscall.WaitStatus); status.Signaled() {
		return status.Signal()
	}
	return 0
}

// looksKilled reports whether the run can have failed because one of its processes was killed: the program itself, one
// that a shell or a launcher tells of, or a helper without which a program ended well but for its file.
func (f finish) looksKilled() bool {
	const shellKilled = 128 + int(syscall.SIGKILL)
	if f.success() || f.signal() == syscall.SIGKILL || f.state != nil && f.state.ExitCode() == shellKilled {
		return true
	}
	_, told := evidence.Killed(f.text)
	return told
}

// mayBeOurs reports whether a signal from outside, of which the worker has not heard yet, can be the cause. A program
// may answer it with any exit code and any words, but not with another signal.
func (f finish) mayBeOurs(end ending) bool {
	s := f.signal()
	return (end.Outcome == catalogue.Error || end.Outcome == catalogue.NoArtifact) && (s == 0 || s == syscall.SIGTERM || s == syscall.SIGINT)
}

// quote is the end of the output.
func (f finish) quote() string {
	text := f.text
	if len(text) > quoteBytes {
		text = text[len(text)-quoteBytes:]
	}
	return strings.ToValidUTF8(strings.TrimSpace(text), "?")
}

// exitText says how a process ended.
func exitText(state *os.ProcessState) string {
	if state == nil {
		return "the program's end was not seen"
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return fmt.Sprintf("the program was ended by signal %d (%v)", status.Signal(), status.Signal())
	}
	if code := status.ExitStatus(); code > 128 && code <= 128+64 {
		return fmt.Sprintf("the program ended with exit code %d, as shells tell signal %d", code, code-128)
	}
	return fmt.Sprintf("the program ended with exit code %d", status.ExitStatus())
}
