package contrast

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Visible is the smallest difference that as many values with the same spread would show with probability Power: as a
// share such as 0.03 for a ratio, else in the unit of the values. False: there are too few values.
//
// The formula is that of the sample size of a t-test, solved for the effect: (t(0.975) + t(0.80)) times the standard
// error, with quantiles at the degrees of freedom of the comparison (NIST/SEMATECH e-Handbook of Statistical Methods,
// 7.2.2.2). At 1 % spread it gives 3.0 % for 3 values a side, and 2.0 % for 5.
func (c Contrast) Visible() (float64, bool) { return c.visible(0) }

// visible is Visible with so many further values on each side, or further pairs.
func (c Contrast) visible(more int) (float64, bool) {
	se, df := c.precision(more)
	if df <= 0 {
		return 0, false
	}
	effect := reach(df) * se
	if c.Ratio {
		effect = math.Expm1(effect)
	}
	return effect, true
}

// maxMore bounds the answers of More.
const maxMore = 1000

// More is the number of further values on each side, or of further pairs, with which a ratio that is off by effect,
// such as 0.02, would be seen with probability Power. It is the formula of Visible, solved for the number by trying:
// the quantiles depend on it. The spreads are those that were seen, which are themselves uncertain: of 3 values the true
// one is 0.5 to 6.3 times as large. False: there are too few values, there is no ratio, or more than 1000 are needed.
func (c Contrast) More(effect float64) (int, bool) {
	if _, ok := c.visible(0); !ok || !c.Ratio {
		return 0, false
	}
	k := sort.Search(maxMore+1, func(more int) bool {
		v, _ := c.visible(more)
		return v <= effect
	})
	return k, k <= maxMore
}

// reach is t(0.975) + t(0.80).
func reach(df float64) float64 { return critical(1-Level, df) + critical(2*(1-Power), df) }

// Holm adjusts the p-values of comparisons that were made together, by Holm's method: calling different what is at most
// 0.05 then goes wrong once or more in at most 5 % of such sets, however the comparisons depend on one another.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted := make([]float64, len(p))
	most := 0.0
	for rank, i := range order {
		most = max(most, min(1, float64(len(p)-rank)*p[i])) // no smaller than that of a smaller p
		adjusted[i] = most
	}
	return adjusted
}
