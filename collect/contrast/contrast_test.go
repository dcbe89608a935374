package contrast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/perf/benchmath"
)

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

// TestCritical are values of printed tables, and the tail back again for degrees that are not whole.
func TestCritical(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ alpha, df, want float64 }{
		{0.05, 1, 12.7062},
		{0.05, 2, 4.3027},
		{0.05, 4, 2.7764},
		{0.05, 8, 2.3060},
		{0.05, 30, 2.0423},
		{0.05, 1000, 1.9623},
		{0.40, 4, 0.9410},
		{0.01, 3, 5.8409},
		{0.001, 1, 636.6192},
	} {
		if got := critical(tt.alpha, tt.df); !near(got, tt.want, 6e-5*math.Max(1, tt.want)) {
			t.Errorf("critical(%v, %v) = %v, want %v", tt.alpha, tt.df, got, tt.want)
		}
	}
	for _, df := range []float64{1, 1.3, 2.7, 7.001, 55.5, 900} {
		for _, alpha := range []float64{0.4, 0.05, 0.001} {
			if got := tail(critical(alpha, df), df); !near(got, alpha, 1e-10) {
				t.Errorf("tail at df %v is %v, want %v", df, got, alpha)
			}
		}
	}
}

// TestAgainstBenchmath compares with another implementation: the interval of a mean, and Welch's p-value.
func TestAgainstBenchmath(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	for n := 2; n < 20; n++ {
		a, b, zero := make([]float64, n), make([]float64, n+n%3), make([]float64, n)
		for i := range a {
			a[i] = rng.NormFloat64() - 10 // below 0, where differences are compared and not ratios
		}
		for i := range b {
			b[i] = 2*rng.NormFloat64() - 9
		}
		paired := Pairs(zero, a) // not above 0: a difference
		sum := benchmath.AssumeNormal.Summary(benchmath.NewSample(slices.Clone(a), &benchmath.DefaultThresholds), Level)
		if paired.Ratio || !near(*paired.Lo, sum.Lo, 1e-6) || !near(*paired.Hi, sum.Hi, 1e-6) {
			t.Errorf("n=%d: %v to %v, want %v to %v", n, *paired.Lo, *paired.Hi, sum.Lo, sum.Hi)
		}
		welch := Unpaired(a, b)
		test := benchmath.AssumeNormal.Compare(benchmath.NewSample(slices.Clone(a), &benchmath.DefaultThresholds),
			benchmath.NewSample(slices.Clone(b), &benchmath.DefaultThresholds))
		if !near(*welch.P, test.P, 1e-9) {
			t.Errorf("n=%d: p = %v, want %v", n, *welch.P, test.P)
		}
	}
}

// TestSignAndBase: the ratio is B over A, and the difference B less A. A published percentage was once the other way
// round.
func TestSignAndBase(t *testing.T) {
	t.Parallel()
	a, b := []float64{100, 100, 100}, []float64{80, 80, 80}
	for _, c := range []Contrast{Unpaired(a, b), Pairs(a, b)} {
		if !c.Ratio || !near(c.Estimate, 0.8, 1e-12) || c.P != nil || !near(*c.Lo, 0.8, 1e-12) || c.None() != 1 {
			t.Errorf("80 against the base of 100: %+v", c)
		}
	}
	for _, c := range []Contrast{Unpaired(b, a), Pairs(b, a)} {
		if !near(c.Estimate, 1.25, 1e-12) { // +25 %, not +20 %
			t.Errorf("100 against the base of 80: %+v", c)
		}
	}
	if c := Pairs([]float64{0, 1}, []float64{3, 5}); c.Ratio || c.Estimate != 3.5 || c.None() != 0 {
		t.Errorf("a difference: %+v", c)
	}
	if c := Unpaired([]float64{2, 8}, []float64{4, 16}); !near(c.Estimate, 2, 1e-12) { // geometric means 4 and 8
		t.Errorf("a ratio: %+v", c)
	}
	if c := Unpaired([]float64{3, 3}, []float64{3, 3, 3}); c.Estimate != 1 || c.P != nil || *c.Lo != 1 || *c.Hi != 1 {
		t.Errorf("the same values: %+v", c)
	}
}

