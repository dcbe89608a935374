package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
	"cpbench/worker/search"
)

const confirmSteps = 3 // steps of a trial that confirms the answer

// hunt is a search under way: its processes are kept while trials succeed.
type hunt struct {
	s      *session
	pair   plan.Pair
	r      *result.Result
	live   *execution
	end    ending // how the newest trial ended
	oom    ending // the newest ending for lack of memory
	trials []result.Trial
}

// search finds the largest size that fits and fills the result of a case point.
func (s *session) search(ctx context.Context, pair plan.Pair, r *result.Result) {
	f := s.spec.MaxFit
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(f.Time), errSearchTime{time.Duration(f.Time)})
	defer cancel()
	h := &hunt{s: s, pair: pair, r: r}
	cfg := search.Config{From: f.From, To: f.To, Step: f.Step, Tolerance: float64(f.Tolerance), Confirm: f.Confirm, Budget: time.Duration(f.Time).Seconds()}
	answer, known, err := search.Run(ctx, cfg, nil, h.try)
	h.drop(ending{})
	if err != nil { // the context ended: say what the trials show so far
		answer = partial(cfg, known)
	}
	h.report(ctx, answer, err)
}

// errSearchTime is the end of workload.max_fit.time.
type errSearchTime struct{ limit time.Duration }

func (e errSearchTime) Error() string {
	return fmt.Sprintf("the search took longer than workload.max_fit.time (%v)", e.limit)
}

// partial is the bracket that the trials show when the search could not be finished.
func partial(cfg search.Config, known []search.Trial) search.Answer {
	a := search.Answer{Ended: search.Aborted, Confirms: cfg.Confirm}
	for i := range known {
		t := &known[i]
		if t.Outcome.Fits() && (a.Fits == nil || t.N > *a.Fits) {
			a.Fits, a.PeakBytes, a.CapacityBytes = &t.N, t.PeakBytes, t.CapacityBytes
		}
	}
	for i := range known {
		t := &known[i]
		if t.Outcome.OutOfMemory() && (a.Fits == nil || t.N > *a.Fits) && (a.OOM == nil || t.N < *a.OOM) {
			a.OOM = &t.N
		}
	}
	return a
}

// try runs one trial: one untimed step (two for training, where the optimizer's state appears at the first), or a few
// to confirm. A size that fitted leaves its processes to the next trial, every failure ends them.
func (h *hunt) try(ctx context.Context, step search.Step) (search.Trial, error) {
	began := time.Now()
	if step.Fresh || step.Confirm {
		h.drop(ending{})
	}
	t := search.Trial{N: step.N, Confirm: step.Confirm, Fresh: h.live == nil}
	trialCtx, cancel := h.s.timeout(ctx)
	defer cancel()
	end := h.run(trialCtx, step, &t)
	t.Outcome = catalogue.OK
	if end.outcome != "" {
		t.Outcome, h.end = end.outcome, end
		if end.outcome.OutOfMemory() {
			h.oom = end
		}
		h.drop(end)
	}
	t.Seconds = time.Since(began).Seconds()
	h.s.job.Log.Info("trial", "n", t.N, "outcome", t.Outcome, "reason", end.reason, "seconds", t.Seconds, "why", step.Why)
	h.trials = append(h.trials, result.Trial{N: t.N, Outcome: t.Outcome, Peak: t.PeakBytes, Seconds: t.Seconds, Fresh: t.Fresh, Confirm: t.Confirm})
	if ctx.Err() != nil {
		return t, context.Cause(ctx)
	}
	return t, nil
}

func (h *hunt) run(ctx context.Context, step search.Step, t *search.Trial) ending {
	setting, err := h.s.job.Run.Plan.At(h.pair.Point, step.N)
	if err != nil {
		return ending{outcome: catalogue.Error, reason: "the point cannot be evaluated", evidence: err.Error()}
	}
	reused := h.live != nil
	if !reused {
		h.live = h.s.launch(ctx, setting, fmt.Sprintf("point %s trial %d", h.pair.ID, step.N))
		h.live.fill(h.r)
		if end := h.live.prepare(ctx, h.r); end.outcome != "" {
			return end
		}
	}
	e := h.live
	if reused {
		e.tell(&protocol.ResetPeak{})
	}
	if end := e.point(ctx, setting.Point, h.r); end.outcome != "" {
		return end
	}
	steps := 1
	if h.s.spec.Mode == "training" {
		steps = 2
	}
	if step.Confirm {
		steps = max(steps, confirmSteps)
	}
	if _, end := e.step(ctx, "probe", steps); end.outcome != "" {
		return end
	}
	t.PeakBytes, t.CapacityBytes = e.peak(!reused, allocated), e.capacity()
	return ending{}
}

