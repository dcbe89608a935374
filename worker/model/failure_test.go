package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/model/protocol"
	"cpbench/worker/model/ranks"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// failGrace is how long package ranks waits for a better explanation of a failure.
const failGrace = 3 * time.Second

// quick is far less than a peer that hangs would be waited for, on however busy a machine. The graces themselves are
// tested to the moment, in virtual time, where they are kept: package ranks.
const quick = 20 * time.Second

// Every way in which the ranks of the reference model fail has its outcome, and nothing is left running.
func TestFaults(t *testing.T) {
	tests := []struct {
		fault    string
		with     string
		outcome  catalogue.Outcome
		reason   string
		evidence string
		limit    time.Duration
	}{
		{"oom-rank=1", "", catalogue.OOMDevice, "rank 1 ran out of memory in step", "out of memory", quick},
		{"oom-rank=0@build", "", catalogue.OOMDevice, "rank 0 ran out of memory in build", "out of memory", quick},
		{"oom-rank=1@prepare", "", catalogue.OOMDevice, "rank 1 ran out of memory in prepare", "out of memory", quick},
		{"oom-rank=1@warmup", "", catalogue.OOMDevice, "rank 1 ran out of memory in step", "out of memory", quick},
		{"hang-rank=1", "timeout: 1500ms", catalogue.Timeout, "one execution took longer than workload.timeout (1.5s)", "no answer yet from rank ", 1500*time.Millisecond + quick},
		{"error-rank=0", "", catalogue.Error, "rank 0 failed", "fault error-rank", failGrace + quick},
		{"exit=1:7", "", catalogue.Error, "rank 1 ended with exit code 7 before its work was done", "", failGrace + quick},
		{"crash-rank=1", "", catalogue.Error, "rank 1 was ended by signal 9 (killed) before its work was done", "", failGrace + quick},
		{"nan=1", "", catalogue.WrongOutput, "the output of rank 1 is not finite", "", quick},
		{"garbage=0", "", catalogue.Error, "rank 0 broke the protocol: decode", "", failGrace + quick},
		{"exit=0:0", "", catalogue.Error, "rank 0 ended with exit code 0 before its work was done", "", failGrace + quick},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			_, r, took := only(t, refer(2, `, --fault, "`+tt.fault+`"`, tt.with))
			if r.Outcome != tt.outcome || !strings.HasPrefix(r.Reason, tt.reason) || !strings.Contains(r.Evidence, tt.evidence) {
				t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
			}
			if took > tt.limit {
				t.Errorf("took %v, want less than %v", took, tt.limit)
			}
			if warned(r, catalogue.LateKill) {
				t.Errorf("warnings: %v", r.Warnings)
			}
		})
	}
}

// What the ranks had measured before a failure stays in the result, with the doubt.
func TestFailureAfterTimedSteps(t *testing.T) {
	st := newStage(t, refer(2, `, --fault, "hang-rank=1@prepare"`, "timeout: 500ms"))
	r, samples, _ := st.perform(t.Context(), 0)
	if r.Outcome != catalogue.Timeout || r.Steps != nil || len(samples) != 0 || warned(r, catalogue.Interrupted) {
		t.Errorf("before the steps: %s, %+v", r.Outcome, r.Steps)
	}
	st = newStage(t, refer(1, `, --fault, "slow=100ms"`, "timeout: 2500ms", "iterations: 60"))
	r, samples, _ = st.perform(t.Context(), 0)
	if r.Outcome != catalogue.Timeout || r.Steps == nil || r.Steps.N != len(samples) || r.Steps.N == 0 || !warned(r, catalogue.Interrupted) {
		t.Errorf("within the steps: %s, %+v, %d samples, %v", r.Outcome, r.Steps, len(samples), r.Warnings)
	}
}

// A rank that ignores TERM, and a process that it has put into a session of its own, are gone soon nevertheless.
func TestStubbornProcesses(t *testing.T) {
	st, r, took := only(t, refer(2, `, --fault, "ignore-term", --fault, "grandchild=1@prepare", --fault, "oom-rank=0"`))
	if r.Outcome != catalogue.OOMDevice || !warned(r, catalogue.LateKill) {
		t.Errorf("%s, %v", r.Outcome, r.Warnings)
	}
	if took > 10*time.Second {
		t.Errorf("took %v, want at most 10 s", took)
	}
	pid := grandchild(t, st)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", pid, err)
	}
}

