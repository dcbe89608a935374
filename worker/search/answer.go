package search

import (
	"fmt"

	"cpbench/plan/catalogue"
)

// conclude asks for the confirmations that are missing and for sizes below, and gives the answer after them.
func (h *history) conclude(s Step) Step {
	fresh := s.Fresh
	if h.ended == "" {
		h.end()
	}
	lo := h.lo()
	c := h.confirm[lo]
	missing := h.cfg.Confirm - c.ok - c.failed
	if missing > 0 && lo != 0 && h.ended != Aborted {
		s.N, s.Fresh, s.Confirm, s.Why = lo, true, true, "confirms the answer in a new process"
		if h.affordable(s) {
			return s
		}
		h.note(fmt.Sprintf("no time for %d of %d confirmations", missing, h.cfg.Confirm))
	}
	if n := h.verification(); n != 0 {
		s.N, s.Fresh, s.Confirm, s.Verify, s.Why = n, fresh, false, true, "verifies a size below the answer"
		if h.affordable(s) {
			return s
		}
		h.leftOut()
	}
	if c.failed > 0 && h.ended != Aborted {
		h.ended = Unstable
		h.note(fmt.Sprintf("size %d ran again in %d of %d new processes", lo, c.ok, c.ok+c.failed))
	}
	a := h.answer()
	return Step{Answer: &a}
}

// outOfTime gives the answer so far, because s cannot end within the budget.
func (h *history) outOfTime(s Step) Step {
	h.settle(false)
	h.ended = TimeLimit
	h.reason = fmt.Sprintf("size %d would take %.0f s or more, and %.0f s of the %.0f s that max_fit.time or the task leaves are used", s.N, h.seconds(s), h.spent, h.cfg.Budget)
	a := h.answer()
	return Step{Answer: &a}
}

// end says how a bracket ended that no further trial will change.
func (h *history) end() {
	lo, hi := h.lo(), h.hi()
	switch {
	case h.slow != 0:
		h.ended, h.cause = TimeLimit, catalogue.Slow
		h.reason = fmt.Sprintf("steps at size %d take longer than workload.slow_after", h.slow)
	case hi == 0 && lo != 0:
		h.ended = Ceiling
	case hi != 0 && hi == h.limit && hi != h.oom:
		h.ended, h.cause = LimitOther, catalogue.TooBig
		h.reason = fmt.Sprintf("size %d met a limit that is not memory", hi)
	case hi != 0 && lo == 0:
		h.ended = Floor
	case hi != 0:
		h.ended = Closed
	default:
		h.ended, h.cause, h.reason = Aborted, catalogue.Skipped, "no size of the grid is legal for the mesh"
	}
	if above := h.above(); above != 0 {
		h.note(fmt.Sprintf("size %d fitted although %d did not", above, h.oom))
		if h.ended == Closed {
			h.ended = NonMonotone
		}
	}
}

// note adds to the reason.
func (h *history) note(text string) {
	if h.reason != "" {
		h.reason += "; "
	}
	h.reason += text
}

// above is the largest size that fitted although the smaller h.oom did not; 0: none.
func (h *history) above() int64 {
	var n int64
	for _, t := range h.fitted {
		if h.oom != 0 && t.N >= h.oom && t.N > n {
			n = t.N
		}
	}
	return n
}

// answer says what the trials show.
func (h *history) answer() Answer {
	lo := h.lo()
	c := h.confirm[lo]
	a := Answer{
		Fits: positive(lo), OOM: positive(h.oom), Limit: positive(h.limit), Above: positive(h.above()),
		Ended: h.ended, Cause: h.cause, Reason: h.reason,
		Confirmed: c.ok, Confirms: h.cfg.Confirm, Verified: h.below.ok, Verifies: h.below.done, Doubtful: h.below.doubtful,
		Reserve: positive(h.reserve(lo)),
	}
	a.NonMonotone = a.Above != nil
	for _, t := range h.fitted {
		if t.N == lo {
			a.PeakBytes, a.CapacityBytes = t.PeakBytes, t.CapacityBytes
		}
	}
	return a
}

// positive is nil for 0, which stands for "none" inside the search.
func positive(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
