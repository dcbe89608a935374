package model

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/gpu"
	"cpbench/worker/model/protocol"
	"cpbench/worker/model/ranks"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
)

const (
	coldSteps   = 2           // steps after which the cold peak is read
	steadyLast  = 5           // steps over which steadiness is judged
	steadyRatio = 1.05        // largest over smallest of them
	maxWarmup   = 20          // steps
	batchTime   = time.Second // timed steps are asked for in batches of about this long
	warmupShare = 0.25        // of the time limit that the search for steadiness may use
)

// prepare leads the ranks from hello to a built model.
func (s *session) prepare(ctx context.Context, set *ranks.Set, r *result.Result) ranks.Ending {
	if end := set.Meet(ctx); !end.OK() {
		return end
	}
	introduce(set, r)
	if end := s.claimed(set); !end.OK() {
		return end
	}
	start := &protocol.Start{
		Mode: s.spec.Mode, DType: s.spec.DType, Topology: set.Setting.Topology,
		AliveSeconds: time.Duration(s.spec.Heartbeat).Seconds() / signsPerBeat,
	}
	if _, end := ranks.Ask[*protocol.Ready](ctx, set, start, ranks.Patience{}); !end.OK() {
		return end
	}
	built(set, r)
	r.Set(catalogue.LaunchSeconds, time.Since(set.Began).Seconds())
	return ranks.Ending{}
}

// point prepares the input for a point; all ranks have to agree about its size.
func point(ctx context.Context, set *ranks.Set, params map[string]any, r *result.Result) ranks.Ending {
	prepared, end := ranks.Ask[*protocol.Prepared](ctx, set, &protocol.Point{Params: params}, ranks.Patience{})
	if !end.OK() {
		return end
	}
	slowest := 0.0
	for i, p := range prepared {
		slowest = max(slowest, p.Seconds)
		if !same(p.PaddedTokens, prepared[0].PaddedTokens) || !same(p.Tokens, prepared[0].Tokens) {
			return ranks.Failure(fmt.Sprintf("the ranks disagree: rank 0 and rank %d prepared different sizes", i), "")
		}
	}
	r.Set(catalogue.PrepareSeconds, slowest)
	p := prepared[0]
	r.Sizes.PaddedTokens = p.PaddedTokens
	if p.Tokens != nil {
		r.Sizes.Tokens = p.Tokens
	}
	if p.Atoms != nil {
		r.Sizes.Atoms = p.Atoms
	}
	if p.MSA != nil {
		r.Sizes.MSA = p.MSA
	}
	return ranks.Ending{}
}

func same(a, b *int64) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// times are the seconds of some steps, by step and rank.
type times struct{ host, device [][]float64 }

// slowest is the time of each step: that of its slowest rank.
func (t times) slowest() []float64 {
	out := make([]float64, len(t.host))
	for i, ranks := range t.host {
		out[i] = slices.Max(ranks)
	}
	return out
}

// step asks for steps and collects their times.
func step(ctx context.Context, set *ranks.Set, phase string, count int, p ranks.Patience) (times, ranks.Ending) {
	got, end := ranks.Ask[*protocol.Steps](ctx, set, &protocol.Step{Phase: phase, Count: count}, p)
	if !end.OK() {
		return times{}, end
	}
	for rank, s := range got {
		if end := checkSteps(rank, s, count); !end.OK() {
			return times{}, end
		}
	}
	var t times
	for i := range count {
		var host, device []float64
		for _, s := range got {
			host = append(host, s.Seconds[i])
			if len(s.DeviceSeconds) == count {
				device = append(device, s.DeviceSeconds[i])
			}
		}
		t.host = append(t.host, host)
		if len(device) == len(got) {
			t.device = append(t.device, device)
		}
	}
	return t, ranks.Ending{}
}

// checkSteps judges what one rank reported about its steps.
func checkSteps(rank int, s *protocol.Steps, count int) ranks.Ending {
	switch {
	case len(s.Seconds) != count:
		return ranks.Failure(fmt.Sprintf("rank %d reported %d steps instead of %d", rank, len(s.Seconds), count), "")
	case slices.Min(s.Seconds) < 0:
		return ranks.Failure(fmt.Sprintf("rank %d reported a step of %g seconds", rank, slices.Min(s.Seconds)), "")
	case s.Finite != nil && !*s.Finite:
		return ranks.Ending{Outcome: catalogue.WrongOutput, Reason: fmt.Sprintf("the output of rank %d is not finite", rank)}
	}
	return ranks.Ending{}
}

