package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	s     *session
	pair  plan.Pair
	r     *result.Result
	live  *execution
	end   ending                 // how the newest trial that failed ended
	oom   ending                 // the newest ending for lack of memory
	sizes map[int64]result.Sizes // of the trials that fitted
	tried []result.Trial
}

// search finds the largest size that fits and fills the result of a case point.
func (s *session) search(ctx context.Context, pair plan.Pair, r *result.Result) {
	f := s.spec.MaxFit
	budget := time.Duration(f.Time)
	ctx, cancel := context.WithTimeoutCause(ctx, budget, errSearchTime{budget})
	defer cancel()
	if end, ok := ctx.Deadline(); ok { // the task may end earlier, and an answer by then is better than none
		budget = time.Until(end)
	}
	h := &hunt{s: s, pair: pair, r: r, sizes: map[int64]result.Sizes{}}
	cfg := search.Config{From: f.From, To: f.To, Step: f.Step, Tolerance: float64(f.Tolerance), Confirm: f.Confirm, Budget: budget.Seconds()}
	answer, known, err := search.Run(ctx, cfg, nil, h.try)
	h.drop(ctx, ending{})
	if err != nil {
		answer = soFar(cfg, known)
	}
	h.report(answer)
	if err != nil {
		h.cut(ctx, err)
	}
}

// errSearchTime is the end of workload.max_fit.time.
type errSearchTime struct{ limit time.Duration }

func (e errSearchTime) Error() string {
	return fmt.Sprintf("the search took longer than workload.max_fit.time (%v)", e.limit)
}

// soFar is what the trials of an unfinished search show: the answer of one whose time is used up.
func soFar(cfg search.Config, known []search.Trial) search.Answer {
	cfg.Budget = 1e-9
	step, err := search.Next(cfg, known)
	if err != nil || step.Answer == nil { // wrong configuration, or nothing was tried
		return search.Answer{Ended: search.Aborted, Confirms: cfg.Confirm}
	}
	return *step.Answer
}

// try makes one trial. A size that fitted leaves its processes to the next trial, every failure ends them.
func (h *hunt) try(ctx context.Context, step search.Step) (search.Trial, error) {
	began := time.Now()
	if step.Fresh || step.Confirm {
		h.drop(ctx, ending{})
	}
	t := search.Trial{N: step.N, Confirm: step.Confirm}
	trialCtx, cancel := h.s.timeout(ctx)
	defer cancel()
	end := h.trial(trialCtx, step, &t)
	t.Outcome = catalogue.OK
	if end.outcome != "" {
		t.Outcome, h.end = end.outcome, end
		if end.outcome.OutOfMemory() {
			h.oom = end
		}
		h.drop(trialCtx, end)
	}
	t.Seconds = time.Since(began).Seconds()
	h.s.job.Log.Info("trial", "n", t.N, "outcome", t.Outcome, "reason", end.reason, "seconds", t.Seconds, "fresh", t.Fresh, "why", step.Why)
	h.tried = append(h.tried, result.Trial{N: t.N, Outcome: t.Outcome, Peak: t.PeakBytes, Seconds: t.Seconds, Fresh: t.Fresh, Confirm: t.Confirm})
	if ctx.Err() != nil && !t.Outcome.Fits() && !t.Outcome.OutOfMemory() {
		return t, context.Cause(ctx) // it says nothing about its size
	}
	return t, nil
}

// trial runs one untimed step (two for training, where the optimizer's state appears at the first), or a few to
// confirm.
func (h *hunt) trial(ctx context.Context, step search.Step, t *search.Trial) ending {
	setting, err := h.s.job.Run.Plan.At(h.pair.Point, step.N)
	if err != nil {
		return failure("the point cannot be evaluated", err.Error())
	}
	if h.live != nil && !sameProgram(h.live.setting, setting) {
		h.drop(ctx, ending{})
	}
	if t.Fresh = h.live == nil; t.Fresh {
		h.live = h.s.launch(setting, fmt.Sprintf("point %s trial %d", h.pair.ID, step.N))
		if end := h.live.prepare(ctx, h.r); end.outcome != "" {
			return end
		}
	} else {
		h.live.setting = setting
		h.live.tell(ctx, &protocol.ResetPeak{})
	}
	e := h.live
	e.fill(h.r)
	if end := e.point(ctx, setting.Point, h.r); end.outcome != "" {
		return end
	}
	steps := 1
	if h.s.spec.Mode == "training" {
		steps = 2
	}
	if step.Confirm {
		steps = confirmSteps
	}
	if _, end := e.step(ctx, "probe", steps); end.outcome != "" {
		return end
	}
	// In a process that ran another size before, the peak since its start may be that one's.
	t.PeakBytes, t.CapacityBytes = e.peak(t.Fresh, allocated), e.capacity()
	h.sizes[step.N] = h.r.Sizes
	return ending{}
}

