package search

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"

	"cpbench/plan/catalogue"
)

// world answers steps as a cluster would. It is asked again and again until the search has its answer.
type world func(s Step) Trial

// fataler is what *testing.T and *rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// search carries out a search, checks every step on the way and the answer against the trials, and returns both.
func (w world) search(t fataler, cfg Config, most int) (Answer, []Trial) {
	t.Helper()
	g, err := cfg.grid()
	if err != nil {
		t.Fatalf("config: %v", err)
	}
	reach := max(4*g.from, g.from+maxSkips*g.step) // no step goes further than twice what has fitted, or to the hint
	reach = max(reach, min(cfg.Hint, g.to)+maxSkips*g.step)
	answer, trials, err := Run(context.Background(), cfg, nil, func(_ context.Context, s Step) (Trial, error) {
		if s.N > reach {
			t.Fatalf("size %d is tried although no more than half of %d has fitted", s.N, reach)
		}
		if s.N < g.from || s.N > g.to || s.N%g.step != 0 {
			t.Fatalf("size %d is not on the grid %+v", s.N, g)
		}
		if s.Verify && (s.Confirm || s.N <= g.from) || !(s.Expect >= 0) {
			t.Fatalf("step %+v: a verification is of a size in between, and an expectation is a time", s)
		}
		if s.Why == "" || s.Answer != nil {
			t.Fatalf("step %+v: needs a reason and no answer", s)
		}
		tr := w(s)
		if tr.Outcome.Fits() {
			reach = max(reach, 2*s.N+maxSkips*g.step)
		}
		return tr, nil
	})
	if err != nil {
		t.Fatalf("search: %v", err)
	}
	if len(trials) > most {
		t.Fatalf("%d trials, want at most %d: %v", len(trials), most, sizes(trials))
	}
	for i, tr := range trials {
		if !tr.Fresh && (i == 0 || !trials[i-1].Outcome.Fits()) {
			t.Fatalf("trial %d reuses the process of a failure: %v", i, sizes(trials))
		}
	}
	verify(t, cfg, trials, answer)
	return answer, trials
}

// sizes lists the sizes tried, failures negative.
func sizes(trials []Trial) []int64 {
	var s []int64
	for _, t := range trials {
		n := t.N
		if !t.Outcome.Fits() {
			n = -n
		}
		s = append(s, n)
	}
	return s
}

// verify fails if the answer claims anything that the trials do not show. It knows nothing of how Next works.
func verify(t fataler, cfg Config, trials []Trial, a Answer) {
	t.Helper()
	e := evidence{cfg: cfg, fitted: map[int64]int{}, oom: map[int64]bool{}, skipped: map[int64]bool{}}
	e.grid, _ = cfg.grid()
	for _, tr := range trials {
		switch {
		case tr.Outcome.Fits():
			e.fitted[tr.N]++
		case tr.Outcome.OutOfMemory() && !tr.Confirm:
			e.oom[tr.N] = true
		case tr.Outcome == catalogue.Skipped:
			e.skipped[tr.N] = true
		}
	}
	for _, wrong := range []string{e.bracket(a), e.larger(a), e.ending(a)} {
		if wrong != "" {
			t.Fatalf("%s\nanswer %s fits %s oom %s limit %s above %s, %d of %d confirmed: %s\ntrials %v", wrong,
				a.Ended, show(a.Fits), show(a.OOM), show(a.Limit), show(a.Above), a.Confirmed, a.Confirms, a.Reason, sizes(trials))
		}
	}
}

// evidence is what trials show: how often each size fitted, which ran out of memory and which are illegal.
type evidence struct {
	grid
	cfg     Config
	fitted  map[int64]int
	oom     map[int64]bool
	skipped map[int64]bool
}

