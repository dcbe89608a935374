package ranks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
)

// Of all that is seen of a failure, what explains most is picked.
func TestPick(t *testing.T) {
	var (
		oom      = Ending{Outcome: catalogue.OOMDevice, Reason: "oom"}
		nan      = Ending{Outcome: catalogue.WrongOutput, Reason: "nan"}
		said     = Ending{Outcome: catalogue.Error, Reason: "said", rank: 1}
		echo     = Ending{Outcome: catalogue.Error, Reason: "echo", echo: true}
		code     = Ending{Outcome: catalogue.Error, Reason: "code", exit: true, rank: 1}
		killed   = Ending{Outcome: catalogue.Error, Reason: "killed", exit: true, signal: syscall.SIGKILL, rank: 1}
		told     = Ending{Outcome: catalogue.Error, Reason: "told", exit: true, signal: syscall.SIGTERM}
		exitEcho = Ending{Outcome: catalogue.Error, Reason: "code of one that said echo", exit: true, rank: 2}
	)
	tests := []struct {
		seen     []Ending
		want     string
		cancelld string // after a signal to the worker
	}{
		{[]Ending{echo, code, said, nan, oom}, "oom", "oom"},
		{[]Ending{echo, code, said, nan}, "nan", "nan"},
		{[]Ending{echo, code, said}, "said", "said"},
		{[]Ending{echo, told, code}, "code", "stopped by a signal"},
		{[]Ending{exitEcho, echo, killed}, "killed", "stopped by a signal"},
		{[]Ending{echo, told}, "told", "stopped by a signal"},
		{[]Ending{echo, exitEcho}, "echo", "stopped by a signal"},
		{[]Ending{code, killed}, "code", "stopped by a signal"},
	}
	s := &Set{Ranks: []*Rank{{}, {}, {echoed: true}}}
	for _, tt := range tests {
		if got := s.pick(t.Context(), tt.seen); got.Reason != tt.want {
			t.Errorf("%v: picked %q, want %q", tt.seen, got.Reason, tt.want)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(worker.ErrSignal)
		if got := s.pick(ctx, tt.seen); got.Reason != tt.cancelld {
			t.Errorf("%v after a signal: picked %q, want %q", tt.seen, got.Reason, tt.cancelld)
		}
	}
}

func TestErrorEnding(t *testing.T) {
	for _, tt := range []struct {
		class, text string
		want        catalogue.Outcome
		echo        bool
	}{
		{"", "IndexError: list index out of range", catalogue.Error, false},
		{"too_big", "out of resource: shared memory", catalogue.TooBig, false},
		{"error_collective", "mismatch", catalogue.ErrorCollective, false},
		{"oom_comm", "NCCL WARN Cuda failure 'out of memory'", catalogue.OOMComm, false},
		{"oom_host", "no witness has seen it", catalogue.Error, false},
		{"ok", "a rank cannot say that all is well", catalogue.Error, false},
		{"cancelled", "nor that it was cancelled", catalogue.Error, false},
		{"none of the list", "", catalogue.Error, false},
		{"", "rank 0 went away during the exchange: EOF", catalogue.Error, true},
		{"error", "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1", catalogue.Error, true},
	} {
		got := errorEnding(1, &protocol.Error{Class: tt.class, Text: tt.text})
		if got.Outcome != tt.want || got.echo != tt.echo || got.Evidence != tt.text {
			t.Errorf("%q, %q: %+v", tt.class, tt.text, got)
		}
	}
}

func TestBrokenEnding(t *testing.T) {
	s := &Set{job: worker.Job{LogDir: t.TempDir()}, Ranks: []*Rank{{}}}
	for want, err := range map[string]error{
		"rank 0 closed its connection":             io.EOF,
		"rank 0 read no message for 10s":           fmt.Errorf("receive: %w", net.ErrClosed),
		"rank 0 broke the protocol: decode: wrong": errors.New("decode: wrong"),
	} {
		if got := s.brokenEnding(0, err); got.Reason != want || got.echo != errors.Is(err, io.EOF) {
			t.Errorf("%v: %+v", err, got)
		}
	}
	s.Ranks[0].sign(&protocol.Alive{Where: "hooks.py:41 run_step"})
	if got := s.brokenEnding(0, io.EOF); got.Evidence != "the last sign of life of rank 0 came from hooks.py:41 run_step" {
		t.Errorf("of a rank that has written nothing: %q", got.Evidence)
	}
}

// Of a crash the evidence shows the model's frames, and what others have written before and after it.
func TestWithoutHarness(t *testing.T) {
	const crash = "loaded\nFatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n" +
		"  File \"/a/ops.py\", line 3 in kernel\n  File \"/a/ho\"oks.py\", line 9 in run_step\n" +
		"  File \"/a/cpbench_torch.py\", line 1269 in one\n  File \"<frozen runpy>\", line 88 in _run_code\n\nExtension modules: numpy, torch (total: 2)\n"
	for text, want := range map[string]string{
		"":              "",
		"no crash\n":    "no crash",
		crash:           "line 9 in run_step",
		crash + "SIG\n": "line 9 in run_step\nSIG",
		"Traceback:\n  File \"/a/cpbench_torch.py\", line 5, in main\nKeyError\n": "line 5, in main\nKeyError",
	} {
		if got := withoutHarness(text); !strings.HasSuffix(got, want) || want == "" && got != "" || strings.Contains(got, "Extension") || strings.Contains(got, "1269") {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Evidence of any length leads to a result that can be written.
func TestLongEvidence(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, end := range []Ending{
		{Outcome: catalogue.OOMDevice, Reason: long, Evidence: long + "CUDA out of memory"},
		Failure(long, strings.Repeat("\xff\x00", 5000)+"CUDA out of memory"),
	} {
		r := &result.Result{Schema: result.Schema, Plan: "p", Point: "abcd", Repeat: 1, Attempt: 1}
		end.Into(r)
		if err := result.Write(t.TempDir(), r); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(r.Evidence, "CUDA out of memory") {
			t.Errorf("%.50q", r.Evidence)
		}
	}
}

// A rank that does not read must not stop the worker: neither for ever, nor after the end of the context.
func TestTellADeafRank(t *testing.T) {
	for name, tt := range map[string]struct{ cancel, want time.Duration }{
		"limit":  {time.Hour, sendLimit},
		"signal": {3 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				deaf, ours := net.Pipe()
				defer deaf.Close()
				hears, good := net.Pipe()
				defer hears.Close()
				s := &Set{Ranks: []*Rank{{}, {conn: protocol.NewConn(ours)}, {conn: protocol.NewConn(good)}}}
				ctx, cancel := context.WithTimeout(t.Context(), tt.cancel)
				defer cancel()
				heard := make(chan error, 1)
				go func() {
					_, err := protocol.NewConn(hears).Receive()
					heard <- err
				}()
				began := time.Now()
				s.Tell(ctx, &protocol.Step{Phase: "timed", Count: 1})
				if took := time.Since(began); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
				if _, err := deaf.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("the deaf rank's connection: %v, want its end", err)
				}
				if err := <-heard; name == "limit" && err != nil {
					t.Errorf("the other rank heard %v", err)
				}
			})
		})
	}
}