// drop ends the processes of the newest trial.
func (h *hunt) drop(end ending) {
	if h.live != nil {
		h.live.close(end, h.r)
		h.live = nil
	}
}

// report turns the answer into the result.
func (h *hunt) report(ctx context.Context, a search.Answer, err error) {
	r := h.r
	delete(r.Metrics, catalogue.PrepareSeconds)
	delete(r.Metrics, catalogue.LaunchSeconds)
	r.MaxFit = &result.MaxFit{
		Axis: h.s.spec.MaxFit.Axis, Fits: a.Fits, OOM: a.OOM, Ended: string(a.Ended), Confirmed: a.Confirmed, Confirms: a.Confirms,
		PeakBytes: a.PeakBytes, Capacity: a.CapacityBytes, Trials: h.trials,
	}
	r.Metrics[catalogue.PeakAllocatedBytes] = a.PeakBytes
	h.sizes(a)
	r.Outcome, r.Reason = catalogue.OK, a.Reason
	switch {
	case err != nil:
		h.stopped(ctx)
	case a.Ended == search.Aborted && a.Cause != "":
		r.Outcome, r.Reason, r.Evidence = a.Cause, h.end.reason, h.end.evidence
	case a.Fits == nil && a.OOM != nil:
		r.Outcome, r.Evidence = h.oom.outcome, h.oom.evidence
	case a.Fits == nil:
		r.Outcome, r.Reason, r.Evidence = h.end.outcome, h.end.reason, h.end.evidence
	default:
		r.Evidence = h.oom.evidence
	}
	switch a.Ended {
	case search.Unstable:
		r.Warn(catalogue.Unstable, fmt.Sprintf("%d fitted in the search, but in only %d of %d fresh processes afterwards", *a.Fits, a.Confirmed, a.Confirms),
			"take the next smaller size for real runs")
	case search.Closed, search.Ceiling, search.Floor, search.TimeLimit, search.LimitOther, search.NonMonotone, search.Aborted:
		if a.Fits != nil && a.Confirmed < a.Confirms {
			r.Warn(catalogue.Unconfirmed, fmt.Sprintf("confirmed in %d of %d fresh processes", a.Confirmed, a.Confirms), "")
		}
	}
	if a.NonMonotone {
		r.Warn(catalogue.NonMonotone, fmt.Sprintf("%d did not fit although %d did", *a.OOM, *a.Above), "")
	}
}

// stopped is the outcome of a search whose time ran out or which was told to stop.
func (h *hunt) stopped(ctx context.Context) {
	r := h.r
	var limit errSearchTime
	if errors.As(context.Cause(ctx), &limit) {
		r.MaxFit.Ended, r.Reason = string(search.TimeLimit), limit.Error()
		if r.MaxFit.Fits == nil {
			r.Outcome = catalogue.Timeout
		}
		return
	}
	e := stopped(ctx)
	r.Outcome, r.Reason = e.outcome, e.reason
	r.Warn(catalogue.Interrupted, "the search was cut short: its bracket is what the trials show so far", "")
}

// sizes writes the input sizes of the largest fit.
func (h *hunt) sizes(a search.Answer) {
	r := h.r
	ranks, topology := r.Sizes.Ranks, r.Sizes.Topology
	r.Sizes = result.Sizes{Ranks: ranks, Topology: topology}
	if a.Fits == nil {
		return
	}
	setting, err := h.s.job.Run.Plan.At(h.pair.Point, *a.Fits)
	if err != nil {
		return
	}
	(&execution{s: h.s, setting: setting}).fill(r)
}
