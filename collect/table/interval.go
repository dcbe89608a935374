package table

import (
	"math"
	"slices"

	"cpbench/collect"
	"cpbench/worker/result"

	"golang.org/x/perf/benchmath"
)

// minSamples is the least number of samples with which the order statistics of the median give a 95 % interval.
const minSamples = 6

// needSamples is printed where there are fewer.
const needSamples = "need >= 6 samples"

// Interval is a confidence interval of a median at 95 % or more.
type Interval struct {
	Lo, Hi     float64
	Confidence float64 // true coverage, above 0.95
	N          int     // samples
	Kind       string  // KindRepeats, KindWithin or empty: none
	Repeat     int     // of KindWithin: the repeat whose iterations these are
}

// The kinds of intervals. One within a process describes that process, not what another execution would give.
const (
	KindRepeats = "repeats"
	KindWithin  = "within"
)

// medianInterval is the interval of the median over independent samples of any distribution, between two of the
// sorted samples. Below minSamples there is none: its ends would be infinite.
func medianInterval(samples []float64) (Interval, bool) {
	n := len(samples)
	if n < minSamples {
		return Interval{N: n}, false
	}
	ranks := make([]float64, n)
	for i := range ranks {
		ranks[i] = float64(i + 1)
	}
	sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(ranks, &benchmath.DefaultThresholds), 0.95)
	if math.IsInf(sum.Lo, 0) || math.IsInf(sum.Hi, 0) {
		return Interval{N: n}, false
	}
	// benchmath gives the narrowest interval, which for some n (8 is one) reaches further to one side. Nothing says to
	// which side a measurement should reach, so ours takes the wider reach on both.
	lo := min(int(sum.Lo), n+1-int(sum.Hi))
	sorted := slices.Sorted(slices.Values(samples))
	return Interval{Lo: sorted[lo-1], Hi: sorted[n-lo], Confidence: coverage(n, lo), N: n}, true
}

// coverage is the probability that the median lies between the lo-th smallest and the lo-th largest of n samples:
// that of at least lo samples on either side of it.
func coverage(n, lo int) float64 {
	ways, outside := 1.0, 0.0
	for k := range lo {
		outside += math.Ldexp(ways, -n) // k of n samples below the median
		ways *= float64(n-k) / float64(k+1)
	}
	return 1 - 2*outside
}

// interval is that over the repeats if there are enough of them, else that over the iterations of the one repeat
// whose time is the (lower) median of all. Iterations of several repeats are never pooled.
func interval(good []*collect.Pair, metric string) Interval {
	type timed struct {
		pair    *collect.Pair
		seconds float64
	}
	var all []timed
	var values []float64
	for _, p := range good {
		if v, ok := p.Result.Metric(metric); ok {
			all, values = append(all, timed{p, v}), append(values, v)
		}
	}
	if iv, ok := medianInterval(values); ok {
		iv.Kind = KindRepeats
		return iv
	}
	if len(all) == 0 {
		return Interval{}
	}
	slices.SortStableFunc(all, func(a, b timed) int {
		switch {
		case a.seconds < b.seconds:
			return -1
		case a.seconds > b.seconds:
			return 1
		}
		return 0
	})
	middle := all[(len(all)-1)/2].pair
	// A result that had to be cut lists only the first of its iterations.
	if steps := middle.Result.Steps; steps != nil && len(steps.Seconds) == min(steps.N, result.MaxSeconds) {
		if iv, ok := medianInterval(steps.Seconds); ok {
			iv.Kind, iv.Repeat = KindWithin, middle.Repeat
			return iv
		}
	}
	return Interval{N: len(values)}
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return v[n/2-1]/2 + v[n/2]/2
}

// spread is the coefficient of variation over repeats: sample standard deviation over mean.
func spread(values []float64) (float64, bool) {
	if len(values) < 2 {
		return 0, false
	}
	n, sum, squares := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	for _, v := range values {
		squares += (v - sum/n) * (v - sum/n)
	}
	if sum == 0 {
		return 0, false
	}
	return math.Sqrt(squares/(n-1)) / (sum / n), true
}