func TestTooFew(t *testing.T) {
	t.Parallel()
	for _, c := range []Contrast{Unpaired([]float64{2}, []float64{3, 4}), Unpaired([]float64{2, 2}, []float64{3}), Pairs([]float64{2}, []float64{3})} {
		if c.Lo != nil || c.Hi != nil || c.P != nil || c.Rank != nil {
			t.Errorf("one value has bounds: %+v", c)
		}
		if _, ok := c.Visible(); ok {
			t.Errorf("one value sees something: %+v", c)
		}
		if _, ok := c.More(0.02); ok {
			t.Errorf("one value tells how many more: %+v", c)
		}
	}
	if c := Unpaired([]float64{1, 2, 3}, []float64{4, 5, 6, 7}); c.Rank != nil {
		t.Error("3 against 4 has a rank test")
	}
	if c := Unpaired([]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}); c.Rank == nil || !near(*c.Rank, 0.0286, 1e-3) {
		t.Errorf("rank test: %v", c.Rank)
	}
}

// spreadOf are n values whose logarithms have exactly the sample standard deviation cv.
func spreadOf(n int, cv float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i)
	}
	mean, variance := moments(values)
	for i := range values {
		values[i] = math.Exp((values[i] - mean) / math.Sqrt(variance) * cv)
	}
	return values
}

// TestVisible: at 1 % spread 3 values see about 3 %, and 5 about 2 %.
func TestVisible(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n    int
		want float64
	}{{3, 3.0}, {5, 2.0}, {8, 1.5}, {10, 1.3}, {20, 0.9}} {
		got, ok := Unpaired(spreadOf(tt.n, 0.01), spreadOf(tt.n, 0.01)).Visible()
		if !ok || !near(100*got, tt.want, 0.1) {
			t.Errorf("n=%d sees %.2f %%, want %v %%", tt.n, 100*got, tt.want)
		}
	}
}

func TestMore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		c    Contrast
		want int
	}{
		{"enough already", Unpaired(spreadOf(8, 0.01), spreadOf(8, 0.01)), 0},
		{"3 of 1 % need 6", Unpaired(spreadOf(3, 0.01), spreadOf(3, 0.01)), 3},
		{"of unequal ones fewer", Unpaired(spreadOf(3, 0.01), spreadOf(20, 0.01)), 2},
		{"deterministic", Unpaired([]float64{2, 2}, []float64{2, 2}), 0},
	} {
		if got, ok := tt.c.More(0.02); !ok || got != tt.want {
			t.Errorf("%s: %d %v, want %d", tt.name, got, ok, tt.want)
		}
	}
	if _, ok := Unpaired(spreadOf(3, 0.9), spreadOf(3, 0.9)).More(0.02); ok {
		t.Error("a spread of 90 % is promised to show 2 %")
	}
	// What More promises, Visible confirms: one fewer would not do. So it is with sides that differ in number or spread.
	for _, tt := range []struct {
		na, nb   int
		sda, sdb float64
	}{{4, 4, 0.012, 0.012}, {4, 4, 0.03, 0.03}, {4, 4, 0.1, 0.1}, {3, 30, 0.01, 0.003}, {3, 3, 0.0001, 0.0085}, {3, 9, 0.02, 0.001}} {
		seen := func(more int) float64 {
			v, _ := Unpaired(spreadOf(tt.na+more, tt.sda), spreadOf(tt.nb+more, tt.sdb)).Visible()
			return v
		}
		k, ok := Unpaired(spreadOf(tt.na, tt.sda), spreadOf(tt.nb, tt.sdb)).More(0.02)
		if !ok || k == 0 || seen(k) > 0.02 || seen(k-1) <= 0.02 {
			t.Errorf("%+v: %d more see %.4f, one fewer %.4f", tt, k, seen(k), seen(k-1))
		}
	}
}

func TestHolm(t *testing.T) {
	t.Parallel()
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("adjusted %v", got)
		}
	}
	if got := Holm([]float64{0.9, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("above 1: %v", got)
	}
	if got := Holm(nil); len(got) != 0 {
		t.Error(got)
	}
}

