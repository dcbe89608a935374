package search

import (
	"fmt"
	"math"
	"slices"

	"cpbench/plan/catalogue"
)

// maxSkips is how many illegal sizes in a row end a search: the grid does not match the mesh.
const maxSkips = 8

// doubtful is the share of the capacity below which an out-of-memory is not believed at once: so far from the
// edge it is more likely an accident of this process than the memory of this size.
const doubtful = 0.6

// farBelow is why such an out-of-memory is tried again.
const farBelow = "out of memory far below the predicted size"

// maxSamples is the number of latest successes to which the curve is fitted.
const maxSamples = 4

// history is what the trials so far amount to.
type history struct {
	grid
	cfg     Config
	fitted  []Trial         // successes in order, confirmations left out
	oom     int64           // smallest size that ran out of memory; 0: none
	limit   int64           // smallest size that met another limit; 0: none
	slow    int64           // size that was over its wall budget; 0: none
	skipped map[int64]bool  // sizes that are illegal for the mesh
	skips   int             // ... the latest of them in a row
	confirm map[int64]tally // confirmations by size
	hint    hint
	below   below
	tried   map[int64]bool

	retry        int64 // size to be tried once more; 0: none
	retryConfirm bool
	retryVerify  bool
	doubt        string            // why
	retried      catalogue.Outcome // outcome that the pending or current retry has to settle
	believed     bool              // an out-of-memory far below the capacity has happened again

	climbs   int  // latest successes in a row that did not double the size
	misses   int  // latest failures in a row at sizes that the fit said would fit
	faulted  bool // a size did not fit that was not tried for the hint alone
	halving  bool // a success has followed such a failure: the fit has had its chance
	capacity *float64
	spent    float64 // seconds

	ended  Ended
	cause  catalogue.Outcome
	reason string
}

// tally counts the confirmations of one size.
type tally struct{ ok, failed int }

// replay folds the trials into a history.
func replay(cfg Config, g grid, trials []Trial) *history {
	h := &history{grid: g, cfg: cfg, skipped: map[int64]bool{}, confirm: map[int64]tally{}, tried: map[int64]bool{}}
	for _, t := range trials {
		if t.Seconds > 0 && !math.IsInf(t.Seconds, 1) {
			h.spent += t.Seconds
		}
		h.add(t)
	}
	return h
}

// add takes in one trial.
func (h *history) add(t Trial) {
	retry, again := h.retried, h.retry == t.N
	h.tried[t.N] = true
	h.settle(again && t.Outcome.Fits())
	if !again {
		retry = ""
	}
	h.ended, h.cause, h.reason = "", "", "" // a search that was taken up again after an abort
	if t.Outcome != catalogue.Skipped {
		h.skips = 0
	}
	if t.Confirm && t.N == h.lo() {
		h.addConfirm(t, retry)
		return
	}
	if t.Verify {
		h.addVerify(t, retry)
		return
	}
	h.addSize(t, retry)
}

// addSize takes in a trial of a size that was neither a confirmation nor a verification. retry is the outcome that it
// was to settle, or empty.
func (h *history) addSize(t Trial, retry catalogue.Outcome) {
	switch {
	case t.Outcome.Fits():
		h.addFit(t)
	case t.Outcome.OutOfMemory():
		if retry == "" && h.doubts(t.N) {
			h.again(t, farBelow)
			return
		}
		if retry.OutOfMemory() {
			h.believed = true // and it counts since settle
			return
		}
		h.addBound(&h.oom, t.N)
	case t.Outcome == catalogue.OOMSuspect:
		if retry != "" {
			h.abort(t, "no clear sign of memory in two processes")
			return
		}
		h.again(t, "the failure may or may not be memory")
	case t.Outcome == catalogue.TooBig:
		h.addBound(&h.limit, t.N)
	case t.Outcome == catalogue.Slow && h.hinting():
		h.hint.dropped = true // and what is slow below it shows on the way up
	case t.Outcome == catalogue.Slow:
		h.slow = t.N
	case t.Outcome == catalogue.Skipped:
		h.skipped[t.N] = true
		if h.skips++; h.skips >= maxSkips {
			h.abort(t, fmt.Sprintf("%d sizes in a row are illegal for the mesh; set step to a multiple of what the mesh needs", h.skips))
		}
	default:
		h.abort(t, "this failure says nothing about memory")
	}
}

// settle ends the wait for a retry. An out-of-memory that was doubted counts unless its size has now fitted.
func (h *history) settle(fits bool) {
	if h.retried.OutOfMemory() && !h.retryConfirm && !fits {
		h.addBound(&h.oom, h.retry)
	}
	h.retry, h.retried, h.retryConfirm, h.retryVerify = 0, "", false, false
}

