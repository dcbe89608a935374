package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// In each case the phases of a task of three points run in their order, whatever happens in one of them, and leave
// results for the right pairs.
func TestPhases(t *testing.T) {
	t.Parallel()
	waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name   string
		during string // the phase in which it happens
		// happens is what the phase does; end stands for a signal.
		happens func(ctx context.Context, end func(), r *result.Result) error
		left    time.Duration // until the end of the job; 0: unknown
		term    bool          // the signal is TERM, not the warning
		order   string
		want    string // outcomes
		reason  string // of the pair that it happened to
		err     string
	}{
		{name: "all is well", order: "open n=1 n=2 n=3 close", want: "ok ok ok"},

		{
			name: "open fails", during: "open", happens: func(context.Context, func(), *result.Result) error { return errors.New("no license") },
			order: "open", want: "error error error", reason: "the workload could not be opened",
		},
		{
			name: "open meets a signal", during: "open", happens: func(ctx context.Context, end func(), _ *result.Result) error { end(); return waits(ctx) },
			order: "open", want: "cancelled cancelled cancelled", reason: "stopped by a signal",
		},
		{
			name: "open meets a signal near the end", during: "open", left: 100 * time.Second,
			happens: func(ctx context.Context, end func(), _ *result.Result) error { end(); return waits(ctx) },
			order:   "open", want: "timeout timeout timeout", reason: "stopped by a signal near the job's time limit",
		},
		{
			name: "open ends well after a signal", during: "open", happens: func(_ context.Context, end func(), _ *result.Result) error { end(); synctest.Wait(); return nil },
			order: "open close", want: "cancelled cancelled cancelled", reason: "stopped by a signal",
		},
		{
			name: "open takes too long", during: "open", happens: func(ctx context.Context, _ func(), _ *result.Result) error { return waits(ctx) },
			order: "open", want: "timeout timeout timeout", reason: "the task's time of 5m0s was used up",
		},

		{name: "run fails", during: "n=2", happens: func(_ context.Context, _ func(), r *result.Result) error {
			r.Outcome, r.Reason = catalogue.Error, "boom"
			return nil
		}, order: "open n=1 n=2 n=3 close", want: "ok error ok", reason: "boom"},
		{name: "run meets a signal", during: "n=2", happens: func(ctx context.Context, end func(), r *result.Result) error {
			end()
			r.Outcome, r.Reason = catalogue.Cancelled, "ranks stopped"
			return waits(ctx)
		}, order: "open n=1 n=2 close", want: "ok cancelled -", reason: "stopped by a signal"},
		{name: "run crashes at a signal", during: "n=2", happens: func(_ context.Context, end func(), r *result.Result) error {
			end()
			r.Outcome, r.Reason = catalogue.Error, "rank 0 was ended by signal 15"
			return nil
		}, order: "open n=1 n=2 close", want: "ok cancelled -", reason: "stopped by a signal"},
		{name: "run delivers ok after a signal", during: "n=2", left: 100 * time.Second, happens: func(ctx context.Context, end func(), _ *result.Result) error {
			end()
			return waits(ctx)
		}, order: "open n=1 n=2 close", want: "ok ok -", reason: ""},
		{name: "run is cut by a signal near the end", during: "n=1", left: 100 * time.Second, happens: func(ctx context.Context, end func(), r *result.Result) error {
			end()
			r.Outcome = catalogue.Cancelled
			return waits(ctx)
		}, order: "open n=1 close", want: "timeout - -", reason: "stopped by a signal near the job's time limit"},
		{name: "run is cut by TERM long before the limit can be the cause", during: "n=1", left: 100 * time.Second, term: true, happens: func(ctx context.Context, end func(), r *result.Result) error {
			end()
			r.Outcome = catalogue.Cancelled
			return waits(ctx)
		}, order: "open n=1 close", want: "cancelled - -", reason: "stopped by a signal"},
		{name: "run is cut by TERM at the limit", during: "n=1", left: 5 * time.Second, term: true, happens: func(ctx context.Context, end func(), r *result.Result) error {
			end()
			r.Outcome = catalogue.Cancelled
			return waits(ctx)
		}, order: "open n=1 close", want: "timeout - -", reason: "stopped by a signal near the job's time limit"},
		{name: "run is cut by a signal well before the end", during: "n=1", left: 30 * time.Minute, happens: func(ctx context.Context, end func(), r *result.Result) error {
			end()
			r.Outcome = catalogue.Cancelled
			return waits(ctx)
		}, order: "open n=1 close", want: "cancelled - -", reason: "stopped by a signal"},
		{name: "run delivers memory after a signal", during: "n=3", happens: func(ctx context.Context, end func(), r *result.Result) error {
			end()
			r.Outcome, r.Reason = catalogue.OOMDevice, "rank 1 ran out of memory"
			return waits(ctx)
		}, order: "open n=1 n=2 n=3 close", want: "ok ok oom_device", reason: "rank 1 ran out of memory"},
		{name: "run takes too long", during: "n=2", happens: func(ctx context.Context, _ func(), r *result.Result) error {
			r.Outcome = catalogue.Cancelled
			return waits(ctx)
		}, order: "open n=1 n=2 close", want: "ok timeout -", reason: "the task's time of 5m0s was used up"},
		{name: "run has a time-out of its own", during: "n=2", happens: func(_ context.Context, _ func(), r *result.Result) error {
			r.Outcome, r.Reason = catalogue.Timeout, "workload.timeout"
			return nil
		}, order: "open n=1 n=2 n=3 close", want: "ok timeout ok", reason: "workload.timeout"},

		{
			name: "close fails", during: "close", happens: func(context.Context, func(), *result.Result) error { return errors.New("server hangs") },
			order: "open n=1 n=2 n=3 close", want: "ok ok ok", err: "server hangs",
		},
		{
			name: "close meets a signal", during: "close", happens: func(_ context.Context, end func(), _ *result.Result) error { end(); return nil },
			order: "open n=1 n=2 n=3 close", want: "ok ok ok",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				run := newRun(t, small)
				signal := ErrWarned
				if tt.term {
					signal = ErrSignal
				}
				ctx, end := signaller(t, signal)
				f := newFake(t, run)
				hit := -1
				f.open = func(ctx context.Context) error {
					if tt.during == "open" {
						hit = 0
						return tt.happens(ctx, end, nil)
					}
					return nil
				}
				f.exec = func(ctx context.Context, pair plan.Pair, r *result.Result) []result.Sample {
					if f.name(pair) == tt.during {
						hit = int(f.name(pair)[2] - '1')
						_ = tt.happens(ctx, end, r) // a run returns no error
					}
					return nil
				}
				f.close = func() error {
					if tt.during == "close" {
						return tt.happens(ctx, end, nil)
					}
					return nil
				}
				cfg := f.config()
				if tt.left > 0 {
					cfg.Alloc.End = time.Now().Add(tt.left)
				}
				err := Run(ctx, cfg)
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("error = %v, want %q", err, tt.err)
				}
				if diff := cmp.Diff(tt.order, f.order()); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.want, outcomes(t, run)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				if hit >= 0 {
					if got := only(t, run, 0, hit).Reason; got != tt.reason {
						t.Errorf("reason = %q, want %q", got, tt.reason)
					}
				}
			})
		})
	}
}