// bracket checks that the numbers of the answer were seen. Like its sisters it returns what is wrong.
func (e evidence) bracket(a Answer) string {
	switch {
	case a.Fits != nil && e.fitted[*a.Fits] == 0:
		return "Fits has never run"
	case a.OOM != nil && !e.oom[*a.OOM]:
		return "OOM has never run out of memory"
	case a.Fits != nil && a.OOM != nil && *a.OOM <= *a.Fits:
		return "the bracket is upside down"
	case a.NonMonotone != (a.Above != nil), a.NonMonotone && (a.OOM == nil || *a.Above < *a.OOM || e.fitted[*a.Above] == 0):
		return "non-monotone without the numbers"
	case a.Confirmed > 0 && a.Confirmed > e.fitted[*a.Fits]-1:
		return "more confirmations than runs"
	case a.Verified > a.Verifies || a.Verifies > e.cfg.Verify || a.Verifies-a.Verified < len(a.Doubtful):
		return "the verifications do not add up"
	case a.Reserve != nil && (a.Fits == nil || *a.Reserve > *a.Fits || *a.Reserve%e.step != 0 || *a.Reserve < e.from):
		return "the reserve is no size of the grid below Fits"
	}
	return ""
}

// larger checks that Fits is the largest size that fitted below OOM, and that nothing below OOM failed for good.
func (e evidence) larger(a Answer) string {
	for n := range e.fitted {
		if (a.OOM == nil || n < *a.OOM) && (a.Fits == nil || n > *a.Fits) {
			return "a larger size fitted"
		}
	}
	for n := range e.oom {
		if a.OOM != nil && n < *a.OOM && e.fitted[n] == 0 {
			return "a smaller size ran out of memory"
		}
	}
	return ""
}

// ending checks that the search could end as it says.
func (e evidence) ending(a Answer) string {
	all := e
	all.cfg.Tolerance = 0
	switch a.Ended {
	case Closed, NonMonotone:
		return unless(e.closed(a.Fits, a.OOM), "the bracket is not closed")
	case LimitOther:
		lo := a.Fits
		if lo == nil {
			lo = new(e.from - e.step)
		}
		return unless(e.closed(lo, a.Limit) && a.Reason != "", "the bracket below the limit is not closed")
	case Ceiling:
		return unless(a.OOM == nil && all.closed(a.Fits, new(e.to+e.step)), "the ceiling was not reached")
	case Floor:
		return unless(a.Fits == nil && all.closed(new(e.from-e.step), a.OOM), "the floor was not reached")
	case Unstable:
		return unless(a.Fits != nil && a.Confirmed < a.Confirms && a.Reason != "", "unstable without a failed confirmation")
	case TimeLimit, Aborted:
		return unless(a.Reason != "", "no reason given")
	}
	return "unknown ending"
}

func unless(good bool, wrong string) string {
	if good {
		return ""
	}
	return wrong
}

// closed reports whether no size that the tolerance asks for lies between lo and hi, illegal ones aside.
func (e evidence) closed(lo, hi *int64) bool {
	if lo == nil || hi == nil {
		return false
	}
	if float64(*hi-*lo) <= math.Max(float64(e.step), e.cfg.Tolerance*float64(*lo)) {
		return true
	}
	for n := *lo + e.step; n < *hi; n += e.step {
		if !e.skipped[n] {
			return false
		}
	}
	return true
}

func show(n *int64) string {
	if n == nil {
		return "none"
	}
	return strconv.FormatInt(*n, 10)
}

// law is a memory law for worlds: what a size of n takes; nil: it cannot be told.
type law func(n int64) *float64

// edge makes a world in which every size up to n fits and any other ends with the given outcome.
func edge(n int64, over catalogue.Outcome, peak law, capacity *float64) world {
	return func(s Step) Trial {
		if s.N > n {
			return Trial{Outcome: over, Seconds: 1}
		}
		return Trial{Outcome: catalogue.OK, PeakBytes: peak(s.N), CapacityBytes: capacity, Seconds: 1}
	}
}

func unknown(int64) *float64 { return nil }

