package model

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
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
func (e *execution) prepare(ctx context.Context, r *result.Result) ending {
	isHello := func(_ int, m protocol.Message) bool { _, ok := m.(*protocol.Hello); return ok }
	if end := e.await(ctx, isHello); end.outcome != "" {
		return end
	}
	e.introduce(r)
	if end := e.s.gpus.claimed(e); end.outcome != "" {
		return end
	}
	e.tell(ctx, &protocol.Start{Mode: e.s.spec.Mode, DType: e.s.spec.DType, Topology: e.setting.Topology})
	isReady := func(_ int, m protocol.Message) bool { _, ok := m.(*protocol.Ready); return ok }
	if end := e.await(ctx, isReady); end.outcome != "" {
		return end
	}
	r.Set(catalogue.LaunchSeconds, time.Since(e.began).Seconds())
	return ending{}
}

// point prepares the input for a point; all ranks have to agree about its size.
func (e *execution) point(ctx context.Context, params map[string]any, r *result.Result) ending {
	request := &protocol.Point{Params: params}
	if _, err := protocol.Encode(request); err != nil {
		return failure("the point cannot be told to the ranks", err.Error())
	}
	e.tell(ctx, request)
	prepared := make([]*protocol.Prepared, len(e.ranks))
	end := e.await(ctx, func(rank int, m protocol.Message) bool {
		p, ok := m.(*protocol.Prepared)
		if ok {
			prepared[rank] = p
		}
		return ok
	})
	if end.outcome != "" {
		return end
	}
	slowest := 0.0
	for i, p := range prepared {
		slowest = max(slowest, p.Seconds)
		if !same(p.PaddedTokens, prepared[0].PaddedTokens) || !same(p.Tokens, prepared[0].Tokens) {
			return failure(fmt.Sprintf("the ranks disagree: rank 0 and rank %d prepared different sizes", i), "")
		}
	}
	r.Set(catalogue.PrepareSeconds, slowest)
	p := prepared[0]
	r.Sizes.PaddedTokens = p.PaddedTokens
	if p.Atoms != nil {
		r.Sizes.Atoms = p.Atoms
	}
	if p.MSA != nil {
		r.Sizes.MSA = p.MSA
	}
	return ending{}
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

// step asks for steps and collects their times. What the ranks say of their memory before them is that of these steps.
func (e *execution) step(ctx context.Context, phase string, count int) (times, ending) {
	for _, r := range e.ranks {
		r.memory = nil
	}
	e.tell(ctx, &protocol.Step{Phase: phase, Count: count})
	got := make([]*protocol.Steps, len(e.ranks))
	end := e.await(ctx, func(rank int, m protocol.Message) bool {
		s, ok := m.(*protocol.Steps)
		if ok {
			got[rank] = s
		}
		return ok
	})
	if end.outcome != "" {
		return times{}, end
	}
	for rank, s := range got {
		if end := checkSteps(rank, s, count); end.outcome != "" {
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
	return t, ending{}
}

// checkSteps judges what one rank reported about its steps.
func checkSteps(rank int, s *protocol.Steps, count int) ending {
	switch {
	case len(s.Seconds) != count:
		return failure(fmt.Sprintf("rank %d reported %d steps instead of %d", rank, len(s.Seconds), count), "")
	case slices.Min(s.Seconds) < 0:
		return failure(fmt.Sprintf("rank %d reported a step of %g seconds", rank, slices.Min(s.Seconds)), "")
	case s.Finite != nil && !*s.Finite:
		return ending{outcome: catalogue.WrongOutput, reason: fmt.Sprintf("the output of rank %d is not finite", rank), rank: rank}
	}
	return ending{}
}

// measure runs one repeat: cold steps, warm-up until steady, timed steps.
func (s *session) measure(ctx context.Context, e *execution, r *result.Result) ([]result.Sample, ending) {
	if end := e.prepare(ctx, r); end.outcome != "" {
		return nil, end
	}
	if end := e.point(ctx, e.setting.Point, r); end.outcome != "" {
		return nil, end
	}
	cold, end := e.step(ctx, "warmup", coldSteps)
	if end.outcome != "" {
		return nil, end
	}
	e.coldPeaks(r)
	r.Set(catalogue.FirstStepSeconds, cold.slowest()[0])
	warm, steady, end := s.warmup(ctx, e, cold.slowest())
	if end.outcome != "" {
		return nil, end
	}
	e.tell(ctx, &protocol.ResetPeak{})
	last := warm[len(warm)-1]
	expected := time.Duration(float64(s.spec.Iterations) * last * float64(time.Second))
	timed, end := s.gpus.around(ctx, expected, r, func() (times, ending) { return s.timed(ctx, e, last) })
	if len(timed.host) > 0 { // what was measured before a failure is kept
		s.summarize(r, timed, len(warm), steady)
	}
	if end.outcome != "" {
		if n := len(timed.host); n > 0 {
			r.Warn(catalogue.Interrupted, fmt.Sprintf("only %d of %d timed steps were run", n, s.spec.Iterations), "")
		}
		return samples(timed), end
	}
	e.warmPeaks(r)
	e.figures(r)
	return samples(timed), end
}

// warmup runs steps until enough were run and their times are steady, up to a cap of steps and of time.
func (s *session) warmup(ctx context.Context, e *execution, seen []float64) ([]float64, string, ending) {
	budget := time.Duration(warmupShare * float64(s.spec.Timeout))
	for len(seen) < s.spec.Warmup || (steady(seen) != "yes" && len(seen) < maxWarmup && time.Since(e.began) < budget) {
		t, end := e.step(ctx, "warmup", 1)
		if end.outcome != "" {
			return seen, "", end
		}
		seen = append(seen, t.slowest()...)
	}
	return seen, steady(seen), ending{}
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
// something behind when they are stopped.
func (s *session) timed(ctx context.Context, e *execution, last float64) (times, ending) {
	var all times
	for len(all.host) < s.spec.Iterations {
		batch := 1
		if last > 0 {
			batch = int(math.Ceil(batchTime.Seconds() / last))
		}
		batch = max(1, min(batch, s.spec.Iterations-len(all.host)))
		t, end := e.step(ctx, "timed", batch)
		all.host = append(all.host, t.host...)
		all.device = append(all.device, t.device...)
		if end.outcome != "" {
			return all, end
		}
	}
	return all, ending{}
}

// summarize puts the timed steps into the result.
func (s *session) summarize(r *result.Result, t times, warmup int, steady string) {
	sum, warnings := result.Summarize(t.host, warmup)
	sum.Steady = steady
	r.Steps = &sum
	r.Warnings = append(r.Warnings, warnings...)
	r.Set(catalogue.StepSeconds, sum.Median)
	if steady == "no" {
		r.Warn(catalogue.Unsteady, fmt.Sprintf("step times had not settled after %d warm-up steps", warmup),
			"raise workload.warmup, or look for other load on the machine")
	}
	imbalance := make([]float64, 0, len(t.host))
	for _, ranks := range t.host {
		if lo := slices.Min(ranks); lo > 0 {
			imbalance = append(imbalance, slices.Max(ranks)/lo-1)
		}
	}
	if len(imbalance) > 0 {
		r.Set(catalogue.RankImbalance, median(imbalance))
	}
	if len(t.device) == len(t.host) {
		slowest := make([]float64, len(t.device))
		for i, ranks := range t.device {
			slowest[i] = slices.Max(ranks)
		}
		r.Set(catalogue.DeviceStepSeconds, median(slowest))
	}
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
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
