package cell

import (
	"testing"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// figures are units of one execution each, with a figure of the program's own.
func figures(values ...float64) []Unit {
	units := make([]Unit, len(values))
	for i, v := range values {
		units[i] = Unit{{Outcome: catalogue.OK, Extra: []result.Figure{{Name: "x", Value: v}}}}
	}
	return units
}

func metricOf(unit string, better catalogue.Better, kind Kind) Metric {
	return Metric{catalogue.Metric{Name: "x", Unit: unit, Better: better, Scale: 1}, kind}
}

// TestVerdicts goes through the closed list.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	seconds, rate := metricOf("seconds", catalogue.Lower, Sampled), metricOf("tokens per second", catalogue.Higher, Sampled)
	share, count, bytes := metricOf("1", catalogue.Lower, Sampled), metricOf("tokens", catalogue.Either, Sampled), metricOf("bytes", catalogue.Lower, Largest)
	base := []float64{100, 101, 99, 100}
	for _, tt := range []struct {
		name    string
		m       Metric
		a, b    []float64
		refused bool
		flags   []string
		want    Verdict
	}{
		{name: "less time", m: seconds, a: base, b: []float64{90, 91, 89, 90}, want: Faster},
		{name: "more time", m: seconds, a: base, b: []float64{110, 111, 109, 110}, want: Slower},
		{name: "a higher rate", m: rate, a: base, b: []float64{110, 111, 109, 110}, want: Faster},
		{name: "a lower rate", m: rate, a: base, b: []float64{90, 91, 89, 90}, want: Slower},
		{name: "less imbalance", m: share, a: base, b: []float64{90, 91, 89, 90}, want: Better},
		{name: "more imbalance", m: share, a: base, b: []float64{110, 111, 109, 110}, want: Worse},
		{name: "more tokens", m: count, a: base, b: []float64{110, 111, 109, 110}, want: Higher},
		{name: "fewer tokens", m: count, a: base, b: []float64{90, 91, 89, 90}, want: Lower},
		{name: "less than matters", m: seconds, a: []float64{100, 100.1, 99.9, 100}, b: []float64{99.5, 99.6, 99.4, 99.5}, want: Small},
		{name: "within what matters", m: seconds, a: []float64{100, 100.1, 99.9, 100}, b: []float64{100, 100.1, 99.9, 100.1}, want: Equivalent},
		{name: "nothing shown", m: seconds, a: []float64{100, 120, 80, 100}, b: []float64{105, 125, 85, 105}, want: Unclear},
		{name: "one unit", m: seconds, a: []float64{100}, b: base, want: TooFew},
		{name: "no value", m: seconds, a: nil, b: base, want: NoResult},
		{name: "unlike", m: seconds, a: base, b: []float64{90, 91, 89, 90}, refused: true, want: Refused},
		{name: "a doubt on one side", m: seconds, a: base, b: []float64{90, 91, 89, 90}, flags: []string{"hot"}, want: NotAssessed},
		{name: "a value of 0 is no ratio", m: share, a: []float64{0, 0.001, 0, 0.001}, b: []float64{0.5, 0.501, 0.5, 0.501}, want: Worse},
		{name: "memory apart", m: bytes, a: []float64{100, 101}, b: []float64{90, 91}, want: Better},
		{name: "memory that overlaps", m: bytes, a: []float64{100, 110}, b: []float64{105, 120}, want: Unclear},
		{name: "the same memory", m: bytes, a: []float64{100, 100}, b: []float64{100, 100}, want: Equivalent},
		{name: "a little more memory", m: bytes, a: []float64{1000, 1000}, b: []float64{1001, 1001}, want: Small},
		{name: "nothing on either side", m: share, a: []float64{0, 0, 0}, b: []float64{0, 0, 0}, want: Equivalent},
		{name: "memory within what matters", m: bytes, a: []float64{1000, 1001}, b: []float64{1000, 1002}, want: Equivalent},
		{name: "memory once", m: bytes, a: []float64{100}, b: []float64{90}, want: TooFew},
		{name: "ranks disagree", m: seconds, a: []float64{100, 100.1, 100.2, 100.3}, b: []float64{100.25, 106, 107, 108}, want: Unclear},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, ok := tt.m.Compare("", [2][]Unit{figures(tt.a...), figures(tt.b...)}, Pairs{})
			if !ok {
				t.Fatal("no cell")
			}
			if c.Judge(tt.m, 0.01, tt.refused, tt.flags); c.Verdict != tt.want {
				t.Errorf("%s (%s), want %s; %+v", c.Verdict, c.Why, tt.want, c)
			}
		})
	}
}

