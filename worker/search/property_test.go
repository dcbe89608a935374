package search

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cpbench/plan/catalogue"
)

func drawConfig(t *rapid.T) Config {
	from := rapid.Int64Range(1, 5000).Draw(t, "from")
	step := rapid.Int64Range(1, 200).Draw(t, "step")
	return Config{
		From: from, Step: step, To: from + step + rapid.Int64Range(0, 100000).Draw(t, "span"),
		Tolerance: rapid.SampledFrom([]float64{0, 0.001, 0.01, 0.02, 0.3}).Draw(t, "tolerance"),
		Confirm:   rapid.IntRange(0, 3).Draw(t, "confirm"),
		Verify:    rapid.IntRange(0, 4).Draw(t, "verify"),
		Hint:      rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(from, from+100000), rapid.Int64()).Draw(t, "hint"),
	}
}

// Against any step function, whatever its peaks claim, the bracket is right and the trials are bounded.
func TestAnyStepFunction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		g, err := cfg.grid()
		if err != nil {
			t.Fatal(err)
		}
		n := g.from + g.step*rapid.Int64Range(-1, (g.to-g.from)/g.step).Draw(t, "edge")
		over := rapid.SampledFrom([]catalogue.Outcome{catalogue.OOMDevice, catalogue.OOMHost, catalogue.TooBig, catalogue.Slow}).Draw(t, "over")
		all := laws(max(n, 1))
		capacity := rapid.SampledFrom([]*float64{nil, new(1e9), new(2e9), new(5e8), new(1.0), new(1e30), new(0.0), new(math.NaN()), new(math.Inf(1))}).Draw(t, "capacity")
		w := edge(n, over, all[rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "law")], capacity)
		a, trials := w.search(t, cfg, mostHinted(g)+cfg.Confirm+cfg.Verify)
		expect(t, cfg, g, n, over, a)
		want := cfg.Confirm
		if n < g.from {
			want = 0
		}
		if a.Confirmed != want || a.Confirms != cfg.Confirm {
			t.Fatalf("%d of %d confirmations, want %d of %d", a.Confirmed, a.Confirms, want, cfg.Confirm)
		}
		if a.Verified != a.Verifies || a.Verifies > cfg.Verify {
			t.Fatalf("%d of %d verified, want at most %d, all of them", a.Verified, a.Verifies, cfg.Verify)
		}
		last := trials[len(trials)-want-a.Verifies:]
		for i, tr := range last {
			if i < want && (!tr.Confirm || !tr.Fresh || tr.N != *a.Fits) || i >= want && (!tr.Verify || tr.N >= *a.Fits) {
				t.Fatalf("last trials %+v: want %d confirmations of %d in new processes, then %d sizes below", last, want, *a.Fits, a.Verifies)
			}
		}
	})
}

// Against any outcomes at all, drawn anew at every trial, the search ends and claims only what it saw; and a
// replay of any part of its history decides the same.
func TestAnyOutcomes(t *testing.T) {
	t.Parallel()
	var outcomes []catalogue.Outcome
	for _, m := range catalogue.Outcomes() {
		outcomes = append(outcomes, m.Outcome)
	}
	kind := rapid.OneOf(
		rapid.SampledFrom([]catalogue.Outcome{catalogue.OK, catalogue.OOMDevice}),
		rapid.SampledFrom([]catalogue.Outcome{catalogue.OK, catalogue.OOMComm, catalogue.OOMSuspect, catalogue.Skipped, catalogue.TooBig}),
		rapid.SampledFrom(append(outcomes, "unheard of")),
	)
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		g, err := cfg.grid()
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "limited") {
			cfg.Budget = rapid.Float64Range(0, 100).Draw(t, "budget")
		}
		_, trials := world(func(Step) Trial {
			tr := Trial{Outcome: kind.Draw(t, "outcome"), Seconds: rapid.Float64Range(0, 5).Draw(t, "seconds")}
			if rapid.Bool().Draw(t, "measured") {
				tr.PeakBytes = new(rapid.Float64Range(-1, 100).Draw(t, "peak"))
				tr.CapacityBytes = new(rapid.Float64Range(-1, 100).Draw(t, "capacity"))
			}
			return tr
		}).search(t, cfg, maxSkips*(2*mostHinted(g)+2*cfg.Confirm+2*cfg.Verify)*(1+cfg.Verify))
		for i := range trials {
			a, errA := Next(cfg, trials[:i])
			b, errB := Next(cfg, append([]Trial(nil), trials[:i]...))
			if d := cmp.Diff(a, b); d != "" || errA != nil || errB != nil {
				t.Fatalf("two replays of %d trials differ: %v %v\n%s", i, errA, errB, d)
			}
			if a.N != trials[i].N || a.Confirm != trials[i].Confirm || a.Verify != trials[i].Verify || a.Answer != nil {
				t.Fatalf("replay of %d trials: %+v, but the search went on with %+v", i, a, trials[i])
			}
		}
	})
}