// sameProgram reports whether the processes of one size can run the other: a command may use the searched axis.
func sameProgram(a, b plan.Setting) bool {
	return a.Ranks == b.Ranks && slices.Equal(a.Command, b.Command) && maps.Equal(a.Env, b.Env)
}

// drop ends the processes of the newest trial.
func (h *hunt) drop(ctx context.Context, end ending) {
	if h.live != nil {
		h.live.close(ctx, end, h.r)
		h.live = nil
	}
}

// report turns the answer into the result.
func (h *hunt) report(a search.Answer) {
	r := h.r
	delete(r.Metrics, catalogue.PrepareSeconds) // of the trials
	delete(r.Metrics, catalogue.LaunchSeconds)
	r.MaxFit = &result.MaxFit{
		Axis: h.s.spec.MaxFit.Axis, Fits: a.Fits, OOM: a.OOM, Limit: a.Limit, Above: a.Above, Ended: string(a.Ended),
		Confirmed: a.Confirmed, Confirms: a.Confirms, PeakBytes: a.PeakBytes, Capacity: a.CapacityBytes, Trials: h.tried,
	}
	r.Metrics[catalogue.PeakAllocatedBytes] = a.PeakBytes
	r.Sizes = result.Sizes{Ranks: r.Sizes.Ranks, Topology: r.Sizes.Topology}
	if a.Fits != nil {
		r.Sizes = h.sizes[*a.Fits]
	}
	r.Outcome, r.Reason, r.Evidence = catalogue.OK, a.Reason, h.oom.evidence
	switch {
	case a.Ended == search.Aborted && a.Cause != "":
		r.Outcome, r.Reason, r.Evidence = a.Cause, h.end.reason, h.end.evidence
	case a.Fits == nil && a.OOM != nil:
		r.Outcome = h.oom.outcome
	case a.Fits == nil:
		h.end.into(r)
	}
	if a.Ended == search.Unstable {
		r.Warn(catalogue.Unstable, fmt.Sprintf("%d fitted in the search, but in only %d of %d fresh processes afterwards", *a.Fits, a.Confirmed, a.Confirms),
			"take the next smaller size for real runs")
	} else if a.Fits != nil && a.Confirmed < a.Confirms {
		r.Warn(catalogue.Unconfirmed, fmt.Sprintf("confirmed in %d of %d fresh processes", a.Confirmed, a.Confirms), "")
	}
	if a.NonMonotone {
		r.Warn(catalogue.NonMonotone, fmt.Sprintf("%d did not fit although %d did", *a.OOM, *a.Above), "")
	}
}

// cut is the outcome of a search that could not be finished, on top of what its trials show.
func (h *hunt) cut(ctx context.Context, err error) {
	r := h.r
	if ctx.Err() == nil {
		r.Outcome, r.Reason, r.Evidence = catalogue.Error, "the search cannot be carried out", err.Error()
		return
	}
	r.Warn(catalogue.Interrupted, "the search was cut short: its bracket is what the trials show so far", "")
	var limit errSearchTime
	if !errors.As(context.Cause(ctx), &limit) {
		r.MaxFit.Ended = string(search.Aborted)
		end := stopped(ctx)
		r.Outcome, r.Reason = end.outcome, end.reason
		return
	}
	r.Reason = limit.Error()
	if r.MaxFit.Ended == string(search.Aborted) { // within the first trial
		r.MaxFit.Ended = string(search.TimeLimit)
	}
	if r.MaxFit.Fits == nil {
		r.Outcome = catalogue.Timeout
	}
}
