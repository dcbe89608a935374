package search

import "math"

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

// cube gives n³, the growth of the time of a pair model.
func cube(n int64) float64 { return float64(n) * float64(n) * float64(n) }