// How long a first failure waits for a better explanation.
func TestSettle(t *testing.T) {
	killed := Ending{Outcome: catalogue.Error, Reason: "killed", exit: true, signal: syscall.SIGKILL}
	code := Ending{Outcome: catalogue.Error, Reason: "code", exit: true}
	said := Ending{Outcome: catalogue.Error, Reason: "said"}
	final := Failure("final", "")
	oom := event{rank: 1, msg: &protocol.OOM{Text: "CUDA out of memory", Where: "step"}}
	tests := []struct {
		name         string
		first        Ending
		gone, silent bool          // both ranks
		then         *event        // 50 ms later
		stop         time.Duration // when the worker hears of a signal; 0: never
		want         string
		took         time.Duration
	}{
		{name: "a crash is clear once nobody is left", first: killed, gone: true, silent: true, want: "killed"},
		{name: "words of a process that is gone are still under way", first: killed, gone: true, then: &oom, want: "rank 1 ran out of memory in step", took: 50 * time.Millisecond},
		{name: "an exit code may be the doing of a signal", first: code, gone: true, silent: true, want: "code", took: lateGrace},
		{name: "it was", first: code, gone: true, silent: true, stop: 200 * time.Millisecond, want: "stopped by a signal", took: 200 * time.Millisecond},
		{name: "others may know better", first: said, want: "said", took: failGrace},
		{name: "one does", first: said, then: &oom, want: "rank 1 ran out of memory in step", took: 50 * time.Millisecond},
		{name: "a signal changes no word", first: said, stop: 200 * time.Millisecond, want: "said", took: 200 * time.Millisecond},
		{name: "nobody can know better", first: final, want: "final"},
		{name: "memory is final", first: Ending{Outcome: catalogue.OOMDevice, Reason: "memory"}, want: "memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Set{events: make(chan event, 1)}
				s.over, s.end = context.WithCancel(t.Context())
				defer s.end()
				for range 2 {
					s.Ranks = append(s.Ranks, &Rank{proc: &proc{gone: tt.gone}, silent: tt.silent})
					s.procs = append(s.procs, s.Ranks[len(s.Ranks)-1].proc)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.then != nil {
					time.AfterFunc(50*time.Millisecond, func() { s.send(*tt.then) })
				}
				if tt.stop > 0 {
					time.AfterFunc(tt.stop, func() { cancel(worker.ErrSignal) })
				}
				began := time.Now()
				got := s.settle(ctx, tt.first)
				if took := time.Since(began); got.Reason != tt.want || took != tt.took {
					t.Errorf("%q after %v, want %q after %v", got.Reason, took, tt.want, tt.took)
				}
			})
		})
	}
}

// Ranks that do not end after stop are waited for, but not once the worker itself has to end.
func TestWaitGone(t *testing.T) {
	for name, tt := range map[string]struct{ stop, want time.Duration }{
		"for a while": {time.Hour, stopGrace},
		"a signal":    {time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := slog.New(slog.DiscardHandler)
				s := &Set{job: worker.Job{Log: log}, events: make(chan event), procs: []*proc{{}}, Ranks: []*Rank{{}}}
				ctx, cancel := context.WithTimeout(t.Context(), tt.stop)
				defer cancel()
				began := time.Now()
				s.waitGone(ctx)
				if took := time.Since(began); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// Whoever calls later than the end of an execution waits for nothing.
func TestEventsAfterTheEnd(t *testing.T) {
	s := &Set{events: make(chan event)}
	s.over, s.end = context.WithCancel(t.Context())
	s.end()
	s.send(event{}) // returns
}