// TestCoverage simulates runs of two systems with a known ratio: the interval covers it in about 95 % of the cases, and
// of two equal systems about 5 % are called different. The bounds are four standard errors of the simulation wide.
func TestCoverage(t *testing.T) {
	t.Parallel()
	const trials, truth = 4000, 1.03
	margin := 4 * math.Sqrt(0.05*0.95/trials)
	for _, tt := range []struct {
		name   string
		na, nb int
		block  float64 // spread of what a pair shares
		paired bool
		low    float64 // Welch's test of 2 or 3 values is a little too careful
	}{
		{"Welch, 3 and 3", 3, 3, 0, false, 0},
		{"Welch, 5 and 5", 5, 5, 0, false, 0},
		{"Welch, 3 and 8", 3, 8, 0, false, 0.02},
		{"paired, 3", 3, 3, 0.05, true, 0},
		{"paired, 6", 6, 6, 0.05, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(tt.na), uint64(tt.nb)+100*uint64(len(tt.name))))
			covered, wrong := 0, 0
			for range trials {
				a, b := make([]float64, tt.na), make([]float64, tt.nb)
				for i := range max(tt.na, tt.nb) {
					shared := tt.block * rng.NormFloat64()
					if i < tt.na {
						a[i] = math.Exp(shared + 0.01*rng.NormFloat64())
					}
					if i < tt.nb {
						b[i] = math.Exp(shared + 0.01*rng.NormFloat64())
					}
				}
				same, other := Unpaired(a, b), make([]float64, tt.nb)
				for i := range other {
					other[i] = truth * b[i]
				}
				c := Unpaired(a, other)
				if tt.paired {
					same, c = Pairs(a, b), Pairs(a, other)
				}
				if *c.Lo <= truth && truth <= *c.Hi {
					covered++
				}
				if *same.P < 0.05 {
					wrong++
				}
			}
			coverage, rate := float64(covered)/trials, float64(wrong)/trials
			if !near(coverage, Level, margin+tt.low) || !near(rate, 1-Level, margin+tt.low) {
				t.Errorf("covers the truth in %.3f, calls equal systems different in %.3f", coverage, rate)
			}
		})
	}
}

// TestPooledIterationsAreNoUnits shows why the unit is the repeat: pooled iterations call equal systems different.
func TestPooledIterationsAreNoUnits(t *testing.T) {
	t.Parallel()
	const trials, runs, steps = 600, 3, 10
	rng := rand.New(rand.NewPCG(3, 10))
	side := func() (pooled, means []float64) {
		for range runs {
			run, sum := 0.01*rng.NormFloat64(), 0.0
			for range steps {
				v := math.Exp(run + 0.005*rng.NormFloat64())
				pooled, sum = append(pooled, v), sum+v
			}
			means = append(means, sum/steps)
		}
		return pooled, means
	}
	wrongPooled, wrongMeans := 0, 0
	for range trials {
		pa, ma := side()
		pb, mb := side()
		if *Unpaired(pa, pb).P < 0.05 {
			wrongPooled++
		}
		if *Unpaired(ma, mb).P < 0.05 {
			wrongMeans++
		}
	}
	if p, m := float64(wrongPooled)/trials, float64(wrongMeans)/trials; p < 0.4 || m > 0.09 {
		t.Errorf("different in %.2f by pooled iterations, in %.2f by repeats", p, m)
	}
}

// TestPower: what Visible promises is seen about as often as promised.
func TestPower(t *testing.T) {
	t.Parallel()
	const trials, n, cv = 3000, 5, 0.01
	effect, _ := Unpaired(spreadOf(n, cv), spreadOf(n, cv)).Visible()
	rng := rand.New(rand.NewPCG(80, 20))
	seen := 0
	for range trials {
		a, b := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = math.Exp(cv*rng.NormFloat64()), (1+effect)*math.Exp(cv*rng.NormFloat64())
		}
		if *Unpaired(a, b).P < 0.05 {
			seen++
		}
	}
	if rate := float64(seen) / trials; !near(rate, Power, 0.04) {
		t.Errorf("an effect of %.2f %% is seen in %.3f", 100*effect, rate)
	}
}
