package command

import (
	"context"
	"fmt"
	"math"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
	"cpbench/worker/search"
)

// hunt is a search under way.
type hunt struct {
	s      *session
	pair   plan.Pair
	r      *result.Result
	report search.Report
}

// search finds the largest size that fits and fills the result of a case point. Every trial is one run of the program,
// so all of them are in fresh processes. Without the peaks of the trials, and the capacity, there is nothing to predict:
// it doubles and bisects.
func (s *session) search(ctx context.Context, pair plan.Pair, r *result.Result) {
	f := s.spec.MaxFit
	budget := time.Duration(f.Time)
	ctx, cancel := context.WithTimeoutCause(ctx, budget, search.TimeUp{Limit: budget})
	defer cancel()
	if end, ok := ctx.Deadline(); ok { // the task may end earlier, and an answer by then is better than none
		budget = time.Until(end)
	}
	h := &hunt{s: s, pair: pair, r: r, report: search.Report{Axis: f.Axis}}
	cfg := search.Config{
		From: f.From, To: f.To, Step: f.Step, Tolerance: float64(f.Tolerance), Confirm: f.Confirm,
		Budget: max(budget.Seconds(), 1e-9), // 0 would set no limit
	}
	answer, known, err := search.Run(ctx, cfg, nil, h.try)
	if err != nil {
		answer = search.SoFar(cfg, known)
	}
	h.report.Fill(r, answer)
	if err != nil {
		search.Cut(ctx, r, err)
	}
}

// try makes one trial.
func (h *hunt) try(ctx context.Context, step search.Step) (search.Trial, error) {
	began := time.Now()
	t := search.Trial{N: step.N, Fresh: true, Confirm: step.Confirm, Outcome: catalogue.OK}
	end, ran := h.trial(ctx, step, &t)
	if end.Outcome != "" {
		t.Outcome = end.Outcome
	}
	t.Seconds = time.Since(began).Seconds()
	h.s.job.Log.Info("trial", "n", t.N, "outcome", t.Outcome, "reason", end.Reason, "seconds", t.Seconds, "why", step.Why)
	h.report.Note(t, end, ran)
	if ctx.Err() != nil && !t.Outcome.Fits() && !t.Outcome.OutOfMemory() {
		return t, context.Cause(ctx) // it says nothing about its size
	}
	return t, nil
}

// trial runs the program once at a size.
func (h *hunt) trial(ctx context.Context, step search.Step, t *search.Trial) (ending, result.Sizes) {
	setting, err := h.s.job.Run.Plan.At(h.pair.Point, step.N)
	if err != nil {
		return ending{Outcome: catalogue.Error, Reason: "the point cannot be evaluated", Evidence: err.Error()}, result.Sizes{}
	}
	h.r.Sizes = sizes(setting)
	x := h.s.run(ctx, setting, fmt.Sprintf("%s-trial-%d", h.pair.ID, step.N), h.r)
	if x.end.Outcome != "" {
		return x.end, h.r.Sizes
	}
	for i, v := range h.s.read(x) {
		if h.s.figures[i].name == catalogue.PeakAllocatedBytes && !math.IsNaN(v) {
			t.PeakBytes = &v
		}
	}
	h.s.drop(x)
	return ending{}, h.r.Sizes
}
