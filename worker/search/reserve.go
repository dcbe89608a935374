package search

import (
	"cmp"
	"slices"
)

// spare is the share of the capacity that a recommended size leaves free: a size that only just fits may fail in a
// longer run (pytorch-lightning#8028).
const spare = 0.05

// reserve is the largest size of the grid, at most lo, at which the fitted peak leaves that share free; 0 where no
// fit can be had, or where no size does. It rests on the largest sizes that fitted, whatever their order.
func (h *history) reserve(lo int64) int64 {
	if h.capacity == nil || lo == 0 {
		return 0
	}
	sizes := slices.Clone(h.fitted)
	slices.SortStableFunc(sizes, func(a, b Trial) int { return cmp.Compare(b.N, a.N) })
	var s []sample
	for _, t := range sizes {
		if t.N <= lo && measured(t.PeakBytes) && len(s) < maxSamples && (len(s) == 0 || s[0].n != float64(t.N)) {
			s = append([]sample{{float64(t.N), *t.PeakBytes}}, s...)
		}
	}
	most := (1 - spare) * *h.capacity
	n := lo
	switch last := len(s) - 1; {
	case last < 0:
		return 0
	case s[last].n == float64(lo) && s[last].y <= most: // the answer itself leaves it
	case last == 0:
		return 0
	default:
		n = min(lo, h.down(fit(s, memoryShapes).solve(most)))
	}
	for n >= h.from && h.skipped[n] {
		n -= h.step
	}
	if n < h.from {
		return 0
	}
	return n
}
