package search

import "math"

// drop is the first step down after a failure at a predicted size, as a share of that size.
const drop = 0.02

// choose gives the next size to try; 0 when the bracket is as narrow as it is going to be.
func (h *history) choose() (n int64, why string) {
	lo, hi := h.lo(), h.hi()
	switch {
	case h.slow != 0 || lo >= h.to || hi != 0 && hi-lo <= h.width(lo):
		return 0, ""
	case lo == 0 && hi == h.from:
		return 0, ""
	case h.hinting():
		n, why = h.guess()
	case lo == 0:
		n, why = h.from, "smallest size"
	case hi == 0 || !h.faulted:
		if n, why = h.up(lo); hi != 0 && n >= hi { // where the hint was too high
			n, why = h.inside(lo, hi)
		}
	default:
		n, why = h.inside(lo, hi)
	}
	return h.legal(n, lo, hi), why
}

// width is the width at which a bracket above lo counts as closed, in whole steps of the grid.
func (h *history) width(lo int64) int64 {
	return max(h.step, int64(h.cfg.Tolerance*float64(lo))/h.step*h.step)
}

// up chooses a size above lo while nothing has failed.
func (h *history) up(lo int64) (int64, string) {
	for _, s := range []int64{2 * h.from, 4 * h.from} {
		if !h.hinted() && lo < s && s-lo >= lo/2 {
			return min(s, h.to), "starter size"
		}
	}
	p, ok := h.predict()
	if !ok && h.hinted() {
		return h.climb(lo)
	}
	if !ok {
		return min(2*lo, h.to), "twice the largest size that fits"
	}
	if p > 2*float64(lo) {
		return min(2*lo, h.to), "twice the largest size that fits: the prediction is further away"
	}
	// The step is what closes the bracket if it fails. From the third success on it doubles, whatever the fit
	// says, so that a fit which is always a little behind cannot make the search creep. (Doubling at once costs
	// 0.2 trials in the simulation of BenchmarkSearch.)
	step := math.Ldexp(float64(h.width(lo)), max(h.climbs-2, 0))
	near := lo + h.down(math.Min(step, float64(lo)))
	if q := h.down(p); q > near {
		return q, "predicted to be the last that fits"
	}
	return min(near, h.to), "just above the prediction"
}

// inside chooses a size between lo, which fits, and hi, which does not.
func (h *history) inside(lo, hi int64) (int64, string) {
	if p, ok := h.predict(); ok && !h.halving {
		q := h.down(p)
		if lo < q && q < hi {
			return q, "predicted to be the last that fits"
		}
		// Not far above hi: the fit was nearly right.
		if h.misses > 0 && p < 1.25*float64(hi) {
			n := hi - max(h.step, h.down(drop*float64(hi)*math.Pow(3, float64(h.misses-1))))
			if n > lo {
				return n, "just below a prediction that failed"
			}
		}
	}
	return (lo + (hi-lo)/2) / h.step * h.step, "middle of the bracket"
}

// legal moves n to the nearest size between lo and hi that is not known to be illegal for the mesh, downwards
// first; 0 if there is none.
func (h *history) legal(n, lo, hi int64) int64 {
	least, most := max(lo+h.step, h.from), h.to
	if hi != 0 {
		most = hi - h.step
	}
	n = min(max(n, least), most)
	for m := n; m >= least; m -= h.step {
		if !h.skipped[m] {
			return m
		}
	}
	for m := n + h.step; m <= most; m += h.step {
		if !h.skipped[m] {
			return m
		}
	}
	return 0
}
