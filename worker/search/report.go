package search

import (
	"fmt"
	"slices"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// Failure is how a trial ended that did not fit, in the words of its workload.
type Failure struct {
	Outcome  catalogue.Outcome
	Reason   string
	Evidence string
}

// Report is what a workload knows of a search beside the answer. Note keeps it up to date.
type Report struct {
	Axis   string
	Hint   int64                  // size at which the search began to look; 0: none
	Trials []Trial                // all that were made, also one that was cut short
	Sizes  map[int64]result.Sizes // of the trials that fitted
	Last   Failure                // of the newest trial that failed
	OOM    Failure                // of the newest trial that ran out of memory
}

// Note takes in a trial: how it failed, or the sizes that it ran.
func (rep *Report) Note(t Trial, f Failure, sizes result.Sizes) {
	rep.Trials = append(rep.Trials, t)
	if t.Outcome.Fits() {
		if rep.Sizes == nil {
			rep.Sizes = map[int64]result.Sizes{}
		}
		rep.Sizes[t.N] = sizes
		return
	}
	rep.Last = f
	if f.Outcome.OutOfMemory() {
		rep.OOM = f
	}
}

// Suspected reports whether the newest trial was of size n and ended as a suspicion, which the next one of n settles.
func (rep *Report) Suspected(n int64) bool {
	last := len(rep.Trials) - 1
	return last >= 0 && rep.Trials[last].N == n && rep.Trials[last].Outcome == catalogue.OOMSuspect
}

// fill turns the answer of a search into the result of its case point: outcome and reason, the bracket with its trials,
// the peak and the sizes at the largest size that fits, and the doubts. A search that found no size that fits has the
// outcome of what stood in its way.
func (rep *Report) fill(r *result.Result, a Answer) {
	r.MaxFit = &result.MaxFit{
		Axis: rep.Axis, Fits: a.Fits, OOM: a.OOM, Limit: a.Limit, Above: a.Above, Ended: string(a.Ended),
		Confirmed: a.Confirmed, Confirms: a.Confirms, Verified: a.Verified, Verifies: a.Verifies,
		PeakBytes: a.PeakBytes, Capacity: a.CapacityBytes, Reserve: a.Reserve, Hint: positive(rep.Hint), Trials: rep.trials(),
	}
	if r.Metrics == nil {
		r.Metrics = map[string]*float64{}
	}
	r.Metrics[catalogue.PeakAllocatedBytes] = a.PeakBytes
	r.Sizes = result.Sizes{Ranks: r.Sizes.Ranks, Topology: r.Sizes.Topology} // without those of a size that did not fit
	if a.Fits != nil {
		r.Sizes = rep.Sizes[*a.Fits]
	}
	r.Outcome, r.Reason, r.Evidence = catalogue.OK, a.Reason, rep.OOM.Evidence
	switch {
	case a.Ended == Aborted && a.Cause != "":
		r.Outcome, r.Reason, r.Evidence = a.Cause, rep.Last.Reason, rep.Last.Evidence
	case a.Fits == nil && a.OOM != nil:
		r.Outcome = rep.OOM.Outcome
	case a.Fits == nil && rep.Last.Outcome == "":
		r.Outcome, r.Reason = catalogue.Error, "no size was tried"
	case a.Fits == nil:
		r.Outcome, r.Reason, r.Evidence = rep.Last.Outcome, rep.Last.Reason, rep.Last.Evidence
	}
	warn(r, a)
	if a.Fits != nil && a.OOM != nil && rep.ofHost(*a.OOM) {
		r.Warn(catalogue.HostMemory, fmt.Sprintf("limited by host memory: %d ran out of it, not of that of the device", *a.OOM), "ask for more, by resources.mem")
	}
}

// ofHost reports whether size n ran out of host memory, by its newest trial that ran out of memory.
func (rep *Report) ofHost(n int64) bool {
	for _, t := range slices.Backward(rep.Trials) {
		if t.N == n && t.Outcome.OutOfMemory() {
			return t.Outcome == catalogue.OOMHost
		}
	}
	return false
}

// warn adds the doubts about an answer.
func warn(r *result.Result, a Answer) {
	switch {
	case a.Ended == Unstable && a.Fits != nil:
		r.Warn(catalogue.Unstable, fmt.Sprintf("%d fitted in the search, but in only %d of %d fresh processes afterwards", *a.Fits, a.Confirmed, a.Confirms),
			"take the next smaller size for real runs")
	case a.Fits != nil && a.Confirmed < a.Confirms:
		r.Warn(catalogue.Unconfirmed, fmt.Sprintf("confirmed in %d of %d fresh processes", a.Confirmed, a.Confirms), "")
	}
	if a.NonMonotone && a.OOM != nil && a.Above != nil {
		r.Warn(catalogue.NonMonotone, fmt.Sprintf("%d did not fit although %d did", *a.OOM, *a.Above), "")
	}
	for _, t := range a.Doubtful {
		r.Warn(catalogue.Unverified, fmt.Sprintf("%d, below the largest size that fits, ended as %s", t.N, t.Outcome), "run that size by itself")
	}
}

// trials are the trials in the form of the file.
func (rep *Report) trials() []result.Trial {
	var list []result.Trial
	for _, t := range rep.Trials {
		list = append(list, result.Trial{N: t.N, Outcome: t.Outcome, Peak: t.PeakBytes, Seconds: t.Seconds, Fresh: t.Fresh, Confirm: t.Confirm, Verify: t.Verify})
	}
	return list
}