// TestNoSpread: where the units of a side are all the same, no test says what chance can do, and the verdict tells that.
func TestNoSpread(t *testing.T) {
	t.Parallel()
	m := metricOf("1", catalogue.Higher, Sampled)
	c, _ := m.Compare("", [2][]Unit{figures(1, 1), figures(0, 0)}, Pairs{})
	if c.Judge(m, 0.01, false, nil); c.Verdict != Worse || c.Why == "" || c.P != nil {
		t.Errorf("%s (%s), p %v", c.Verdict, c.Why, c.P)
	}
}

// TestRankDisagrees: what the interval claims and the rank test does not is told as such.
func TestRankDisagrees(t *testing.T) {
	t.Parallel()
	lo, hi, p, rank, estimate := 1.01, 1.2, 0.01, 0.09, 1.1
	c := Cell{Ratio: true, Lo: &lo, Hi: &hi, P: &p, Rank: &rank, Estimate: &estimate, A: &Stat{N: 4}, B: &Stat{N: 4}}
	if c.Judge(metricOf("seconds", catalogue.Lower, Sampled), 0.01, false, nil); c.Verdict != Unclear || c.Why == "" {
		t.Errorf("%s %q", c.Verdict, c.Why)
	}
}

func search(fits, oom int64) Unit {
	s := &result.MaxFit{Fits: &fits}
	if oom > 0 {
		s.OOM = &oom
	}
	return Unit{{Outcome: catalogue.OK, Search: s}}
}

// TestBrackets: answers of searches are compared by the ends of their brackets, and what overlaps is no claim.
func TestBrackets(t *testing.T) {
	t.Parallel()
	m := Metric{catalogue.Metric{Name: MaxFit, Unit: "1", Better: catalogue.Higher, Scale: 1}, Bracket}
	for _, tt := range []struct {
		name string
		a, b []Unit
		want Verdict
	}{
		{"above", []Unit{search(320, 384)}, []Unit{search(384, 448)}, Better},
		{"below", []Unit{search(320, 384)}, []Unit{search(256, 320)}, Worse},
		{"overlap", []Unit{search(320, 384)}, []Unit{search(352, 400)}, Unclear},
		{"the same", []Unit{search(320, 384)}, []Unit{search(320, 384)}, Unclear},
		{"the same within what matters", []Unit{search(32000, 32100)}, []Unit{search(32000, 32100)}, Equivalent},
		{"above by less than matters", []Unit{search(32000, 32064)}, []Unit{search(32064, 32128)}, Small},
		{"no end seen, yet above", []Unit{search(320, 384)}, []Unit{search(512, 0)}, Better},
		{"no end seen of the base", []Unit{search(320, 0)}, []Unit{search(512, 600)}, Unclear},
		{"searches that differ", []Unit{search(320, 384), search(256, 448)}, []Unit{search(400, 500)}, Unclear},
		{"nothing fits", nil, []Unit{search(400, 500)}, NoResult},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, ok := m.Compare(plan.CaseMaxFit, [2][]Unit{tt.a, tt.b}, Pairs{})
			if !ok {
				t.Fatal("no cell")
			}
			if c.Judge(m, 0.01, false, nil); c.Verdict != tt.want {
				t.Errorf("%s, want %s: %+v", c.Verdict, tt.want, c)
			}
		})
	}
	if _, ok := m.Compare("", [2][]Unit{{search(1, 2)}, {search(1, 2)}}, Pairs{}); ok {
		t.Error("a point that is no search has an answer of one")
	}
}

// TestPairs: pairs are compared with each other, whatever their order, and who has none is left out of the difference.
func TestPairs(t *testing.T) {
	t.Parallel()
	m := metricOf("seconds", catalogue.Lower, Sampled)
	a, b := figures(1, 10, 100), figures(90, 9)
	c, _ := m.Compare("", [2][]Unit{a, b}, Pairs{Name: "paired by repeat in one task", Of: [][2]int{{1, 1}, {2, 0}}})
	if c.Judge(m, 0.01, false, nil); c.Verdict != Faster || c.Pairs != 2 || c.Unpaired != 1 || *c.Estimate > 0.9001 || *c.Estimate < 0.8999 {
		t.Errorf("%+v", c)
	}
	if c.A.N != 3 || c.A.Mean != 37 {
		t.Errorf("the mean is over all units: %+v", c.A)
	}
}

// TestUnitValue: a unit is the mean of its executions, of memory the largest, and one that lacks the metric is none.
func TestUnitValue(t *testing.T) {
	t.Parallel()
	u := Unit{figures(1)[0][0], figures(3)[0][0], &collect.Execution{}}
	for kind, want := range map[Kind]float64{Sampled: 2, Largest: 3} {
		m := metricOf("1", catalogue.Lower, kind)
		at, values := m.Measured([]Unit{{}, u})
		if d := cmp.Diff([]float64{want}, values); d != "" || at[1] != want {
			t.Error(d, at)
		}
	}
}
