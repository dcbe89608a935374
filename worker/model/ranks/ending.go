package ranks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/evidence"
	"cpbench/worker/model/launch"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
)

// Ending is how an execution ended. The zero value means that nothing has gone wrong.
type Ending struct {
	Outcome  catalogue.Outcome
	Reason   string
	Evidence string

	rank   int
	short  bool           // hardly any memory of the device was left, by the rank's own word
	echo   bool           // may well be the consequence of another rank's failure
	final  bool           // no other rank can explain it better
	exit   bool           // known from the exit of the process only
	signal syscall.Signal // ... that ended it; 0: an exit code
}

// OK reports whether nothing has gone wrong.
func (e Ending) OK() bool { return e.Outcome == "" }

// ownWord is the weight of what a rank says of itself.
const ownWord = 3

// weight orders endings by how much they explain.
func (s *Set) weight(end Ending) int {
	switch {
	case end.Outcome.OutOfMemory():
		return 5
	case end.Outcome != catalogue.Error:
		return 4
	case end.echo, end.exit && s.Ranks[end.rank].echoed:
		return 0
	case end.exit && end.told():
		return 1
	case end.exit:
		return 2
	}
	return ownWord
}

// told reports whether the process was ended by a signal that somebody sends to make it stop.
func (e Ending) told() bool { return e.signal == syscall.SIGTERM || e.signal == syscall.SIGINT }

// mayBeOurs reports whether a signal from outside, of which the worker has not heard yet, can be the cause. A program
// may answer it with any exit code and any words, but not with another signal.
func (e Ending) mayBeOurs() bool {
	return e.Outcome == catalogue.Error && (e.signal == 0 || e.told())
}

// Repeated is the ending of an execution that was to settle the suspicion of one before it, in processes of its own.
func (e Ending) Repeated() Ending {
	if e.Outcome = evidence.Repeated(e.Outcome, e.Evidence); e.Outcome == catalogue.OOMSuspect && e.short {
		e.Outcome = catalogue.OOMDevice
	}
	return e
}

// Into writes the ending into a result: outcome, reason and evidence.
func (e Ending) Into(r *result.Result) {
	if e.OK() {
		r.Outcome = catalogue.OK
		return
	}
	r.Outcome, r.Reason, r.Evidence = e.Outcome, e.Reason, e.Evidence
}

// Failure is what the worker itself finds wrong.
func Failure(reason, evidence string) Ending {
	return Ending{Outcome: catalogue.Error, Reason: reason, Evidence: evidence, final: true}
}

func infra(what string, err error) Ending {
	return Ending{Outcome: catalogue.Infra, Reason: what, Evidence: err.Error()}
}

func startFailed(p launch.Process, err error) Ending {
	if errors.Is(err, syscall.ENOSPC) {
		return infra("the disk is full", err)
	}
	if _, err := os.Stat(p.Dir); err != nil { // the error of the start would blame the program
		return Failure("the program could not be started in workload.workdir", err.Error())
	}
	return Failure("the program could not be started", fmt.Sprintf("%s: %v", p.Argv[0], err))
}

// Timeout is the cause of the end of a context that workload.timeout bounds, or another limit that Why tells.
type Timeout struct {
	Limit time.Duration
	Why   string
}

func (e Timeout) Error() string {
	return fmt.Sprintf("%s (%v)", cmp.Or(e.Why, "one execution took longer than workload.timeout"), e.Limit)
}

// Stopped is the ending of an execution whose context has ended: timeout if Timeout is the cause, else cancelled.
func Stopped(ctx context.Context) Ending {
	cause := context.Cause(ctx)
	var limit Timeout
	if errors.As(cause, &limit) {
		return Ending{Outcome: catalogue.Timeout, Reason: limit.Error()}
	}
	return Ending{Outcome: catalogue.Cancelled, Reason: cause.Error()}
}

// claims are the outcomes that a rank can know and may claim.
var claims = []catalogue.Outcome{
	catalogue.TooBig, catalogue.ErrorKernel, catalogue.ErrorCollective, catalogue.WrongOutput, catalogue.NoArtifact,
	catalogue.Skipped, catalogue.OOMComm, catalogue.OOMSuspect,
}

