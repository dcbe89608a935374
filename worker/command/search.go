package command

import (
	"context"
	"fmt"
	"math"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/evidence"
	"cpbench/worker/gpu"
	"cpbench/worker/result"
	"cpbench/worker/search"
)

// hunt is a search under way.
type hunt struct {
	s      *session
	pair   plan.Pair
	r      *result.Result
	report search.Report

	sampled bool // peaks are readings of the GPUs, not the program's own figures
}

// search finds the largest size that fits and fills the result of a case point. Every trial is one run of the program,
// so all of them are in fresh processes. Where the program tells its peaks, and the GPUs what they have free, it predicts;
// else it doubles and bisects. What is read of a GPU is no peak to predict by: it is what an allocator holds, which
// saturates near the limit.
func (s *session) search(ctx context.Context, pair plan.Pair, r *result.Result) {
	f := s.spec.MaxFit
	h := &hunt{s: s, pair: pair, r: r, report: search.Report{Axis: f.Axis, Hint: pair.Hint}}
	h.report.Conduct(ctx, f, h.before(), r, h.try)
	h.peak()
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
		h.sampled = last.Metrics[catalogue.PeakDeviceBytes] != nil
		h.s.job.Log.Info("resumed", "trials", len(known), "attempt", last.Attempt)
	}
	return known
}

// try makes one trial.
func (h *hunt) try(ctx context.Context, step search.Step) (search.Trial, error) {
	began := time.Now()
	t := search.Trial{N: step.N, Fresh: true, Confirm: step.Confirm, Verify: step.Verify, Outcome: catalogue.OK}
	end, ran := h.trial(ctx, step, &t)
	if h.report.Suspected(step.N) {
		end.Outcome = evidence.Repeated(end.Outcome, end.Evidence)
	}
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

// timeout bounds a trial by what the others let expect, where workload.timeout would give it longer.
func (h *hunt) timeout(ctx context.Context, step search.Step) (context.Context, context.CancelFunc) {
	most := time.Duration(h.s.spec.Timeout)
	limit := step.Deadline(most, 1)
	if limit >= most {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, errTimeout{limit, search.Overdue})
}

// trial runs the program once at a size.
func (h *hunt) trial(ctx context.Context, step search.Step, t *search.Trial) (ending, result.Sizes) {
	setting, err := h.s.job.Run.Plan.At(h.pair.Point, step.N)
	if err != nil {
		return ending{Outcome: catalogue.Error, Reason: "the point cannot be evaluated", Evidence: err.Error()}, result.Sizes{}
	}
	ctx, cancel := h.timeout(ctx, step)
	defer cancel()
	h.r.Sizes = worker.Sizes(setting)
	x := h.s.run(ctx, setting, fmt.Sprintf("%s-trial-%d", h.pair.ID, step.N), gpu.Untimed, h.r)
	if x.end.Outcome != "" {
		return x.end, h.r.Sizes
	}
	for i, v := range h.s.read(x) {
		if h.s.figures[i].name == catalogue.PeakAllocatedBytes && !math.IsNaN(v) {
			t.PeakBytes, t.CapacityBytes = &v, h.s.gpus.Room(setting.Resources.Nodes)
		}
	}
	if t.PeakBytes == nil {
		t.PeakBytes = x.span.Peak()
		h.sampled = h.sampled || t.PeakBytes != nil
	}
	h.s.drop(x)
	return ending{}, h.r.Sizes
}

// peak puts the peak at the answer under its right name.
func (h *hunt) peak() {
	peak := h.r.Metrics[catalogue.PeakAllocatedBytes]
	if !h.sampled || peak == nil {
		return
	}
	h.r.Metrics[catalogue.PeakAllocatedBytes], h.r.Metrics[catalogue.PeakDeviceBytes] = nil, peak
	h.r.Warn(catalogue.DevicePeak, "the peak is the memory in use on the fullest GPU, beyond what was in use before: the program tells none of its own", "")
}