// grandchild is the process that rank 1 started.
func grandchild(t *testing.T, st *stage) int {
	t.Helper()
	_, text, ok := strings.Cut(st.output(1), "grandchild pid ")
	if !ok {
		t.Fatalf("no grandchild in %q", st.output(1))
	}
	word, _, _ := strings.Cut(text, "\n")
	pid, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// Programs that break the protocol, each in its way.
func TestActors(t *testing.T) {
	tests := []struct {
		behaviour string
		outcome   catalogue.Outcome
		reason    string
		launches  int
	}{
		{"honest", catalogue.OK, "", 1},
		{"exit-0 alone", catalogue.Error, "rank 0 ended with exit code 0 before it said hello", 1},
		{"wrong-world", catalogue.Error, "rank 1 says that the world has 3 ranks, but 2 were planned", 1},
		{"newer", catalogue.Error, "rank 1 speaks protocol 2, this worker speaks 1", 1},
		{"out-of-range", catalogue.Error, "a rank says that it is rank 7 of 2", 1},
		{"wrong-token", catalogue.OK, "", 1},
		{"hello-twice", catalogue.Error, "rank 1 s", 1}, // said hello twice; or out of turn, if rank 0 is slower
		{"twin", catalogue.Error, "two connections say that they are rank 1", 1},
		{"sizes", catalogue.Error, "the ranks disagree: rank 0 and rank 1 prepared different sizes", 1},
		{"few-steps", catalogue.Error, "rank 1 reported 0 steps instead of 1", 1},
		{"negative", catalogue.Error, "rank 1 reported a step of -1 seconds", 1},
		{"unasked", catalogue.Error, "rank 1 ", 1}, // sent steps out of turn, or those of the next request
		{"too-big", catalogue.TooBig, "rank 1 failed", 1},
		{"made-up alone", catalogue.Error, "rank 0 failed", 1},
		{"last-words", catalogue.OOMDevice, "rank 1 ran out of memory in build", 1},
		{"oom-garbage alone", catalogue.Error, "rank 0 ran out of memory in step; a request of this size is garbage", 1},
		{"oom-free alone", catalogue.OOMDevice, "rank 0 ran out of memory in step; the request is not larger than the memory that is free", 2},
		{"suspect alone", catalogue.OOMSuspect, "rank 0 failed", 2},
		{"suspect-short alone", catalogue.OOMDevice, "rank 0 failed", 2},
		{"suspect-once alone", catalogue.OK, "", 2},
		{"suspect-late alone", catalogue.OK, "", 2}, // nothing is left of the first execution
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			behaviour, alone := strings.CutSuffix(tt.behaviour, " alone")
			text := play(2, behaviour, "1")
			if alone { // nobody is waited for
				text = play(1, behaviour, "0")
			}
			st, r, took := only(t, text)
			if r.Outcome != tt.outcome || !strings.HasPrefix(r.Reason, tt.reason) || tt.reason == "" && r.Reason != "" {
				t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
			}
			if n := len(st.events("launch")); n != tt.launches {
				t.Errorf("%d launches, want %d", n, tt.launches)
			}
			if took > quick {
				t.Errorf("took %v", took)
			}
			if r.Outcome.Fits() && warned(r, catalogue.Interrupted) {
				t.Errorf("a good result has the doubts of another execution: %v", r.Warnings)
			}
			if tt.behaviour == "wrong-token" && (len(st.events("dropped a stranger")) != 1 || !strings.Contains(st.output(1), "stranger: EOF")) {
				t.Errorf("the stranger was not dropped: %s", st.output(1))
			}
		})
	}
}

// A word about memory counts however soon its process ends after it, and however.
func TestLastWords(t *testing.T) {
	for _, behaviour := range []string{"last-words", "last-words-killed"} {
		for i := range 8 {
			if _, r, _ := only(t, play(1, behaviour, "0")); r.Outcome != catalogue.OOMDevice {
				t.Fatalf("%s, try %d: %s: %s", behaviour, i, r.Outcome, r.Reason)
			}
		}
	}
}

