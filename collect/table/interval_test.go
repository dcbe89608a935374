package table

import (
	"math"
	"testing"

	"golang.org/x/perf/benchmath"
	"pgregory.net/rapid"
)

// TestMedianInterval holds the table of order statistics in the method's description.
func TestMedianInterval(t *testing.T) {
	t.Parallel()
	tests := []struct {
		n, lo, hi int
		coverage  float64
	}{
		{6, 1, 6, 96.9},
		{7, 1, 7, 98.4},
		{8, 1, 8, 99.2},
		{9, 2, 8, 96.1},
		{10, 2, 9, 97.9},
		{12, 3, 10, 96.1},
		{15, 4, 12, 96.5},
		{20, 6, 15, 95.9},
		{30, 10, 21, 95.7},
	}
	for n := range minSamples {
		if _, ok := medianInterval(ascending(n)); ok {
			t.Errorf("n = %d has an interval", n)
		}
	}
	for _, tt := range tests {
		iv, ok := medianInterval(ascending(tt.n))
		if !ok || iv.Lo != float64(tt.lo) || iv.Hi != float64(tt.hi) || math.Abs(100*iv.Confidence-tt.coverage) > 0.1 {
			t.Errorf("n = %d: %+v, want %d-%d with %.1f %%", tt.n, iv, tt.lo, tt.hi, tt.coverage)
		}
	}
}

// TestMedianIntervalAgainstBenchmath: wherever the interval of benchmath is symmetric, ours is the same; elsewhere ours
// contains it. For large n benchmath's coverage is an approximation.
func TestMedianIntervalAgainstBenchmath(t *testing.T) {
	t.Parallel()
	same := 0
	for n := minSamples; n <= 200; n++ {
		sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(ascending(n), &benchmath.DefaultThresholds), 0.95)
		iv, ok := medianInterval(ascending(n))
		if !ok || iv.Lo > sum.Lo || iv.Hi < sum.Hi || iv.Confidence < 0.95 || iv.Lo+iv.Hi != float64(n+1) {
			t.Errorf("n = %d: %+v, benchmath %+v", n, iv, sum)
		}
		if sum.Lo+sum.Hi == float64(n+1) {
			same++
			if math.Abs(iv.Confidence-sum.Confidence) > 2e-3 || iv.Lo != sum.Lo {
				t.Errorf("n = %d: %+v, benchmath %+v", n, iv, sum)
			}
		}
	}
	if same < 50 {
		t.Errorf("only %d intervals compared", same)
	}
}

func ascending(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[n-1-i] = float64(i + 1)
	}
	return v
}

func TestMedianIntervalProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(1e-6, 1e6), 0, 80).Draw(t, "values")
		iv, ok := medianInterval(v)
		if ok != (len(v) >= minSamples) || iv.N != len(v) {
			t.Fatalf("%d values: %+v, %v", len(v), iv, ok)
		}
		if m := 0.0; ok {
			m = median(v)
			if iv.Lo > m || m > iv.Hi || iv.Confidence < 0.95 {
				t.Fatalf("median %v outside of %+v", m, iv)
			}
		}
	})
}
