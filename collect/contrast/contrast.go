// Package contrast is the difference between two samples of independent values: how large it is, between which bounds
// it lies, what could have been seen at all, and how many more values would show more. Use Unpaired or Pairs for one
// difference, and Holm for many. It knows nothing of what was measured.
//
// The method is that of Student's t on the logarithms of the values, Welch's form for unpaired samples. It is made for
// the few values that runs on a cluster leave: with 3 values a side its 95 % interval covers the truth in 95 % of the
// cases, whereas an interval of ranks does not exist below 6 values, a rank test of 3 against 3 can never say
// "different", and a bootstrap of 3 covers 90 %. Logarithms make the difference a ratio, and values that spread in
// proportion to their size alike.
package contrast

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Method says how two samples were compared.
type Method string

// The methods.
const (
	Welch  Method = "Welch"  // two samples of their own, whose spreads may differ
	Paired Method = "paired" // differences within pairs that have something in common
)

// Level is the confidence of an interval, and Power the probability with which Visible and More promise to see an effect.
const (
	Level = 0.95
	Power = 0.80
)

// minRank is the least number of values on each side with which the rank test may speak: below, its smallest p-value
// is above 0.05.
const minRank = 4

// Contrast is the difference of B from A.
type Contrast struct {
	Method Method
	// Ratio says that Estimate, Lo and Hi are B/A, a ratio of geometric means; else, since a value is not above 0, they are
	// B-A, a difference of means.
	Ratio  bool
	NA, NB int // values; of pairs both are their number
	// Estimate of the difference.
	Estimate float64
	// Lo and Hi bound it at Level; nil: there are too few values.
	Lo, Hi *float64
	// P is the probability of a difference at least as large if there is none, by the t-test; nil: too few values.
	P *float64
	// Rank is that of the Mann-Whitney test, a second opinion that assumes no distribution; nil: too few values, or pairs.
	Rank *float64

	se, df, sd float64 // of the difference, on the scale on which it was made; sd of one value, or of one pair
}

// Unpaired compares samples that have nothing in common, by Welch's t. Each side needs a value, and 2 for an interval.
func Unpaired(a, b []float64) Contrast {
	c := Contrast{Method: Welch, NA: len(a), NB: len(b), Ratio: positive(a) && positive(b)}
	x, y := c.scale(a), c.scale(b)
	ma, va := moments(x)
	mb, vb := moments(y)
	na, nb := float64(len(a)), float64(len(b))
	if len(a) >= 2 && len(b) >= 2 {
		ea, eb := va/na, vb/nb
		c.se, c.sd = math.Sqrt(ea+eb), math.Sqrt((va+vb)/2)
		c.df = na + nb - 2
		if ea+eb > 0 {
			c.df = (ea + eb) * (ea + eb) / (ea*ea/(na-1) + eb*eb/(nb-1))
		}
	}
	c.bound(mb - ma)
	if len(a) >= minRank && len(b) >= minRank {
		// Clones, since a sample is sorted in place. Values that are all the same have no rank: that is no difference.
		test := benchmath.AssumeNothing.Compare(
			benchmath.NewSample(slices.Clone(a), &benchmath.DefaultThresholds), benchmath.NewSample(slices.Clone(b), &benchmath.DefaultThresholds))
		c.Rank = &test.P
	}
	return c
}

// Pairs compares a[i] with b[i], which share something, such as a node or a start, by the t of their differences. It
// needs a pair, and 2 for an interval. The slices have the same length.
func Pairs(a, b []float64) Contrast {
	n := len(a)
	c := Contrast{Method: Paired, NA: n, NB: n, Ratio: positive(a) && positive(b)}
	x, y := c.scale(a), c.scale(b)
	differences := make([]float64, n)
	for i := range differences {
		differences[i] = y[i] - x[i]
	}
	mean, variance := moments(differences)
	if n >= 2 {
		c.sd = math.Sqrt(variance)
		c.se, c.df = c.sd/math.Sqrt(float64(n)), float64(n-1)
	}
	c.bound(mean)
	return c
}

// bound completes a contrast whose difference, its error and degrees of freedom are known. No degrees: no bounds.
func (c *Contrast) bound(difference float64) {
	c.Estimate = c.back(difference)
	if c.df <= 0 {
		return
	}
	reach, p := 0.0, 0.0
	switch {
	case c.se > 0:
		reach, p = c.se*critical(1-Level, c.df), tail(math.Abs(difference)/c.se, c.df)
	case difference == 0:
		p = 1
	}
	lo, hi := c.back(difference-reach), c.back(difference+reach)
	c.Lo, c.Hi, c.P = &lo, &hi, &p
}

// None is the estimate of no difference at all.
func (c Contrast) None() float64 { return c.back(0) }

// back turns a difference into the estimate's form.
func (c Contrast) back(difference float64) float64 {
	if c.Ratio {
		return math.Exp(difference)
	}
	return difference
}

func (c Contrast) scale(values []float64) []float64 {
	if !c.Ratio {
		return values
	}
	logs := make([]float64, len(values))
	for i, v := range values {
		logs[i] = math.Log(v)
	}
	return logs
}

func positive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v <= 0 })
}

// MeanSD are the mean and the sample standard deviation of some values, at least one; that of a single value is 0.
func MeanSD(values []float64) (mean, sd float64) {
	mean, variance := moments(values)
	return mean, math.Sqrt(variance)
}

// moments are mean and sample variance; the variance of one value is 0. Values that are all the same have exactly none.
func moments(values []float64) (mean, variance float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += (v - values[0]) / n
	}
	if len(values) > 0 {
		mean += values[0]
	}
	if len(values) < 2 {
		return mean, 0
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / (n - 1)
	}
	return mean, variance
}

// GeometricMean is that of values above 0, at least one. It is the mean of ratios: that of B/A is 1 over that of A/B.
func GeometricMean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}
