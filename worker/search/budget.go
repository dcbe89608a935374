package search

import (
	"math"
	"time"
)

// slack is how many times longer than expected a trial may take, and allowance what comes on top of it: a start of new
// processes may take longer than the one before.
const (
	slack     = 5
	allowance = 2 * time.Minute
)

// Overdue is the reason of a trial that has met a Deadline of its own.
const Overdue = "the trial took longer than 5 times what the trials before let expect, and 2 minutes"

// Deadline is how long the trial may take: five times what is expected of it and two minutes, but never more than most,
// and most where nothing is expected. An expectation holds for one step; steps is how many more the trial makes than
// others do, as a factor.
func (s Step) Deadline(most time.Duration, steps float64) time.Duration {
	if limit := slack*s.Expect*steps + allowance.Seconds(); s.Expect > 0 && limit < most.Seconds() {
		return time.Duration(limit * float64(time.Second))
	}
	return most
}

// affordable reports whether s can end within the budget.
func (h *history) affordable(s Step) bool {
	return h.cfg.Budget == 0 || h.spent < h.cfg.Budget && h.spent+h.seconds(s) <= h.cfg.Budget
}

// seconds estimates how long s takes, rather too low than too high: a constant and a part that grows with N³,
// fitted to the latest successes. A new process adds what the last one took beyond that. A single success gives
// its own time to every size that is not smaller, and without one the estimate is 0.
func (h *history) seconds(s Step) float64 {
	var warm []sample
	var cold *Trial
	for i := len(h.fitted) - 1; i >= 0; i-- {
		t := h.fitted[i]
		switch {
		case !(t.Seconds > 0) || math.IsInf(t.Seconds, 1):
		case t.Fresh && cold == nil:
			cold = &t
		case !t.Fresh && len(warm) < maxSamples:
			warm = append([]sample{{cube(t.N), t.Seconds}}, warm...)
		}
	}
	if len(warm) == 0 {
		if cold != nil && s.N >= cold.N {
			return cold.Seconds
		}
		return 0
	}
	if len(warm) == 1 && cube(s.N) < warm[0].n {
		return 0
	}
	f := fit(warm, linearShapes)
	if len(warm) == 1 {
		f = curve{a: warm[0].y, scale: 1}
	}
	seconds := f.at(cube(s.N))
	if s.Fresh && cold != nil {
		seconds += math.Max(0, cold.Seconds-f.at(cube(cold.N)))
	}
	return seconds
}

// expect is how long s may take by what the largest success took, rather too high than too low: as if all of that grew
// with N³. New processes add what the latest took with its start. 0: no success tells.
func (h *history) expect(s Step) float64 {
	var largest, cold *Trial
	for i := range h.fitted {
		t := &h.fitted[i]
		if !(t.Seconds > 0) || math.IsInf(t.Seconds, 1) {
			continue
		}
		if largest == nil || t.N >= largest.N {
			largest = t
		}
		if t.Fresh {
			cold = t
		}
	}
	if largest == nil {
		return 0
	}
	seconds := largest.Seconds * math.Max(1, cube(s.N)/cube(largest.N))
	if s.Fresh && !largest.Fresh && cold != nil {
		seconds += cold.Seconds
	}
	return seconds
}

// cube gives n³, the growth of the time of a pair model.
func cube(n int64) float64 { return float64(n) * float64(n) * float64(n) }