// laws are memory laws under which size n takes exactly the capacity of 1e9, and some that mislead.
func laws(n int64) map[string]law {
	return map[string]law{
		"quadratic":      func(x int64) *float64 { return new(1e9 * square(x, n)) },
		"linear":         func(x int64) *float64 { return new(1e9 * float64(x) / float64(n)) },
		"mixed":          func(x int64) *float64 { return new(3e8 + 2e8*float64(x)/float64(n) + 5e8*square(x, n)) },
		"unknown":        unknown,
		"falling":        func(x int64) *float64 { return new(1e9 / float64(x)) },
		"constant":       func(int64) *float64 { return new(7e8) },
		"concave":        func(x int64) *float64 { return new(1e9 * (1 - math.Exp(-3*float64(x)/float64(n)))) },
		"twice too high": func(x int64) *float64 { return new(2e9 * square(x, n)) },
		"twice too low":  func(x int64) *float64 { return new(5e8 * square(x, n)) },
		"cubic":          func(x int64) *float64 { return new(1e9 * square(x, n) * float64(x) / float64(n)) },
		"zero":           func(int64) *float64 { return new(0.0) },
		"infinite":       func(int64) *float64 { return new(math.Inf(1)) },
		"not a number":   func(int64) *float64 { return new(math.NaN()) },
		"negative":       func(x int64) *float64 { return new(-float64(x)) },
		"jagged":         func(x int64) *float64 { return new(1e9 * float64(x*7919%1000) / 1000) },
	}
}

func square(x, n int64) float64 { return float64(x) / float64(n) * float64(x) / float64(n) }

// most is the bound on the trials of any search without doubts, illegal sizes and confirmations: the ramp, three
// misses or a climb whose steps double, and a bisection.
func most(g grid) int {
	return 8 + 3*int(math.Ceil(math.Log2(float64(g.to/g.step)+2)))
}

// mostHinted is the bound with a hint: it costs the sizes that are tried for it, and the doubts about them.
func mostHinted(g grid) int { return most(g) + 2*len(hintSizes) }

func TestExhaustive(t *testing.T) {
	t.Parallel()
	for _, g := range []struct{ step, every int64 }{{1, 997}, {64, 1}, {96, 1}} {
		for name := range laws(1) {
			// Every answer under the laws that are what they seem and without any; a sample under the others.
			every := g.every
			if !slices.Contains([]string{"quadratic", "linear", "mixed", "unknown"}, name) {
				every *= 7
			}
			t.Run(strconv.FormatInt(g.step, 10)+" "+name, func(t *testing.T) {
				t.Parallel()
				cfg := Config{From: 512, To: 32768, Step: g.step, Tolerance: 0.01}
				gr, err := cfg.grid()
				if err != nil {
					t.Fatal(err)
				}
				for n := gr.from - g.step; n <= gr.to; n += g.step * every {
					for _, over := range []catalogue.Outcome{catalogue.OOMDevice, catalogue.TooBig, catalogue.Slow} {
						a, _ := edge(n, over, laws(n + g.step - 1)[name], new(1e9)).search(t, cfg, most(gr))
						expect(t, cfg, gr, n, over, a)
					}
				}
			})
		}
	}
}

// expect checks the answer of a search in a world where n is the largest size that fits.
func expect(t fataler, cfg Config, g grid, n int64, over catalogue.Outcome, a Answer) {
	t.Helper()
	var want Ended
	switch {
	case n >= g.to:
		want = Ceiling
	case over == catalogue.Slow:
		want = TimeLimit
	case over == catalogue.TooBig:
		want = LimitOther
	case n < g.from:
		want = Floor
	default:
		want = Closed
	}
	if a.Ended != want {
		t.Fatalf("largest fit %d: ended %s, want %s (%s)", n, a.Ended, want, a.Reason)
	}
	if (n < g.from) != (a.Fits == nil) || a.Fits != nil && *a.Fits > n {
		t.Fatalf("largest fit %d: found %s", n, show(a.Fits))
	}
	if a.Fits != nil && want != TimeLimit && float64(n-*a.Fits) >= math.Max(float64(g.step), cfg.Tolerance*float64(*a.Fits)) {
		t.Fatalf("largest fit %d: found %d, which is too far below", n, *a.Fits)
	}
}

func TestSearchCost(t *testing.T) {
	t.Parallel()
	// 2,000 searches from a fixed key: a count that never changes, not a time.
	cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01}
	c := simulate(t, cfg, 0.005, 2000, true, nil)
	if m := mean(c.trials); m > 9 {
		t.Errorf("%.2f trials a search before confirmation at sigma 0.5 %%, want at most 9", m)
	}
	cfg.Tolerance = 0
	if m := mean(simulate(t, cfg, 0.005, 2000, false, nil).trials); math.Abs(m-13.2) > 0.3 {
		t.Errorf("%.2f trials a search without peaks, want about 13.2: the simulator has changed", m)
	}
}
