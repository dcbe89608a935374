package search

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/plan/catalogue"
)

// A hint changes the cost and never the answer: over every answer and over hints that are right, wrong and absurd.
func TestHintNeverChangesTheAnswer(t *testing.T) {
	t.Parallel()
	for name := range laws(1) {
		for _, step := range []int64{64, 96} {
			t.Run(strconv.FormatInt(step, 10)+" "+name, func(t *testing.T) {
				t.Parallel()
				cfg := Config{From: 512, To: 32768, Step: step, Tolerance: 0.01}
				g, err := cfg.grid()
				if err != nil {
					t.Fatal(err)
				}
				for n := g.from - g.step; n <= g.to; n += g.step * 17 {
					for _, over := range []catalogue.Outcome{catalogue.OOMDevice, catalogue.TooBig, catalogue.Slow} {
						for _, hint := range []int64{n, n + 1, n * 9 / 10, n * 11 / 10, 2 * n, n / 2, 1, 7 * n, -n, math.MaxInt64} {
							cfg.Hint = hint
							a, _ := edge(n, over, laws(n + g.step - 1)[name], new(1e9)).search(t, cfg, mostHinted(g))
							expect(t, cfg, g, n, over, a)
						}
					}
				}
			})
		}
	}
}

// The bounds are counts from a fixed key, not times.
func TestHintCost(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01}
	most := map[string]float64{"none": 9, "right": 2.1, "10%-low": 6, "10%-high": 6.5, "2x-low": 7, "2x-high": 8, "above-to": 11.5, "below-from": 9}
	for _, h := range hints {
		c := simulate(t, cfg, 0.005, 1000, true, h.of)
		if m := mean(c.trials); !(m <= most[h.name]) {
			t.Errorf("hint %s: %.2f trials a search before confirmation, want at most %v", h.name, m, most[h.name])
		}
		if exact := simulate(t, cfg, 0, 500, true, h.of); h.name == "right" && slices.Max(exact.trials) != 2 {
			t.Errorf("right hint: %d trials at most before confirmation, want 2", slices.Max(exact.trials))
		}
	}
}

func TestHintedPaths(t *testing.T) {
	t.Parallel()
	const n = 20000 // the largest size that fits is 19968
	tests := []struct {
		name string
		hint int64
		law  string
		at   map[int64][]catalogue.Outcome
		want []int64
	}{
		{"right", 19968, "mixed", nil, []int64{19968, -20160}},
		{"right, without peaks", 19968, "unknown", nil, []int64{19968, -20160}},
		{"off the grid", 19999, "mixed", nil, []int64{19968, -20160}},
		{"a little low", 19456, "mixed", nil, []int64{19456, 19776, 19968, -20160}},
		{"low, without peaks", 18000, "unknown", nil, []int64{17984, 18112, 18624, -20672, 19648, -20160, 19904, -20032}},
		{"a little high", 21000, "mixed", nil, []int64{-20992, 18368, 19264, 19968, -20160}},
		{"too high by half", 40000, "mixed", nil, []int64{-40000, -34944, 17472, 18880, 19968, -20160}},
		{"far too high", 60000, "mixed", nil, []int64{-59968, -52416, -26176, 512, 1024, 2048, 4096, 8192, 16384, 19968, -20160}},
		{"below the smallest", 3, "quadratic", nil, []int64{512, 1024, 2048, 4096, 8192, 16384, 19968, -20160}},
		{"an error at the hint", 30016, "quadratic", map[int64][]catalogue.Outcome{30016: {catalogue.Error}}, []int64{-30016, 512, 1024, 2048, 4096, 8192, 16384, 19968, -20160}},
		{"a timeout below the hint", 30016, "quadratic", map[int64][]catalogue.Outcome{26240: {catalogue.Timeout}}, []int64{-30016, -26240, 512, 1024, 2048, 4096, 8192, 16384, 19968, -20160}},
		{"slow at the hint", 30016, "quadratic", map[int64][]catalogue.Outcome{30016: {catalogue.Slow}}, []int64{-30016, 512, 1024, 2048, 4096, 8192, 16384, 19968, -20160}},
		{"twice a suspicion at the hint", 30016, "quadratic", map[int64][]catalogue.Outcome{30016: {suspect}}, []int64{-30016, -30016, 512, 1024, 2048, 4096, 8192, 16384, 19968, -20160}},
		{"illegal", 19968, "mixed", map[int64][]catalogue.Outcome{19968: {catalogue.Skipped}}, []int64{-19968, 19904, -20096}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01, Hint: tt.hint}
			s := &script{at: tt.at}
			a, trials := world(func(step Step) Trial {
				if tt.at[step.N] != nil {
					return s.try(step)
				}
				return edge(n, oom, laws(n)[tt.law], new(1e9))(step)
			}).search(t, cfg, 30)
			if d := cmp.Diff(tt.want, sizes(trials)); d != "" {
				t.Errorf("sizes tried (-want +got):\n%s", d)
			}
			if a.Ended != Closed || *a.Fits < 19840 {
				t.Errorf("%s, fits %s: %s", a.Ended, show(a.Fits), a.Reason)
			}
		})
	}
}

// An out-of-memory at the hint is believed while nothing is known, and asked for again once the fit speaks against it.
func TestDoubtfulHint(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01, Hint: 8192}
	for _, accidents := range []int{1, 2, 3} {
		met := 0
		a, trials := world(func(s Step) Trial {
			if s.N <= 8192 && s.N >= 3584 {
				if met++; met <= accidents {
					return Trial{Outcome: oom}
				}
			}
			return edge(20000, oom, laws(20000)["quadratic"], new(1e9))(s)
		}).search(t, cfg, 24)
		if a.Ended != Closed || *a.Fits < 19840 {
			t.Errorf("%d accidents: %s, fits %s: %v", accidents, a.Ended, show(a.Fits), sizes(trials))
		}
	}
}

// A size that did not fit for the hint says nothing about the fit, which still has its chance.
func TestHintLeavesTheFitItsChance(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01, Hint: 22000}
	peak := func(n int64) *float64 { return new(0.97e9 * square(n, 20000)) }
	_, trials := edge(20000, oom, peak, new(1e9)).search(t, cfg, 10)
	if d := cmp.Diff([]int64{-21952, 19200, -20288, 19904, -20096}, sizes(trials)); d != "" {
		t.Errorf("sizes tried (-want +got):\n%s", d)
	}
}