// A history that no search has made, as one taken over from elsewhere, is never read as more than it shows.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	outcomes := []catalogue.Outcome{catalogue.OK, catalogue.OK, catalogue.OOMDevice, catalogue.OOMHost, catalogue.TooBig, catalogue.OOMSuspect, catalogue.Skipped, catalogue.Slow}
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		cfg.Confirm = 0 // a strange confirmation has no right answer
		g, err := cfg.grid()
		if err != nil {
			t.Fatal(err)
		}
		trials := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Trial {
			return Trial{
				N:       g.from + g.step*rapid.Int64Range(0, (g.to-g.from)/g.step).Draw(t, "n"),
				Outcome: rapid.SampledFrom(outcomes).Draw(t, "outcome"), Fresh: true,
				PeakBytes: new(rapid.Float64Range(1, 100).Draw(t, "peak")), CapacityBytes: new(80.0),
			}
		}), 0, 12).Draw(t, "history")
		s, err := Next(cfg, trials)
		if err != nil {
			t.Fatal(err)
		}
		if s.Answer != nil {
			verify(t, cfg, trials, *s.Answer)
		} else if s.N < g.from || s.N > g.to || s.N%g.step != 0 {
			t.Fatalf("step %+v is not on the grid %+v", s, g)
		}
	})
}

// The time spent never passes the budget by more than the estimate was wrong, and what is known is reported.
func TestBudget(t *testing.T) {
	t.Parallel()
	capacity := 1e9
	peak := laws(30000)["mixed"]
	// One minute of launch and a step time that grows with n³: 16,384 takes 1,000 s.
	seconds := func(s Step) float64 {
		sec := 1000 * cube(s.N) / cube(16384)
		if s.Fresh {
			sec += 60
		}
		return sec
	}
	timed := world(func(s Step) Trial {
		tr := edge(30000, catalogue.OOMDevice, peak, &capacity)(s)
		tr.Seconds = seconds(s)
		return tr
	})
	tests := []struct {
		name   string
		budget float64
		ended  Ended
		fits   int64
		sizes  []int64
		done   int
	}{
		{"none", 0, Closed, 29952, []int64{512, 1024, 2048, 4096, 8192, 16384, 29952, -30208, 29952}, 1},
		{"ends before the last size", 3000, TimeLimit, 16384, []int64{512, 1024, 2048, 4096, 8192, 16384}, 0},
		{"ends before 16384", 1000, TimeLimit, 8192, []int64{512, 1024, 2048, 4096, 8192}, 0},
		{"no time to confirm", 15000, Closed, 29952, []int64{512, 1024, 2048, 4096, 8192, 16384, 29952, -30208}, 0},
		{"less than a launch", 30, TimeLimit, 512, []int64{512}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{From: 512, To: 65536, Step: 128, Tolerance: 0.01, Confirm: 1, Budget: tt.budget}
			a, trials := timed.search(t, cfg, 12)
			if d := cmp.Diff(tt.sizes, sizes(trials)); d != "" {
				t.Errorf("sizes tried (-want +got):\n%s", d)
			}
			if a.Ended != tt.ended || *a.Fits != tt.fits || a.Confirmed != tt.done {
				t.Errorf("answer %+v fits %d; want %s, %d with %d confirmations", a, *a.Fits, tt.ended, tt.fits, tt.done)
			}
			if (a.Reason == "") != (tt.budget == 0) {
				t.Errorf("reason %q", a.Reason)
			}
		})
	}
}

// An out-of-memory that could not be tried again for want of time counts.
func TestBudgetEndsADoubt(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64, Budget: 100}
	peak := laws(20000)["quadratic"]
	var known []Trial
	for _, n := range []int64{512, 1024, 2048, 4096} {
		known = append(known, Trial{N: n, Outcome: catalogue.OK, PeakBytes: peak(n), CapacityBytes: new(1e9), Seconds: 25})
	}
	known[3].Outcome = catalogue.OOMDevice
	s, err := Next(cfg, known)
	if err != nil || s.Answer == nil || s.Answer.Ended != TimeLimit || s.Answer.OOM == nil || *s.Answer.OOM != 4096 {
		t.Fatalf("step %+v, %v; want the time limit with 4096 out of memory", s, err)
	}
	cfg.Budget = 0
	if s, err = Next(cfg, known); err != nil || s.N != 4096 || !s.Fresh {
		t.Errorf("with time: step %+v, %v; want 4096 once more in a new process", s, err)
	}
}
