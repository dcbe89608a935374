package worker

import (
	"context"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// searched has two repeats of four sizes on two data sets. The tasks of the first repeat begin with two searches.
const searched = `version: 1
name: searched
matrix: {data: [a, b], n: [100, 200, 300, 400]}
pack: [data]
order: as-written
repeats: 2
workload:
  kind: model
  mode: inference
  command: [./model]
  ranks: 1
  point: {tokens: n}
  max_fit: {axis: n, from: 10, to: 1000, step: 10}
resources: {time: 5m}
`

func size(n int64) *int64 { return &n }

// found lets the search of each data set find its own bracket.
func found(run *folder.Run, by map[string]*result.MaxFit) func(context.Context, plan.Pair, *result.Result) []result.Sample {
	return func(_ context.Context, pair plan.Pair, r *result.Result) []result.Sample {
		if pair.Case != "" {
			r.MaxFit = by[run.Plan.Params(pair.Point)[0].Value]
		}
		return nil
	}
}

func TestAboveBracket(t *testing.T) {
	t.Parallel()
	const all = "ok ok ok ok"
	tests := []struct {
		name string
		a, b *result.MaxFit
		// outcomes of n = 100 to 400 on a, then on b
		wantA, wantB string
	}{
		{"no search has ended", nil, nil, all, all},
		{"nothing ran out of memory", &result.MaxFit{Fits: size(1000)}, &result.MaxFit{}, all, all},
		{"each data set has its own bracket", &result.MaxFit{Fits: size(290), OOM: size(300)}, &result.MaxFit{Fits: size(340), OOM: size(350)}, "ok ok skipped skipped", "ok ok ok skipped"},
		{"nothing fits", &result.MaxFit{OOM: size(10)}, nil, "skipped skipped skipped skipped", all},
		{"not monotone", &result.MaxFit{Fits: size(190), OOM: size(200), Above: size(300)}, nil, "ok ok ok skipped", all},
		{"a limit that is not memory", &result.MaxFit{Fits: size(190), Limit: size(200)}, nil, all, all},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, searched)
			f := newFake(t, run)
			f.exec = found(run, map[string]*result.MaxFit{"a": tt.a, "b": tt.b})
			for task := range 2 { // the second repeat is another task, and another process
				cfg := f.config()
				cfg.Index = task
				if err := Run(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
			}
			points := tt.wantA + " " + tt.wantB
			if got, want := outcomes(t, run), "ok ok "+points+" "+points; got != want {
				t.Errorf("outcomes:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// A search that is done is not run again and its bracket counts; one that was cut short is repeated first, and then the
// new bracket counts.
func TestBracketOfAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		outcome catalogue.Outcome
		order   string
		skipped int // index of the first pair that is skipped
		why     string
	}{
		{
			catalogue.OK, "open data=b,n=max-fit data=a,n=100 data=a,n=200 data=b,n=100 data=b,n=200 data=b,n=300 data=b,n=400 close",
			4, "the search ran out of memory at n = 300",
		},
		{
			catalogue.Cancelled, "open data=a,n=max-fit data=b,n=max-fit data=a,n=100 data=a,n=200 data=a,n=300 data=b,n=100 data=b,n=200 data=b,n=300 data=b,n=400 close",
			5, "the search ran out of memory at n = 390",
		},
	} {
		t.Run(string(tt.outcome), func(t *testing.T) {
			t.Parallel()
			run := newRun(t, searched)
			leave(t, run, pairAt(t, run, 0, 0), 1, 0, tt.outcome, &result.MaxFit{Fits: size(290), OOM: size(300)})
			f := newFake(t, run)
			f.exec = found(run, map[string]*result.MaxFit{"a": {Fits: size(380), OOM: size(390)}})
			cfg := f.config()
			cfg.Attempt = 2
			if err := Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if got := f.order(); got != tt.order {
				t.Errorf("order:\n got %s\nwant %s", got, tt.order)
			}
			if r := only(t, run, 0, tt.skipped); r.Outcome != catalogue.Skipped || r.Reason != "above_bracket" || r.Evidence != tt.why {
				t.Errorf("first skipped: %s, %q, %q", r.Outcome, r.Reason, r.Evidence)
			}
		})
	}
}
