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
	// P is the probability of a difference at least as large if there is none, by the t-test; nil: there are too few
	// values, or they have no spread at all, by which alone that test can tell what chance does.
	P *float64
	// Rank is that of the Mann-Whitney test, a second opinion that assumes no distribution; nil: too few values, or pairs.
	Rank *float64

	va, vb float64 // variances of the values of each side, on the scale on which they were compared; of pairs va is theirs
}

// Unpaired compares samples that have nothing in common, by Welch's t. Each side needs a value, and 2 for an interval.
func Unpaired(a, b []float64) Contrast {
	c := Contrast{Method: Welch, NA: len(a), NB: len(b), Ratio: positive(a) && positive(b)}
	var ma, mb float64
	ma, c.va = moments(c.scale(a))
	mb, c.vb = moments(c.scale(b))
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
	var mean float64
	mean, c.va = moments(differences)
	c.bound(mean)
	return c
}

// precision is the standard error of the difference, with so many further values of the same spread on each side, or
// further pairs, and its degrees of freedom. No degrees: there are too few values now.
func (c *Contrast) precision(more int) (se, df float64) {
	na, nb := float64(c.NA+more), float64(c.NB+more)
	switch ea, eb := c.va/na, c.vb/nb; {
	case c.NA < 2 || c.NB < 2:
		return 0, 0
	case c.Method == Paired:
		return math.Sqrt(ea), na - 1
	case ea+eb == 0:
		return 0, na + nb - 2
	default:
		return math.Sqrt(ea + eb), (ea + eb) * (ea + eb) / (ea*ea/(na-1) + eb*eb/(nb-1))
	}
}

// bound completes a contrast whose difference and variances are known. No degrees of freedom: no bounds.
func (c *Contrast) bound(difference float64) {
	c.Estimate = c.back(difference)
	se, df := c.precision(0)
	if df <= 0 {
		return
	}
	reach := 0.0
	if se > 0 {
		p := tail(math.Abs(difference)/se, df)
		reach, c.P = se*critical(1-Level, df), &p
	}
	lo, hi := c.back(difference-reach), c.back(difference+reach)
	c.Lo, c.Hi = &lo, &hi
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
