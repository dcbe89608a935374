package search

import (
	"fmt"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// Known takes over the trials of last, an attempt at the same search that was interrupted, so that its work is not done
// twice: it notes them, with what sizes says that they ran, and returns them for Run. There are none where last is nil or
// has ended, or where its GPUs are of another model than gpu, which is empty if unknown: how much fits there says nothing.
func (rep *Report) Known(last *result.Result, gpu string, sizes func(n int64) result.Sizes) []Trial {
	if last == nil || last.MaxFit == nil || last.Outcome.Done() && last.Outcome != catalogue.Timeout {
		return nil
	}
	if was := last.Provenance["gpu"]; was != gpu && was != "" && gpu != "" {
		return nil
	}
	var known []Trial
	for _, t := range last.MaxFit.Trials {
		if !t.Outcome.Fits() && !t.Outcome.OutOfMemory() && t.Outcome != catalogue.TooBig {
			continue // it says nothing about its size
		}
		trial := Trial{
			N: t.N, Outcome: t.Outcome, PeakBytes: t.Peak, CapacityBytes: last.MaxFit.Capacity,
			Seconds: t.Seconds, Fresh: t.Fresh, Confirm: t.Confirm, Verify: t.Verify,
		}
		known = append(known, trial)
		rep.Note(trial, Failure{Outcome: t.Outcome, Reason: "in attempt " + fmt.Sprint(last.Attempt), Evidence: last.Evidence}, sizes(t.N))
	}
	return known
}
