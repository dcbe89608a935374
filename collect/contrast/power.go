package contrast

import (
	"cmp"
	"math"
	"slices"
)

// Visible is the smallest difference that as many values with the same spread would show with probability Power: as a
// share such as 0.03 for a ratio, else in the unit of the values. False: there are too few values.
//
// The formula is that of the sample size of a t-test, solved for the effect: (t(0.975) + t(0.80)) times the standard
// error, with quantiles at the degrees of freedom of the comparison (NIST/SEMATECH e-Handbook of Statistical Methods,
// 7.2.2.2). At 1 % spread it gives 3.0 % for 3 values a side, and 2.0 % for 5.
func (c Contrast) Visible() (float64, bool) {
	if c.df <= 0 {
		return 0, false
	}
	effect := reach(c.df) * c.se
	if c.Ratio {
		effect = math.Expm1(effect)
	}
	return effect, true
}

// maxValues bounds the answers of More.
const maxValues = 1000

// More is the number of further values on each side, or of further pairs, with which a ratio that is off by effect,
// such as 0.02, would be seen with probability Power. It is the formula of Visible, solved for the number by trying:
// the quantiles depend on it. The spread is the one that was seen, which is itself uncertain: of 3 values the true one
// is 0.5 to 6.3 times as large. False: there are too few values, there is no ratio, or more than 1000 are needed.
func (c Contrast) More(effect float64) (int, bool) {
	if c.df <= 0 || !c.Ratio {
		return 0, false
	}
	want := math.Log1p(effect)
	sees := func(n int) bool {
		x := float64(n)
		if c.Method == Paired {
			return reach(x-1)*c.sd/math.Sqrt(x) <= want
		}
		return reach(2*x-2)*c.sd*math.Sqrt(2/x) <= want
	}
	have := min(c.NA, c.NB)
	if sees(have) {
		return 0, true
	}
	lo, hi := have, 2*have // grows until it sees, then is narrowed down
	for !sees(hi) {
		if lo, hi = hi, 2*hi; lo > maxValues {
			return 0, false
		}
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; sees(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	if hi > maxValues {
		return 0, false
	}
	return hi - have, true
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