// addConfirm takes in a confirmation of the largest size that fits. Only failures of the machine leave it open.
func (h *history) addConfirm(t Trial, retry catalogue.Outcome) {
	c := h.confirm[t.N]
	switch {
	case t.Outcome.Fits():
		c.ok++
	case t.Outcome == catalogue.OOMSuspect && retry == "":
		h.again(t, "the failure may or may not be memory")
	case t.Outcome == catalogue.OOMSuspect:
		h.abort(t, "no clear sign of memory in two processes")
	case slices.Contains(failures, t.Outcome):
		c.failed++
	default:
		h.abort(t, "the confirmation could not be carried out")
	}
	h.confirm[t.N] = c
}

// failures are the outcomes by which a program fails to confirm a size. Those of the machine, of the conditions
// and of a later version of the list leave the question open.
var failures = []catalogue.Outcome{
	catalogue.OOMDevice, catalogue.OOMComm, catalogue.OOMHost, catalogue.TooBig, catalogue.Slow,
	catalogue.ErrorKernel, catalogue.ErrorCollective, catalogue.Timeout, catalogue.Hang,
	catalogue.WrongOutput, catalogue.NoArtifact, catalogue.Error,
}

// addFit takes in a size that fits.
func (h *history) addFit(t Trial) {
	if t.N < 2*h.lo() {
		h.climbs++
	} else {
		h.climbs = 0
	}
	h.halving = h.halving || h.faulted
	h.misses = 0
	if measured(t.CapacityBytes) {
		h.capacity = t.CapacityBytes
	}
	h.fitted = append(h.fitted, t)
	h.doubtHint()
}

// addBound takes in a size that does not fit, for the reason that bound stands for.
func (h *history) addBound(bound *int64, n int64) {
	if h.hinting() {
		h.missHint(bound, n)
	} else {
		h.faulted = true
	}
	if p, ok := h.predict(); ok && p >= float64(n) {
		h.misses++
	}
	if *bound == 0 || n < *bound {
		*bound = n
	}
}

// again asks for the same size in a new process.
func (h *history) again(t Trial, doubt string) {
	h.retry, h.retryConfirm, h.retryVerify, h.retried, h.doubt = t.N, t.Confirm, t.Verify, t.Outcome, doubt
}

// abort ends the search with what it has seen so far, unless a later trial shows that it went on. What a hint has led
// to ends nothing: the search has not begun.
func (h *history) abort(t Trial, why string) {
	if h.hinting() && (slices.Contains(failures, t.Outcome) || t.Outcome == catalogue.OOMSuspect || t.Outcome == catalogue.Skipped) {
		h.hint.dropped, h.skips = true, 0
		return
	}
	h.ended, h.cause = Aborted, t.Outcome
	h.reason = fmt.Sprintf("size %d ended as %s: %s", t.N, t.Outcome, why)
}

// doubts reports whether an out-of-memory at n is too far below the capacity to be believed at once. It takes
// three measured sizes to doubt, and once one has happened again the fit has lost its credit.
func (h *history) doubts(n int64) bool {
	s := h.samples()
	if h.believed || len(s) < 3 || h.capacity == nil {
		return false
	}
	return fit(s, memoryShapes).at(float64(n)) < doubtful**h.capacity
}

// lo is the largest size that fits with no out-of-memory at or below it; 0: none.
func (h *history) lo() int64 {
	var lo int64
	for _, t := range h.fitted {
		if t.N > lo && (h.oom == 0 || t.N < h.oom) {
			lo = t.N
		}
	}
	return lo
}

// hi is the smallest size above lo that does not fit, whatever the reason; 0: none.
func (h *history) hi() int64 {
	lo := h.lo()
	if h.limit > lo && (h.oom == 0 || h.limit < h.oom) {
		return h.limit
	}
	return h.oom
}

// samples are the peaks of the latest successes.
func (h *history) samples() []sample {
	var s []sample
	for i := len(h.fitted) - 1; i >= 0 && len(s) < maxSamples; i-- {
		t := h.fitted[i]
		if measured(t.PeakBytes) {
			s = append([]sample{{float64(t.N), *t.PeakBytes}}, s...)
		}
	}
	return s
}

// measured reports whether v is an amount of memory that the fit can use.
func measured(v *float64) bool { return v != nil && *v > 0 && !math.IsInf(*v, 1) }

// predict gives the size at which the fitted peak reaches the capacity. It needs two measured sizes; near a hint one
// is enough, as memory that grows with N² from nothing gives a size that is rather too low.
func (h *history) predict() (float64, bool) {
	s := h.samples()
	switch {
	case h.capacity == nil || len(s) == 0:
		return 0, false
	case len(s) == 1:
		return fit(s, nearShapes).solve(*h.capacity), h.hinted()
	case len(s) == 2 && h.hinted():
		return fit(s, nearShapes).solve(*h.capacity), true
	}
	return fit(s, memoryShapes).solve(*h.capacity), true
}
