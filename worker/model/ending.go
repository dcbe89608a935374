package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
)

// ending is how an execution ended. The zero value means that nothing has gone wrong.
type ending struct {
	outcome  catalogue.Outcome
	reason   string
	evidence string
	rank     int
	echo     bool           // may well be the consequence of another rank's failure
	final    bool           // no other rank can explain it better
	exit     bool           // known from the exit of the process only
	signal   syscall.Signal // ... that ended it; 0: an exit code
}

// ownWord is the weight of what a rank says of itself.
const ownWord = 3

// weight orders endings by how much they explain.
func (e *execution) weight(end ending) int {
	switch {
	case end.outcome.OutOfMemory():
		return 5
	case end.outcome != catalogue.Error:
		return 4
	case end.echo, end.exit && e.ranks[end.rank].echoed:
		return 0
	case end.exit && end.told():
		return 1
	case end.exit:
		return 2
	}
	return ownWord
}

// told reports whether the process was ended by a signal that somebody sends to make it stop.
func (e ending) told() bool { return e.signal == syscall.SIGTERM || e.signal == syscall.SIGINT }

// mayBeOurs reports whether a signal from outside, of which the worker has not heard yet, can be the cause. A program
// may answer it with any exit code and any words, but not with another signal.
func (e ending) mayBeOurs() bool {
	return e.outcome == catalogue.Error && (e.signal == 0 || e.told())
}

func (e ending) into(r *result.Result) {
	if e.outcome == "" {
		r.Outcome = catalogue.OK
		return
	}
	r.Outcome, r.Reason, r.Evidence = e.outcome, e.reason, e.evidence
}

// failure is what the worker itself finds wrong.
func failure(reason, evidence string) ending {
	return ending{outcome: catalogue.Error, reason: reason, evidence: evidence, final: true}
}

func infra(what string, err error) ending {
	return ending{outcome: catalogue.Infra, reason: what, evidence: err.Error()}
}

func (s *session) startFailed(program string, err error) ending {
	if errors.Is(err, syscall.ENOSPC) {
		return infra("the disk is full", err)
	}
	if _, err := os.Stat(s.workdir()); err != nil { // the error of the start would blame the program
		return failure("the program could not be started in workload.workdir", err.Error())
	}
	return failure("the program could not be started", fmt.Sprintf("%s: %v", program, err))
}

// stopped is the ending of an execution whose context has ended.
func stopped(ctx context.Context) ending {
	cause := context.Cause(ctx)
	var limit errTimeout
	if errors.As(cause, &limit) {
		return ending{outcome: catalogue.Timeout, reason: limit.Error()}
	}
	return ending{outcome: catalogue.Cancelled, reason: cause.Error()}
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

// errorEnding is a rank's own word. Its class counts where it is an outcome that a rank can know.
func errorEnding(rank int, m *protocol.Error) ending {
	end := ending{outcome: catalogue.Error, reason: fmt.Sprintf("rank %d failed", rank), evidence: m.Text, rank: rank}
	if class := catalogue.Outcome(m.Class); slices.Contains(claims, class) {
		end.outcome = class
		end.final = class == catalogue.TooBig || class == catalogue.Skipped // the same on all ranks
		return end
	}
	text := strings.ToLower(m.Text)
	end.echo = slices.ContainsFunc(echoes, func(s string) bool { return strings.Contains(text, s) })
	return end
}

// brokenEnding judges the end of a connection, which is a failure as long as the rank has work.
func (e *execution) brokenEnding(i int, err error) ending {
	end := ending{outcome: catalogue.Error, evidence: e.logTail(i), rank: i}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		end.reason, end.echo = fmt.Sprintf("rank %d closed its connection", i), true
	case errors.Is(err, net.ErrClosed): // by tell
		end.reason = fmt.Sprintf("rank %d read no message for %v", i, sendLimit)
	default:
		end.reason = fmt.Sprintf("rank %d broke the protocol: %v", i, err)
	}
	return end
}

// exitEnding judges a process that has ended although nobody asked it to.
func (e *execution) exitEnding(p *proc, state *os.ProcessState) ending {
	end := ending{outcome: catalogue.Error, evidence: e.logTail(p.rank), rank: p.rank, exit: true}
	when := "before its work was done"
	if e.ranks[p.rank].conn == nil {
		when = "before it said hello"
	}
	if state == nil { // its status was lost
		end.reason = fmt.Sprintf("%s ended %s", p.name, when)
		return end
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		end.signal = status.Signal()
		end.reason = fmt.Sprintf("%s was ended by signal %d (%v) %s", p.name, end.signal, end.signal, when)
		return end
	}
	end.reason = fmt.Sprintf("%s ended with exit code %d %s", p.name, status.ExitStatus(), when)
	return end
}

// tailBytes is how much of a rank's log an error quotes.
const tailBytes = 1200

// logTail is the end of what a rank, or the launcher of all ranks, has written during this execution.
func (e *execution) logTail(i int) string {
	if p := e.ranks[i].proc; p != nil {
		return p.tail(tailBytes)
	}
	return ""
}
