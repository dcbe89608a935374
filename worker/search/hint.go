package search

import "cpbench/plan/catalogue"

// A hint says where to look first. The size itself is tried, and if it does not fit, two sizes below; then the search
// goes on from what has happened. Nothing but these sizes rests on the hint: if none of them fits, or one ends in a way
// that says nothing about memory, the search begins where it would have begun without.

// hint is what has become of the hint.
type hint struct {
	missed  int     // sizes tried for it that did not fit, before any size did
	early   []int64 // ... those that ran out of memory, from the largest, while nothing could be predicted
	dropped bool    // it has led to an ending that says nothing about memory
}

// hintSizes are the sizes that are tried for a hint, as shares of it. The first is right for an equal machine, the
// second for a hint that is some percent too high, the third for one that is twice too high.
var hintSizes = []float64{1, 0.875, 0.4375}

// hinted reports whether the search goes by its hint.
func (h *history) hinted() bool {
	return h.cfg.Hint > 0 && !h.hint.dropped && h.hint.missed < len(hintSizes)
}

// hinting reports whether the next trial is of a size that the hint gives.
func (h *history) hinting() bool { return h.hinted() && len(h.fitted) == 0 }

// guess is the next size to try for the hint.
func (h *history) guess() (int64, string) {
	first := h.down(float64(h.cfg.Hint)) // below the smallest size, that is tried
	if h.hint.missed == 0 {
		return first, "the hint"
	}
	return h.down(hintSizes[h.hint.missed] * float64(first)), "below the hint"
}

// missHint takes in that a size tried for the hint does not fit.
func (h *history) missHint(bound *int64, n int64) {
	h.hint.missed++
	if bound == &h.oom {
		h.hint.early = append(h.hint.early, n)
	}
}

// doubtHint asks for an out-of-memory at a hinted size again, once there are sizes by which it is to be doubted: it was
// believed while there were none.
func (h *history) doubtHint() {
	last := len(h.hint.early) - 1
	if last < 0 || h.faulted || h.oom != h.hint.early[last] || !h.doubts(h.oom) {
		return
	}
	h.again(Trial{N: h.oom, Outcome: catalogue.OOMDevice}, farBelow)
	h.hint.early = h.hint.early[:last]
	if h.oom = 0; last > 0 {
		h.oom = h.hint.early[last-1]
	}
}

// climb is a size above lo where there is no prediction. A hint is taken to be nearly right, so the steps begin with
// the width that closes the bracket, and grow fourfold.
func (h *history) climb(lo int64) (int64, string) {
	step := h.width(lo)
	for range len(h.fitted) - 1 {
		if step >= lo {
			break
		}
		step *= 4
	}
	return min(lo+min(step, lo), h.to), "above the hint"
}
