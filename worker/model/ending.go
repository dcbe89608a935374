package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	echo     bool // may well be the consequence of another rank's failure
	exit     bool // known from the exit of the process only
	term     bool // ... which TERM has ended
}

// weight orders endings by how much they explain.
func (e ending) weight() int {
	switch {
	case e.outcome.OutOfMemory():
		return 5
	case e.outcome != catalogue.Error:
		return 4
	case e.exit && !e.term:
		return 2
	case e.exit:
		return 1
	case e.echo:
		return 0
	}
	return 3
}

func (e ending) into(r *result.Result) {
	if e.outcome == "" {
		r.Outcome = catalogue.OK
		return
	}
	r.Outcome, r.Reason, r.Evidence = e.outcome, e.reason, e.evidence
}

func infra(what string, err error) ending {
	return ending{outcome: catalogue.Infra, reason: what, evidence: err.Error()}
}

func startFailed(program string, err error) ending {
	reason := "the program could not be started"
	if errors.Is(err, syscall.ENOSPC) {
		return infra("the disk is full", err)
	}
	return ending{outcome: catalogue.Error, reason: reason, evidence: fmt.Sprintf("%s: %v", program, err)}
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

// stoppedOr prefers the end of the context to a failure that it may have caused: a scheduler sends TERM to the ranks
// at the same moment as to the worker. What a rank said about memory stands.
func stoppedOr(ctx context.Context, e ending) ending {
	if ctx.Err() != nil && e.weight() < 3 {
		return stopped(ctx)
	}
	return e
}

// errorEnding is a rank's own word. Its class counts where it is an outcome that a rank can know.
func errorEnding(rank int, m *protocol.Error) ending {
	e := ending{outcome: catalogue.Error, reason: fmt.Sprintf("rank %d failed", rank), evidence: m.Text, rank: rank}
	switch class := catalogue.Outcome(m.Class); class { //nolint:exhaustive // the others cannot be known by a rank
	case catalogue.TooBig, catalogue.ErrorKernel, catalogue.ErrorCollective, catalogue.WrongOutput, catalogue.NoArtifact,
		catalogue.Skipped, catalogue.OOMComm, catalogue.OOMSuspect:
		e.outcome = class
	case catalogue.Error:
		e.echo = strings.Contains(m.Text, "peer") // its neighbour went first
	}
	return e
}

// exitEnding judges a process that has ended although nobody asked it to.
func (e *execution) exitEnding(i int) ending {
	r := e.ranks[i]
	end := ending{outcome: catalogue.Error, evidence: e.logTail(i), rank: i, exit: true}
	status, _ := r.exit.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		end.reason = fmt.Sprintf("rank %d was ended by signal %d (%v)", i, status.Signal(), status.Signal())
		end.term = status.Signal() == syscall.SIGTERM
	case r.conn == nil:
		end.reason = fmt.Sprintf("rank %d ended with exit code %d before it said hello", i, status.ExitStatus())
	default:
		end.reason = fmt.Sprintf("rank %d ended with exit code %d before its work was done", i, status.ExitStatus())
	}
	return end
}

// tailBytes is how much of a rank's log an error quotes.
const tailBytes = 1200

// logTail is the end of what a rank has written during this execution.
func (e *execution) logTail(i int) string {
	f, err := os.Open(e.s.rankLog(i))
	if err != nil {
		return ""
	}
	defer f.Close() // read only
	from := e.ranks[i].log
	if info, err := f.Stat(); err == nil && info.Size()-from > tailBytes {
		from = info.Size() - tailBytes
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
}

func isAddrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
