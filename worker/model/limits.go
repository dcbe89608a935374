package model

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/ranks"
)

const (
	// signsPerBeat is how many signs of life a rank is asked for within workload.heartbeat: one that comes late, or is
	// lost behind a long call that holds the interpreter, is no hang yet.
	signsPerBeat = 4
	// farOver is how many times what was expected a step may take before it is given up.
	farOver = 20
)

// patience is how long the next request may go on without a step that ends. seen are the steps before it, of which the
// first may have compiled and says nothing; timed is how many timed steps are asked for. Ranks need not tell how many
// of them have ended, so that all of them have to fit. Other steps than timed ones may compile, tune or connect: they
// are never taken for a hang. A step is taken for a slow one only if the one before it was: where steps end within their
// budget, one that does not end is no matter of time.
func (s *session) patience(seen []float64, timed int) ranks.Patience {
	beat := time.Duration(s.spec.Heartbeat).Seconds()
	switch {
	case timed > 0 && beat > 0:
		slowest := slices.Max(seen[min(1, len(seen)-1):])
		return ranks.Patience{Stall: s.within(max(beat, farOver*float64(timed)*slowest))}
	case timed == 0 && !s.overBudget(seen[max(0, len(seen)-1):]).OK():
		return ranks.Patience{Slow: s.within(farOver * time.Duration(s.spec.SlowAfter).Seconds())}
	}
	return ranks.Patience{}
}

// within is a limit of so many seconds; none beyond the timeout, which ends the wait before.
func (s *session) within(seconds float64) time.Duration {
	if seconds >= time.Duration(s.spec.Timeout).Seconds() {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// overBudget judges steps that may not take longer than workload.slow_after.
func (s *session) overBudget(seconds []float64) ranks.Ending {
	limit := time.Duration(s.spec.SlowAfter)
	if limit == 0 || len(seconds) == 0 {
		return ranks.Ending{}
	}
	if most := slices.Max(seconds); most > limit.Seconds() {
		return ranks.Ending{
			Outcome: catalogue.Slow,
			Reason:  fmt.Sprintf("a step took %.3g s, more than workload.slow_after (%v)", most, limit),
		}
	}
	return ranks.Ending{}
}

// probe runs the untimed steps of a trial. The first step at a size may be over the budget, because it may compile:
// where it was the only one, a second decides.
func (s *session) probe(ctx context.Context, set *ranks.Set, steps int) ranks.Ending {
	t, end := step(ctx, set, "probe", steps, ranks.Patience{})
	seen := t.slowest()
	if end.OK() && len(seen) == 1 && !s.overBudget(seen).OK() {
		t, end = step(ctx, set, "probe", 1, s.patience(seen, 0))
		seen = append(seen, t.slowest()...)
	}
	if !end.OK() {
		return end
	}
	return s.overBudget(seen[1:])
}
