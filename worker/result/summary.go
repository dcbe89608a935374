package result

import (
	"fmt"
	"math"
	"slices"

	"cpbench/plan/catalogue"
)

// The thresholds of the doubts that Summarize raises. Below the sample counts the tests say nothing.
const (
	driftShare  = 0.02
	driftMin    = 4
	autocorrMin = 10
	trendMin    = 10
	trendZ      = 2.576 // beyond it lies 1 % of the normal distribution, both sides together
)

// intervalMin is the least number of samples for which the order-statistic interval of the median reaches 95 %.
const intervalMin = 6

// Summarize describes the timed iterations of one execution. seconds holds for each iteration the time of every
// rank; the time of an iteration is that of its slowest rank. warmup is the number of steps that were discarded
// before. Quartiles are interpolated between the two nearest values. An iteration without ranks is left out. Steady is
// `unknown`: the caller knows how the warm-up ended. The warnings say when the times drift or depend on one another.
func Summarize(seconds [][]float64, warmup int) (Summary, []Warning) {
	s := Summary{Warmup: warmup, Steady: "unknown", Slowest: slowest(seconds)}
	var steps []float64
	for _, ranks := range seconds {
		if len(ranks) > 0 {
			steps = append(steps, slices.Max(ranks)) // NaN if one is: Write then refuses the result
		}
	}
	s.N = len(steps)
	if s.N == 0 {
		return s, nil
	}
	s.Seconds = slices.Clone(steps[:min(s.N, MaxSeconds)])
	sorted := slices.Sorted(slices.Values(steps))
	s.Min, s.Max = sorted[0], sorted[s.N-1]
	s.Q1, s.Median, s.Q3 = quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75)
	s.Mean = mean(steps)
	deviations := make([]float64, s.N)
	squares := 0.0
	for i, v := range steps {
		deviations[i] = math.Abs(v - s.Median)
		squares += (v - s.Mean) * (v - s.Mean)
	}
	slices.Sort(deviations)
	s.MAD = quantile(deviations, 0.5)
	if s.N > 1 {
		sd := math.Sqrt(squares / float64(s.N-1))
		s.SD = &sd
	}
	return s, doubts(steps)
}

// doubts looks at the order of the times.
func doubts(steps []float64) []Warning {
	var warnings []Warning
	n := len(steps)
	if n < intervalMin {
		warnings = append(warnings, Warning{
			catalogue.NSmall, fmt.Sprintf("%d timed steps: an interval within the process needs %d", n, intervalMin), "raise workload.iterations",
		})
	}
	if text := drift(steps); text != "" {
		warnings = append(warnings, Warning{catalogue.Drift, text, "look for other load on the machine, or for clocks that change"})
	}
	if n >= autocorrMin {
		if r1 := lag1(steps); math.Abs(r1) > 2/math.Sqrt(float64(n)) {
			warnings = append(warnings, Warning{
				catalogue.Autocorrelated,
				fmt.Sprintf("successive timed steps depend on one another (r = %.2f): the interval within the process is too narrow", r1),
				"use repeats: 6 or more",
			})
		}
	}
	return warnings
}

// drift says how the times change from the first step to the last; empty if that is nothing, or may be chance.
func drift(steps []float64) string {
	n := len(steps)
	if n < driftMin {
		return ""
	}
	first, second := Median(steps[:n/2]), Median(steps[(n+1)/2:])
	if change := second/first - 1; math.Abs(change) > driftShare {
		return fmt.Sprintf("the second half of the timed steps is %+.1f %% against the first", 100*change)
	}
	switch z := trend(steps); {
	case n < trendMin:
	case z > trendZ:
		return "the timed steps become slower from the first to the last, by little but not by chance"
	case z < -trendZ:
		return "the timed steps become faster from the first to the last, by little but not by chance"
	}
	return ""
}

// trend is the test of Mann and Kendall for a trend against the order: about normal with deviation 1 if there is none,
// above 0 if the values rise. Equal values are allowed for.
func trend(values []float64) float64 {
	n := float64(len(values))
	s, ties := 0.0, 0.0
	equal := map[float64]float64{}
	for i, v := range values {
		equal[v]++
		for _, earlier := range values[:i] {
			switch {
			case v > earlier:
				s++
			case v < earlier:
				s--
			}
		}
	}
	for _, t := range equal {
		ties += t * (t - 1) * (2*t + 5)
	}
	variance := (n*(n-1)*(2*n+5) - ties) / 18
	if s == 0 || !(variance > 0) {
		return 0
	}
	return (s - math.Copysign(1, s)) / math.Sqrt(variance)
}

// slowest returns the rank with the largest median over the iterations; of equal ones the first.
func slowest(seconds [][]float64) int {
	var byRank [][]float64
	for _, ranks := range seconds {
		for r, v := range ranks {
			if r == len(byRank) {
				byRank = append(byRank, nil)
			}
			byRank[r] = append(byRank[r], v)
		}
	}
	best, at := math.Inf(-1), 0
	for r, times := range byRank {
		if m := Median(times); m > best {
			best, at = m, r
		}
	}
	return at
}

// Median is the middle value, or the mean of the two in the middle. It needs a value.
func Median(values []float64) float64 {
	return quantile(slices.Sorted(slices.Values(values)), 0.5)
}

// quantile interpolates between the two nearest of the sorted values (type 7 of Hyndman and Fan).
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	lo := int(at)
	hi := min(lo+1, len(sorted)-1)
	return sorted[lo] + (at-float64(lo))*(sorted[hi]-sorted[lo])
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// lag1 is the correlation of each value with its successor; 0 if all are equal.
func lag1(values []float64) float64 {
	m := mean(values)
	var num, den float64
	for i, v := range values {
		den += (v - m) * (v - m)
		if i > 0 {
			num += (v - m) * (values[i-1] - m)
		}
	}
	if den == 0 {
		return 0
	}
	return num / den
}
