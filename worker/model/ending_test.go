package model

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
		oom      = ending{outcome: catalogue.OOMDevice, reason: "oom"}
		nan      = ending{outcome: catalogue.WrongOutput, reason: "nan"}
		said     = ending{outcome: catalogue.Error, reason: "said", rank: 1}
		echo     = ending{outcome: catalogue.Error, reason: "echo", echo: true}
		code     = ending{outcome: catalogue.Error, reason: "code", exit: true, rank: 1}
		killed   = ending{outcome: catalogue.Error, reason: "killed", exit: true, signal: syscall.SIGKILL, rank: 1}
		told     = ending{outcome: catalogue.Error, reason: "told", exit: true, signal: syscall.SIGTERM}
		exitEcho = ending{outcome: catalogue.Error, reason: "code of one that said echo", exit: true, rank: 2}
	)
	tests := []struct {
		seen     []ending
		want     string
		cancelld string // after a signal to the worker
	}{
		{[]ending{echo, code, said, nan, oom}, "oom", "oom"},
		{[]ending{echo, code, said, nan}, "nan", "nan"},
		{[]ending{echo, code, said}, "said", "said"},
		{[]ending{echo, told, code}, "code", "stopped by a signal"},
		{[]ending{exitEcho, echo, killed}, "killed", "stopped by a signal"},
		{[]ending{echo, told}, "told", "stopped by a signal"},
		{[]ending{echo, exitEcho}, "echo", "stopped by a signal"},
		{[]ending{code, killed}, "code", "stopped by a signal"},
	}
	e := &execution{ranks: []*rank{{}, {}, {echoed: true}}}
	for _, tt := range tests {
		if got := e.pick(t.Context(), tt.seen); got.reason != tt.want {
			t.Errorf("%v: picked %q, want %q", tt.seen, got.reason, tt.want)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(worker.ErrSignal)
		if got := e.pick(ctx, tt.seen); got.reason != tt.cancelld {
			t.Errorf("%v after a signal: picked %q, want %q", tt.seen, got.reason, tt.cancelld)
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
		if got.outcome != tt.want || got.echo != tt.echo || got.evidence != tt.text {
			t.Errorf("%q, %q: %+v", tt.class, tt.text, got)
		}
	}
}

func TestBrokenEnding(t *testing.T) {
	e := &execution{s: &session{job: worker.Job{LogDir: t.TempDir()}}, ranks: []*rank{{}}}
	for want, err := range map[string]error{
		"rank 0 closed its connection":             io.EOF,
		"rank 0 read no message for 10s":           fmt.Errorf("receive: %w", net.ErrClosed),
		"rank 0 broke the protocol: decode: wrong": errors.New("decode: wrong"),
	} {
		if got := e.brokenEnding(0, err); got.reason != want || got.echo != errors.Is(err, io.EOF) {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

// Evidence of any length leads to a result that can be written.
func TestLongEvidence(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, end := range []ending{
		{outcome: catalogue.OOMDevice, reason: long, evidence: long + "CUDA out of memory"},
		failure(long, strings.Repeat("\xff\x00", 5000)+"CUDA out of memory"),
	} {
		r := &result.Result{Schema: result.Schema, Plan: "p", Point: "abcd", Repeat: 1, Attempt: 1}
		end.into(r)
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
				e := &execution{ranks: []*rank{{}, {conn: protocol.NewConn(ours)}, {conn: protocol.NewConn(good)}}}
				ctx, cancel := context.WithTimeout(t.Context(), tt.cancel)
				defer cancel()
				heard := make(chan error, 1)
				go func() {
					_, err := protocol.NewConn(hears).Receive()
					heard <- err
				}()
				began := time.Now()
				e.tell(ctx, &protocol.Step{Phase: "timed", Count: 1})
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
	killed := ending{outcome: catalogue.Error, reason: "killed", exit: true, signal: syscall.SIGKILL}
	code := ending{outcome: catalogue.Error, reason: "code", exit: true}
	said := ending{outcome: catalogue.Error, reason: "said"}
	final := failure("final", "")
	oom := event{rank: 1, msg: &protocol.OOM{Text: "CUDA out of memory", Where: "step"}}
	tests := []struct {
		name         string
		first        ending
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
		{name: "memory is final", first: ending{outcome: catalogue.OOMDevice, reason: "memory"}, want: "memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &execution{events: make(chan event, 1)}
				e.over, e.end = context.WithCancel(t.Context())
				defer e.end()
				for range 2 {
					e.ranks = append(e.ranks, &rank{proc: &proc{gone: tt.gone}, silent: tt.silent})
					e.procs = append(e.procs, e.ranks[len(e.ranks)-1].proc)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.then != nil {
					time.AfterFunc(50*time.Millisecond, func() { e.send(*tt.then) })
				}
				if tt.stop > 0 {
					time.AfterFunc(tt.stop, func() { cancel(worker.ErrSignal) })
				}
				began := time.Now()
				got := e.settle(ctx, tt.first)
				if took := time.Since(began); got.reason != tt.want || took != tt.took {
					t.Errorf("%q after %v, want %q after %v", got.reason, took, tt.want, tt.took)
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
				e := &execution{s: &session{job: worker.Job{Log: log}}, events: make(chan event), procs: []*proc{{}}, ranks: []*rank{{}}}
				ctx, cancel := context.WithTimeout(t.Context(), tt.stop)
				defer cancel()
				began := time.Now()
				e.waitGone(ctx)
				if took := time.Since(began); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// Whoever calls later than the end of an execution waits for nothing.
func TestEventsAfterTheEnd(t *testing.T) {
	e := &execution{events: make(chan event)}
	e.over, e.end = context.WithCancel(t.Context())
	e.end()
	e.send(event{}) // returns
}

func TestSteady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		seen []float64
		want string
	}{
		{nil, "unknown"},
		{[]float64{9, 9, 1, 1, 1, 1}, "unknown"},
		{[]float64{9, 5, 1, 1, 1, 1, 1}, "yes"}, // the cold steps do not count
		{[]float64{9, 5, 2, 1, 1.01, 1, 1.04, 1}, "yes"},
		{[]float64{9, 5, 1, 1, 1.06, 1, 1}, "no"},
		{[]float64{9, 5, 1.04, 1.03, 1.02, 1.01, 1}, "no"}, // still falls
		{[]float64{9, 5, 1, 1.01, 1.02, 1.03, 1.04}, "no"}, // still rises
	} {
		if got := steady(tt.seen); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.seen, got, tt.want)
		}
	}
}

func TestFreePort(t *testing.T) {
	t.Parallel()
	first, err := freePort("a task")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	second, err := freePort("a task")
	if err != nil || second == first || second < 10000 || second >= 60999 {
		t.Errorf("a second port of the same task: %d after %d, %v", second, first, err)
	}
}

// BenchmarkHarness is one step of ranks that compute nothing: what remains is the conversation. T10 of the method
// allows 5 % of a step of 10 ms, which is 500 µs.
func BenchmarkHarness(b *testing.B) {
	for _, ranks := range []int{1, 4} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			st := newStage(b, play(ranks, "honest", "0"))
			open, err := Open(b.Context(), st.job)
			if err != nil {
				b.Fatal(err)
			}
			s := open.(*session)
			setting, err := st.run.Plan.At(st.task.Pairs[0].Point, 0)
			if err != nil {
				b.Fatal(err)
			}
			r := &result.Result{Metrics: map[string]*float64{}, Provenance: map[string]string{}}
			e := s.launch(setting, "benchmark")
			end := e.prepare(b.Context(), r)
			if end.outcome == "" {
				end = e.point(b.Context(), setting.Point, r)
			}
			for b.Loop() {
				if end.outcome == "" {
					_, end = e.step(b.Context(), "timed", 1)
				}
			}
			e.close(b.Context(), end, r)
			if end.outcome != "" {
				b.Fatalf("%+v", end)
			}
		})
	}
}

// The figure of any rank, not only of the lowest, tells that memory was short.
func TestAllocatorRetries(t *testing.T) {
	figure := func(v float64) []protocol.Figure { return []protocol.Figure{{Name: "alloc_retries", Value: v}} }
	for name, tt := range map[string]struct {
		values []float64
		want   int
	}{"none": {[]float64{0, 0}, 0}, "second rank": {[]float64{0, 3}, 1}, "both": {[]float64{1, 1}, 2}} {
		r := &result.Result{}
		e := &execution{ranks: []*rank{{own: figure(tt.values[0])}, {own: figure(tt.values[1])}}}
		e.figures(r)
		if len(r.Warnings) != tt.want || len(r.Extra) != 1 {
			t.Errorf("%s: %v, %v", name, r.Warnings, r.Extra)
		}
	}
}