// Whoever sends a signal may kill soon afterwards: the result lies on the disk while the program still runs, and what
// the program leads to replaces it.
func TestResultFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		then catalogue.Outcome
		want catalogue.Outcome
	}{
		{"nothing better comes", catalogue.Cancelled, catalogue.Cancelled},
		{"the step had just ended", catalogue.OK, catalogue.OK},
		{"it was out of memory", catalogue.OOMDevice, catalogue.OOMDevice},
		{"it crashed", catalogue.Error, catalogue.Cancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				run := newRun(t, small)
				ctx, end := signaller(t, ErrSignal)
				f := newFake(t, run)
				began := time.Now()
				f.exec = func(_ context.Context, pair plan.Pair, r *result.Result) []result.Sample {
					time.Sleep(90 * time.Second) // of the bubble
					end()
					synctest.Wait() // until the worker waits for this function
					early, err := Last(run, pair)
					if err != nil || early == nil {
						t.Errorf("no early result: %v", err)
					} else if early.Outcome != catalogue.Cancelled || !early.Started.Equal(began) || early.Ended.Sub(began) != 90*time.Second {
						t.Errorf("early result is %s, started %v, ended %v", early.Outcome, early.Started, early.Ended)
					}
					time.Sleep(10 * time.Second)
					r.Outcome = tt.then
					return []result.Sample{{Iteration: 1, Seconds: []float64{1}}}
				}
				if err := Run(ctx, f.config()); err != nil {
					t.Fatal(err)
				}
				r := only(t, run, 0, 0)
				if r.Outcome != tt.want || r.Ended.Sub(r.Started) != 100*time.Second {
					t.Errorf("last result is %s after %v, want %s after 100 s", r.Outcome, r.Ended.Sub(r.Started), tt.want)
				}
				path, err := r.Path(run.ResultsDir())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(strings.TrimSuffix(path, result.Ext) + result.SamplesExt); err != nil {
					t.Errorf("samples: %v", err)
				}
			})
		})
	}
}

// An execution that outlived its job must not undo what was measured in its place.
func TestGoodResultStays(t *testing.T) {
	t.Parallel()
	run := newRun(t, small)
	f := newFake(t, run)
	f.exec = func(_ context.Context, pair plan.Pair, r *result.Result) []result.Sample {
		if f.name(pair) != "n=1" {
			return nil
		}
		leave(t, run, pair, 1, 0, catalogue.OK, nil)
		r.Outcome = catalogue.Error
		return []result.Sample{{Iteration: 1, Seconds: []float64{1}}}
	}
	if err := Run(t.Context(), f.config()); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(t, run); got != "ok ok ok" {
		t.Errorf("outcomes = %s", got)
	}
	if files, err := filepath.Glob(filepath.Join(escaped(run.ResultsDir()), "*", "*"+result.SamplesExt)); err != nil || len(files) != 0 {
		t.Errorf("the samples of the other were replaced: %v, %v", files, err)
	}
}

// escaped is a folder as a pattern.
func escaped(dir string) string {
	return strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(dir)
}

// A result that cannot be written ends the task: nothing that is measured after it would be kept either.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	run := newRun(t, small)
	f := newFake(t, run)
	f.exec = func(_ context.Context, _ plan.Pair, r *result.Result) []result.Sample {
		r.Outcome = "" // a session that forgets its outcome
		return nil
	}
	err := Run(t.Context(), f.config())
	if err == nil || !strings.Contains(err.Error(), `outcome "" is not in the catalogue`) {
		t.Errorf("error = %v", err)
	}
	if got := f.order(); got != "open n=1 close" {
		t.Errorf("order = %s", got)
	}
}
