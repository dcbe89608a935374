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
	"cpbench/worker/model/ranks"
	"cpbench/worker/result"
	"cpbench/worker/search"
)

const confirmSteps = 3 // steps of a trial that confirms the answer

// hunt is a search under way: its processes are kept while trials succeed.
type hunt struct {
	s      *session
	pair   plan.Pair
	r      *result.Result
	live   *ranks.Set
	report search.Report
	beside map[int64][2]*float64 // peaks reserved and of the device, by size
}

// search finds the largest size that fits and fills the result of a case point.
func (s *session) search(ctx context.Context, pair plan.Pair, r *result.Result) {
	f := s.spec.MaxFit
	h := &hunt{s: s, pair: pair, r: r, report: search.Report{Axis: f.Axis, Hint: pair.Hint}, beside: map[int64][2]*float64{}}
	h.report.Conduct(ctx, f, h.before(), r, h.try)
	if fits := r.MaxFit.Fits; fits != nil {
		r.Metrics[catalogue.PeakReservedBytes], r.Metrics[catalogue.PeakDeviceBytes] = h.beside[*fits][0], h.beside[*fits][1]
	}
	h.drop(ctx, ranks.Ending{})
	delete(r.Metrics, catalogue.PrepareSeconds) // of the trials
	delete(r.Metrics, catalogue.LaunchSeconds)
}

// before are the trials that an interrupted attempt at the same search has made.
func (h *hunt) before() []search.Trial {
	last, err := worker.Last(h.s.job.Run, h.pair)
	if err != nil {
		return nil // then all of them are made again
	}
	h.s.gpus.Enter(h.r, 1) // tells their model
	known := h.report.Known(last, h.r.Provenance["gpu"], func(n int64) result.Sizes { return h.s.job.SizesAt(h.pair.Point, n) })
	if len(known) > 0 {
		h.s.job.Log.Info("resumed", "trials", len(known), "attempt", last.Attempt)
	}
	return known
}

// try makes one trial. A size that fitted leaves its processes to the next trial, every failure ends them.
func (h *hunt) try(ctx context.Context, step search.Step) (search.Trial, error) {
	began := time.Now()
	if step.Fresh || step.Confirm {
		h.drop(ctx, ranks.Ending{})
	}
	t := search.Trial{N: step.N, Confirm: step.Confirm, Verify: step.Verify}
	trialCtx, cancel := h.timeout(ctx, step)
	defer cancel()
	end := h.trial(trialCtx, step, &t)
	if h.report.Suspected(step.N) {
		end = end.Repeated()
	}
	t.Outcome = catalogue.OK
	if !end.OK() {
		if set := h.live; set != nil {
			h.drop(trialCtx, end)
			end = h.s.unspoilt(ctx, set.Setting, end)
		}
		t.Outcome = end.Outcome
	}
	t.Seconds = time.Since(began).Seconds()
	h.s.job.Log.Info("trial", "n", t.N, "outcome", t.Outcome, "reason", end.Reason, "seconds", t.Seconds, "fresh", t.Fresh, "why", step.Why)
	h.report.Note(t, search.Failure{Outcome: end.Outcome, Reason: end.Reason, Evidence: end.Evidence}, h.r.Sizes)
	if ctx.Err() != nil && !t.Outcome.Fits() && !t.Outcome.OutOfMemory() {
		return t, context.Cause(ctx) // it says nothing about its size
	}
	return t, nil
}

// timeout bounds a trial by what the others let expect, and by workload.timeout.
func (h *hunt) timeout(ctx context.Context, step search.Step) (context.Context, context.CancelFunc) {
	most := time.Duration(h.s.spec.Timeout)
	limit := step.Deadline(most, float64(h.steps(step))/float64(h.steps(search.Step{})))
	if limit >= most {
		return h.s.timeout(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, ranks.Timeout{Limit: limit, Why: search.Overdue})
}

// steps is the number of steps of a trial: one, and two for training, where the optimizer's state appears at the
// first; a few to confirm.
func (h *hunt) steps(step search.Step) int {
	switch {
	case step.Confirm:
		return confirmSteps
	case h.s.spec.Mode == "training":
		return 2
	}
	return 1
}

// trial runs the steps at a size, in the processes of the trial before where they can.
func (h *hunt) trial(ctx context.Context, next search.Step, t *search.Trial) ranks.Ending {
	setting, err := h.s.job.Run.Plan.At(h.pair.Point, next.N)
	if err != nil {
		return ranks.Failure("the point cannot be evaluated", err.Error())
	}
	if h.live != nil && (compiled(h.live) || !sameProgram(h.live.Setting, setting)) {
		h.drop(ctx, ranks.Ending{})
	}
	if t.Fresh = h.live == nil; t.Fresh {
		if end := h.s.ready(ctx, setting, h.r); !end.OK() {
			return end
		}
		h.live = ranks.Launch(ctx, h.s.job, h.s.nodes, setting, fmt.Sprintf("point %s trial %d", h.pair.ID, next.N))
		if end := h.s.prepare(ctx, h.live, h.r); !end.OK() {
			return end
		}
	} else {
		h.live.Tell(ctx, &protocol.ResetPeak{})
	}
	h.r.Sizes = worker.Sizes(setting)
	if end := point(ctx, h.live, setting.Point, h.r); !end.OK() {
		return end
	}
	if next.Verify && !t.Fresh { // the size before was larger, and lived until this one was built
		h.live.Tell(ctx, &protocol.ResetPeak{})
	}
	if end := h.s.probe(ctx, h.live, h.steps(next)); !end.OK() {
		return end
	}
	// In a process that ran another size before, the peak since its start may be that one's.
	t.PeakBytes, t.CapacityBytes = peak(h.live, t.Fresh, allocated), capacity(h.live)
	h.beside[next.N] = [2]*float64{peak(h.live, t.Fresh, reserved), peak(h.live, t.Fresh, device)}
	return ranks.Ending{}
}

// sameProgram reports whether the processes of one size can run the other: a command may use the searched axis.
func sameProgram(a, b plan.Setting) bool {
	return a.Ranks == b.Ranks && slices.Equal(a.Command, b.Command) && maps.Equal(a.Env, b.Env)
}

// drop ends the processes of the newest trial.
func (h *hunt) drop(ctx context.Context, end ranks.Ending) {
	if h.live != nil {
		h.live.Close(ctx, end, h.r)
		h.live = nil
	}
}