// measure runs one repeat: cold steps, warm-up until steady, timed steps.
func (s *session) measure(ctx context.Context, set *ranks.Set, r *result.Result) ([]result.Sample, ranks.Ending) {
	if end := s.prepare(ctx, set, r); !end.OK() {
		return nil, end
	}
	if end := point(ctx, set, set.Setting.Point, r); !end.OK() {
		return nil, end
	}
	seen, last, end := s.warmup(ctx, set, r)
	if !end.OK() {
		if end.Outcome == catalogue.Slow && len(last.host) > 0 {
			r.Warn(catalogue.Interrupted, "the time is that of the one step that was over workload.slow_after", "")
			s.summarize(r, last, len(seen)-1, steady(seen))
		}
		return samples(last), end
	}
	set.Tell(ctx, &protocol.ResetPeak{})
	expected := time.Duration(float64(s.spec.Iterations) * seen[len(seen)-1] * float64(time.Second))
	var timed times
	work := telemetry.Work{Nodes: set.Nodes(), Pace: gpu.Timed, Expected: expected}
	span := s.gpus.During(ctx, work, func() { timed, end = s.timed(ctx, set, seen) })
	span.Into(r)
	if len(timed.host) > 0 { // what was measured before a failure is kept
		s.summarize(r, timed, len(seen), steady(seen))
	}
	if !end.OK() {
		if n := len(timed.host); n > 0 {
			r.Warn(catalogue.Interrupted, fmt.Sprintf("only %d of %d timed steps were run", n, s.spec.Iterations), "")
		}
		return samples(timed), end
	}
	warmPeaks(set, r)
	figures(set, r)
	return samples(timed), end
}

// warmup runs steps until enough were run and their times are steady, up to a cap of steps and of time. The times of a
// step that ends it as slow are returned with it.
func (s *session) warmup(ctx context.Context, set *ranks.Set, r *result.Result) (seen []float64, last times, end ranks.Ending) {
	budget := time.Duration(warmupShare * float64(s.spec.Timeout))
	for len(seen) < max(coldSteps, s.spec.Warmup) ||
		steady(seen) != "yes" && len(seen) < maxWarmup && time.Since(set.Began) < budget {
		t, end := step(ctx, set, "warmup", 1, s.patience(seen, 0))
		if !end.OK() {
			return seen, times{}, end
		}
		seen = append(seen, t.slowest()...)
		switch len(seen) {
		case 1:
			r.Set(catalogue.FirstStepSeconds, seen[0])
		case coldSteps:
			coldPeaks(set, r)
		}
		if end := s.overBudget(seen[1:]); !end.OK() {
			return seen, t, end
		}
	}
	return seen, times{}, ranks.Ending{}
}

// steady judges the last steps, without the cold ones: yes, no, or unknown when there are too few. Times that
// still fall, or rise, one after the other are not steady however close they are.
func steady(seen []float64) string {
	warm := seen[min(coldSteps, len(seen)):]
	if len(warm) < steadyLast {
		return "unknown"
	}
	last := warm[len(warm)-steadyLast:]
	falling, rising := true, true
	for i := range last[1:] {
		falling = falling && last[i+1] < last[i]
		rising = rising && last[i+1] > last[i]
	}
	if slices.Max(last) > steadyRatio*slices.Min(last) || falling || rising {
		return "no"
	}
	return "yes"
}

// timed runs the timed steps in batches, so that short steps do not pay for the conversation and long ones leave
// something behind when they are stopped. seen are the steps before.
func (s *session) timed(ctx context.Context, set *ranks.Set, seen []float64) (times, ranks.Ending) {
	var all times
	last := seen[len(seen)-1]
	for len(all.host) < s.spec.Iterations {
		batch := 1
		if last > 0 {
			batch = int(math.Ceil(batchTime.Seconds() / last))
		}
		batch = max(1, min(batch, s.spec.Iterations-len(all.host)))
		t, end := step(ctx, set, "timed", batch, s.patience(seen, batch))
		all.host = append(all.host, t.host...)
		all.device = append(all.device, t.device...)
		if end.OK() {
			end = s.overBudget(t.slowest())
		}
		if !end.OK() {
			return all, end
		}
	}
	return all, ranks.Ending{}
}

// summarize puts the timed steps into the result.
func (s *session) summarize(r *result.Result, t times, warmup int, steady string) {
	sum, warnings := result.Summarize(t.host, warmup)
	sum.Steady = steady
	r.Steps = &sum
	r.Warnings = append(r.Warnings, warnings...)
	r.Set(catalogue.StepSeconds, sum.Median)
	if steady == "no" {
		hint := "look for other load on the machine"
		if warmup < maxWarmup { // more of them would have taken too long
			hint = "raise workload.timeout, of which a quarter is for the warm-up"
		}
		r.Warn(catalogue.Unsteady, fmt.Sprintf("step times had not settled after %d warm-up steps", warmup), hint)
	}
	imbalance := make([]float64, 0, len(t.host))
	for _, ranks := range t.host {
		if lo := slices.Min(ranks); lo > 0 {
			imbalance = append(imbalance, slices.Max(ranks)/lo-1)
		}
	}
	if len(imbalance) > 0 {
		r.Set(catalogue.RankImbalance, result.Median(imbalance))
	}
	if len(t.device) == len(t.host) {
		slowest := make([]float64, len(t.device))
		for i, ranks := range t.device {
			slowest[i] = slices.Max(ranks)
		}
		r.Set(catalogue.DeviceStepSeconds, result.Median(slowest))
	}
}

func samples(t times) []result.Sample {
	var out []result.Sample
	for i := range t.host {
		s := result.Sample{Iteration: i + 1, Seconds: t.host[i]}
		if len(t.device) == len(t.host) {
			s.DeviceSeconds = t.device[i]
		}
		out = append(out, s)
	}
	return out
}