// Somebody outside of the tree who has found the port, and says nothing, does not keep an execution from its end.
func TestSilentStranger(t *testing.T) {
	st := newStage(t, play(1, "env", "0")) // which tells where the worker listens
	open, err := Open(t.Context(), st.job)
	if err != nil {
		t.Fatal(err)
	}
	setting, err := st.run.Plan.At(st.task.Pairs[0].Point, 0)
	if err != nil {
		t.Fatal(err)
	}
	set := ranks.Launch(t.Context(), st.job, open.(*session).nodes, setting, "stranger")
	r := &result.Result{Metrics: map[string]*float64{}, Provenance: map[string]string{}}
	end := open.(*session).prepare(t.Context(), set, r)
	address, _, _ := strings.Cut(st.output(0)[strings.Index(st.output(0), protocol.EnvConnect+"=")+len(protocol.EnvConnect)+1:], "\n")
	stranger, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	began := time.Now()
	set.Close(t.Context(), end, r)
	if took := time.Since(began); !end.OK() || took > time.Second {
		t.Errorf("%+v; the end took %v", end, took)
	}
	if _, err := stranger.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the stranger's connection: %v, want its end", err)
	}
}

func TestProgramCannotBeStarted(t *testing.T) {
	for name, tt := range map[string]struct{ command, with, evidence string }{
		"no such file":      {`[./no such "model"]`, "", `./no such "model": `},
		"no such program":   {"[no-such-program-anywhere]", "", "not found"},
		"no such directory": {"[/bin/true]", "workdir: no/such/folder", "no/such/folder"},
	} {
		t.Run(name, func(t *testing.T) {
			_, r, took := only(t, spec(2, tt.command, tt.with))
			if r.Outcome != catalogue.Error || !strings.HasPrefix(r.Reason, "the program could not be started") || !strings.Contains(r.Evidence, tt.evidence) {
				t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
			}
			if took > time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("half of the ranks", func(t *testing.T) { // the second log cannot be opened
		st := newStage(t, play(2, "honest", "0"))
		if err := os.Mkdir(filepath.Join(st.job.LogDir, "rank-1.log"), 0o700); err != nil {
			t.Fatal(err)
		}
		r, _, _ := st.perform(t.Context(), 0)
		if r.Outcome != catalogue.Error || !strings.Contains(r.Evidence, "is a directory") {
			t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
		}
	})
}

// A scheduler sends TERM to the ranks at the same moment as to the worker: whoever is faster, it is not their crash.
func TestTermToRanksAndWorker(t *testing.T) {
	for _, behaviour := range []string{"term", "term-handled"} {
		t.Run(behaviour, func(t *testing.T) {
			st := newStage(t, play(2, behaviour, "all"))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() { // the worker hears of it after its ranks have ended
				for !st.allEnded() {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(250 * time.Millisecond)
				cancel(worker.ErrSignal)
			}()
			r, _, took := st.perform(ctx, 0)
			if r.Outcome != catalogue.Cancelled || r.Reason != worker.ErrSignal.Error() {
				t.Errorf("%s: %q", r.Outcome, r.Reason)
			}
			if took > quick {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("to the ranks alone", func(t *testing.T) {
		_, r, _ := only(t, play(1, "term", "0"))
		if r.Outcome != catalogue.Error || !strings.HasPrefix(r.Reason, "rank 0 was ended by signal 15") {
			t.Errorf("%s: %q", r.Outcome, r.Reason)
		}
	})
}

// allEnded reports whether the ranks have behaved and are gone.
func (st *stage) allEnded() bool {
	for rank := range 2 {
		text, err := os.ReadFile(filepath.Join(st.job.LogDir, fmt.Sprintf("rank-%d.log", rank)))
		if err != nil || !strings.Contains(string(text), "TERM to myself") {
			return false
		}
	}
	left, err := tree.Descendants()
	return err == nil && len(left) == 0
}

// A signal in the middle of a step ends the execution at once.
func TestSignal(t *testing.T) {
	st := newStage(t, play(2, "wait", "1"))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		for {
			if text, err := os.ReadFile(filepath.Join(st.job.LogDir, "rank-1.log")); err == nil && strings.Contains(string(text), "waiting") {
				cancel(worker.ErrSignal)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r, _, took := st.perform(ctx, 0)
	if r.Outcome != catalogue.Cancelled || r.Reason != worker.ErrSignal.Error() || took > quick {
		t.Errorf("%s: %q after %v", r.Outcome, r.Reason, took)
	}
}
