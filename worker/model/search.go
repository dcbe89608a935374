package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker"
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
	report search.Report
}

// search finds the largest size that fits and fills the result of a case point.
func (s *session) search(ctx context.Context, pair plan.Pair, r *result.Result) {
	f := s.spec.MaxFit
	budget := time.Duration(f.Time)
	ctx, cancel := context.WithTimeoutCause(ctx, budget, search.TimeUp{Limit: budget})
	defer cancel()
	if end, ok := ctx.Deadline(); ok { // the task may end earlier, and an answer by then is better than none
		budget = time.Until(end)
	}
	h := &hunt{s: s, pair: pair, r: r, report: search.Report{Axis: f.Axis}}
	cfg := search.Config{From: f.From, To: f.To, Step: f.Step, Tolerance: float64(f.Tolerance), Confirm: f.Confirm, Budget: budget.Seconds()}
	earlier := h.before()
	for _, t := range earlier { // the budget is this attempt's
		cfg.Budget += t.Seconds
	}
	answer, known, err := search.Run(ctx, cfg, earlier, h.try)
	h.drop(ctx, ending{})
	if err != nil {
		answer = search.SoFar(cfg, known)
	}
	delete(r.Metrics, catalogue.PrepareSeconds) // of the trials
	delete(r.Metrics, catalogue.LaunchSeconds)
	h.report.Fill(r, answer)
	if err != nil {
		search.Cut(ctx, r, err)
	}
}

// before are the trials that an interrupted attempt at the same search has made: its work is not done twice.
func (h *hunt) before() []search.Trial {
	last, err := worker.Last(h.s.job.Run, h.pair)
	if err != nil || last == nil || last.MaxFit == nil || last.Outcome.Done() && last.Outcome != catalogue.Timeout {
		return nil
	}
	var known []search.Trial
	for _, t := range last.MaxFit.Trials {
		if !t.Outcome.Fits() && !t.Outcome.OutOfMemory() && t.Outcome != catalogue.TooBig {
			continue // it says nothing about its size
		}
		trial := search.Trial{
			N: t.N, Outcome: t.Outcome, PeakBytes: t.Peak, CapacityBytes: last.MaxFit.Capacity,
			Seconds: t.Seconds, Fresh: t.Fresh, Confirm: t.Confirm,
		}
		known = append(known, trial)
		asked := &result.Result{}
		if setting, err := h.s.job.Run.Plan.At(h.pair.Point, t.N); err == nil {
			(&execution{setting: setting}).fill(asked)
		}
		h.report.Note(trial, search.Failure{Outcome: t.Outcome, Reason: "in attempt " + fmt.Sprint(last.Attempt), Evidence: last.Evidence}, asked.Sizes)
	}
	h.s.job.Log.Info("resumed", "trials", len(known), "attempt", last.Attempt)
	return known
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
		t.Outcome = end.outcome
		h.drop(trialCtx, end)
	}
	t.Seconds = time.Since(began).Seconds()
	h.s.job.Log.Info("trial", "n", t.N, "outcome", t.Outcome, "reason", end.reason, "seconds", t.Seconds, "fresh", t.Fresh, "why", step.Why)
	h.report.Note(t, search.Failure{Outcome: end.outcome, Reason: end.reason, Evidence: end.evidence}, h.r.Sizes)
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
		if end := h.s.gpus.clean(ctx, setting.Ranks/setting.Resources.Nodes); end.outcome != "" {
			return end
		}
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
