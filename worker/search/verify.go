package search

import (
	"fmt"

	"cpbench/plan/catalogue"
)

// Whether a size fits need not be monotone: a program may change precision, chunking or kernels with N (boltz#80). So
// some sizes below the answer are tried after it.

// below is what the sizes below the answer have shown.
type below struct {
	ok, done int
	doubtful []Trial // ended without a word about memory
}

// verification is the next size below the answer to be tried; 0: none. The sizes are spread evenly between the smallest
// size and the answer, from the largest down, off those that were tried.
func (h *history) verification() int64 {
	lo := h.lo()
	switch {
	case lo == 0 || h.below.done >= h.cfg.Verify || h.confirm[lo].failed > 0:
		return 0
	case h.ended == Aborted || h.ended == TimeLimit || h.skips >= maxSkips:
		return 0
	}
	parts := int64(h.cfg.Verify)
	target := (h.from + (lo-h.from)/(parts+1)*(parts-int64(h.below.done))) / h.step * h.step
	for d := int64(0); target-d > h.from || target+d < lo; d += h.step {
		for _, n := range []int64{target - d, target + d} {
			if h.from < n && n < lo && !h.tried[n] {
				return n
			}
		}
	}
	return 0
}

// addVerify takes in a trial of a size below the answer. An out-of-memory there counts once it has happened in two
// processes, because a larger size has fitted. It opens the bracket again.
func (h *history) addVerify(t Trial, retry catalogue.Outcome) {
	memory := t.Outcome.OutOfMemory()
	switch {
	case retry == "" && (memory || t.Outcome == catalogue.OOMSuspect):
		h.again(t, "a larger size has fitted")
		return
	case t.Outcome == catalogue.Skipped: // another one stands for it
		h.skipped[t.N] = true
		h.skips++
		return
	case t.Outcome.Fits():
		h.fitted = append(h.fitted, t)
		h.below.ok++
	case retry.OutOfMemory(): // and it counts since settle
		h.halving = true
	case memory:
		h.addBound(&h.oom, t.N)
		h.halving = true
	default:
		h.below.doubtful = append(h.below.doubtful, t)
	}
	h.below.done++
}

// leftOut notes the sizes that there was no time to verify.
func (h *history) leftOut() {
	h.note(fmt.Sprintf("no time for %d of %d sizes below", h.cfg.Verify-h.below.done, h.cfg.Verify))
}