// echoes are what a rank says when another one has failed before it, in lower case.
var echoes = []string{
	"went away", "connection closed by peer", "connection reset by peer", "broken pipe", // sockets, Gloo
	"remote process exited", // NCCL
}

// oomEnding is a rank's own word that it ran out of memory, unless the numbers in it say otherwise.
func oomEnding(rank int, m *protocol.OOM) Ending {
	found := evidence.Judge(m.Text)
	end := Ending{Outcome: found.Outcome, Reason: fmt.Sprintf("rank %d ran out of memory in %.20s", rank, m.Where), Evidence: m.Text, rank: rank}
	if found.Note != "" {
		end.Reason += "; " + found.Note
	}
	return end
}

// errorEnding is a rank's own word. Its class counts where it is an outcome that a rank can know.
func errorEnding(rank int, m *protocol.Error) Ending {
	end := Ending{Outcome: catalogue.Error, Reason: fmt.Sprintf("rank %d failed", rank), Evidence: m.Text, rank: rank, short: m.MemoryShort}
	if class := catalogue.Outcome(m.Class); slices.Contains(claims, class) {
		end.Outcome = class
		end.final = class == catalogue.TooBig || class == catalogue.Skipped // the same on all ranks
		return end
	}
	text := strings.ToLower(m.Text)
	end.echo = slices.ContainsFunc(echoes, func(s string) bool { return strings.Contains(text, s) })
	return end
}

// brokenEnding judges the end of a connection, which is a failure as long as the rank has work.
func (s *Set) brokenEnding(i int, err error) Ending {
	end := Ending{Outcome: catalogue.Error, Evidence: s.lastWords(i), rank: i}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		end.Reason, end.echo = fmt.Sprintf("rank %d closed its connection", i), true
	case errors.Is(err, net.ErrClosed): // by tell
		end.Reason = fmt.Sprintf("rank %d read no message for %v", i, sendLimit)
	default:
		end.Reason = fmt.Sprintf("rank %d broke the protocol: %v", i, err)
	}
	return end
}

// exitEnding judges a process that has ended although nobody asked it to.
func (s *Set) exitEnding(p *proc, state *os.ProcessState) Ending {
	end := Ending{Outcome: catalogue.Error, Evidence: s.lastWords(p.rank), rank: p.rank, exit: true}
	when := "before its work was done"
	if s.Ranks[p.rank].conn == nil {
		when = "before it said hello"
	}
	if state == nil { // its status was lost
		end.Reason = fmt.Sprintf("%s ended %s", p.name, when)
		return end
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		end.signal = status.Signal()
		end.Reason = fmt.Sprintf("%s was ended by signal %d (%v) %s", p.name, end.signal, end.signal, when)
		return end
	}
	end.Reason = fmt.Sprintf("%s ended with exit code %d %s", p.name, status.ExitStatus(), when)
	return end
}

// tailBytes is how much of a rank's log an error quotes.
const tailBytes = 1200

// lastWords is the end of what a rank, or the launcher of all ranks, has written during this execution. Of one that has
// written nothing it is where it stood when it last gave a sign of life: a program that ends by itself tells nobody why.
func (s *Set) lastWords(i int) string {
	r := s.Ranks[i]
	if r.proc != nil {
		if text := withoutHarness(r.proc.tail(8 * tailBytes)); text != "" {
			return strings.ToValidUTF8(text[max(0, len(text)-tailBytes):], "?")
		}
	}
	if r.where == "" {
		return ""
	}
	return fmt.Sprintf("the last sign of life of rank %d came from %s", i, r.where)
}

// withoutHarness takes out of Python's report of a crash the frames below the hooks and the list of all extensions, which
// would leave no room in the evidence for the model's own frames (docs.python.org, faulthandler).
func withoutHarness(text string) string {
	var kept []string
	crash, below := false, false
	for line := range strings.Lines(text) {
		frame := strings.Contains(line, `  File "`)
		crash = crash || strings.Contains(line, "Fatal Python error: ")
		below = crash && (below || frame && strings.Contains(line, `cpbench_torch.py", line `))
		switch {
		case below && strings.Contains(line, "Extension modules: "):
			crash, below = false, false
		case below && (frame || strings.TrimSpace(line) == ""):
		default:
			kept = append(kept, line)
		}
	}
	return strings.TrimSpace(strings.Join(kept, ""))
}
