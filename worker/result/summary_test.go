package result

import (
	"math"
	"slices"
	"testing"

	"cpbench/plan/catalogue"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		seconds [][]float64
		want    Summary
		codes   []catalogue.Code
	}{
		{"none", nil, Summary{Warmup: 3, Steady: "unknown"}, nil},
		{"iteration without ranks", [][]float64{{}}, Summary{Warmup: 3, Steady: "unknown"}, nil},
		{"one", [][]float64{{2, 3}}, Summary{
			N: 1, Seconds: []float64{3}, Min: 3, Q1: 3, Median: 3, Q3: 3, Max: 3, Mean: 3, Warmup: 3, Steady: "unknown", Slowest: 1,
		}, []catalogue.Code{catalogue.NSmall}},
		// The median of the slowest rank is 4; per-rank medians first would give 3.
		{"slowest rank of each", [][]float64{{1, 4}, {5, 2}, {3, 3}}, Summary{
			N: 3, Seconds: []float64{4, 5, 3}, Min: 3, Q1: 3.5, Median: 4, Q3: 4.5, Max: 5, Mean: 4, SD: ptr(1.0), MAD: 1, Warmup: 3, Steady: "unknown", Slowest: 0,
		}, []catalogue.Code{catalogue.NSmall}},
		{"even", [][]float64{{1}, {2}, {3}, {10}}, Summary{
			N: 4, Seconds: []float64{1, 2, 3, 10}, Min: 1, Q1: 1.75, Median: 2.5, Q3: 4.75, Max: 10, Mean: 4, SD: ptr(math.Sqrt(50.0 / 3)), MAD: 1, Warmup: 3, Steady: "unknown",
		}, []catalogue.Code{catalogue.NSmall, catalogue.Drift}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, warnings := Summarize(tt.seconds, 3)
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.codes, codes(warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDoubts(t *testing.T) {
	t.Parallel()
	series := func(n int, f func(i int) float64) [][]float64 {
		var s [][]float64
		for i := range n {
			s = append(s, []float64{f(i)})
		}
		return s
	}
	tests := []struct {
		name    string
		seconds [][]float64
		want    []catalogue.Code
	}{
		{"flat", series(30, func(int) float64 { return 1 }), nil},
		{"alternating noise of 1 %", series(9, func(i int) float64 { return 1 + 0.01*float64(i%2) }), nil},
		{"alternating is negative correlation", series(10, func(i int) float64 { return 1 + 0.01*float64(i%2) }), []catalogue.Code{catalogue.Autocorrelated}},
		{"ramp of 1.9 % between halves", series(8, func(i int) float64 { return 1 + 0.019*float64(i/4) }), nil},
		{"ramp of 2.1 % between halves", series(8, func(i int) float64 { return 1 + 0.021*float64(i/4) }), []catalogue.Code{catalogue.Drift}},
		{"faster counts too", series(8, func(i int) float64 { return 1 - 0.03*float64(i/4) }), []catalogue.Code{catalogue.Drift}},
		{"long ramp", series(20, func(i int) float64 { return 1 + 0.01*float64(i) }), []catalogue.Code{catalogue.Drift, catalogue.Autocorrelated}},
		{"a small trend", series(10, func(i int) float64 { return 1 + 0.001*float64(i) }), []catalogue.Code{catalogue.Drift, catalogue.Autocorrelated}},
		{"a small trend of few steps", series(9, func(i int) float64 { return 1 + 0.001*float64(i) }), nil},
		{"noise without a trend", series(12, func(i int) float64 { return 1 + 0.001*float64(i*7%12) }), nil},
		{"three steps say only that they are few", series(3, func(i int) float64 { return 1 + float64(i) }), []catalogue.Code{catalogue.NSmall}},
		{"five are too few", series(5, func(int) float64 { return 1 }), []catalogue.Code{catalogue.NSmall}},
		{"six are enough", series(6, func(int) float64 { return 1 }), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, warnings := Summarize(tt.seconds, 0)
			if diff := cmp.Diff(tt.want, codes(warnings)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The values are those of Kendall's S by hand, with his variance.
func TestTrend(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		values []float64
		want   float64
	}{
		"rising":  {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 44 / math.Sqrt(125)},
		"falling": {[]float64{5, 4, 3, 2, 1}, -9 / math.Sqrt(300./18)},
		"ties":    {[]float64{1, 1, 2, 2}, 3 / math.Sqrt((4*3*13-2*2*1*9)/18.)},
		"equal":   {[]float64{3, 3, 3, 3}, 0},
		"none":    {[]float64{1, 2, 1, 2, 1}, 0},
	} {
		if got := trend(tt.values); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func codes(warnings []Warning) []catalogue.Code {
	var list []catalogue.Code
	for _, w := range warnings {
		list = append(list, w.Code)
	}
	return list
}

func TestSummarizeNaN(t *testing.T) {
	t.Parallel()
	steps, _ := Summarize([][]float64{{1, math.NaN()}, {1, 1}}, 0)
	r := full()
	r.Steps = &steps
	if err := Write(t.TempDir(), r); err == nil {
		t.Error("a summary of a NaN was written")
	}
}

func TestSummarizeProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.Float64Range(1e-6, 1e6), 1, 5), 1, 250).Draw(t, "rows")
		s, _ := Summarize(rows, 0)
		if !slices.IsSorted([]float64{s.Min, s.Q1, s.Median, s.Q3, s.Max}) {
			t.Fatalf("not in order: %+v", s)
		}
		if s.N != len(rows) || len(s.Seconds) != min(s.N, MaxSeconds) || (s.SD == nil) != (s.N == 1) {
			t.Fatalf("counts: %+v", s)
		}
	})
}
