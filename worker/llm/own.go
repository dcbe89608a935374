package llm

import (
	"context"
	"fmt"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/host"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/warmup"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
)

// This file has what comes with a server beside its groups: the GPUs under one that the task has started, and the
// requests before the first group.

// enter writes down on what a server of the task's own runs, or would.
func (s *session) enter(r *result.Result, setting plan.Setting) {
	if s.host == nil {
		return
	}
	var process *host.Running
	if s.living != nil {
		process = s.living.process
	}
	s.host.Enter(r, setting.Resources.Nodes, process)
}

// energy writes what happened to the GPUs during a group, and the energy for each token that was delivered.
func energy(r *result.Result, gpus telemetry.Span) {
	gpus.Into(r)
	joules, read := r.Metrics[catalogue.EnergyJoules]
	if !read {
		return
	}
	r.Metrics[catalogue.EnergyPerOutputToken] = nil
	if n := r.Metrics[catalogue.OutputTokens]; joules != nil && n != nil && *n > 0 {
		r.Set(catalogue.EnergyPerOutputToken, *joules / *n)
	}
}

// warmUp sends what a server gets before its first group, and waits until it has counted that. A request of it that is no
// success is a doubt about every group.
func (s *session) warmUp(ctx context.Context, l *living, r *result.Result) ending {
	bursts, streams := s.spec.Warmup, s.largest(l)
	if bursts == 0 || streams == 0 {
		return ending{}
	}
	rep, err := warmup.Run(ctx, warmup.Plan{
		Server: l.seen, Bursts: bursts, Streams: streams, MaxTokens: s.spec.MaxTokens,
		Template: template(s.spec), Sampling: s.spec.Sampling, Priority: s.spec.Priority, Timeouts: timeouts(s.spec),
	})
	s.log.warmup(rep, r)
	if ctx.Err() != nil {
		return failed("the warm-up was cut off", context.Cause(ctx))
	}
	text := ""
	if failed, of, why := rep.Failed(); failed > 0 {
		text = fmt.Sprintf("%d of %d requests of the warm-up failed: %s", failed, of, why)
	}
	if err != nil {
		text = fmt.Sprintf("no warm-up: %v", err)
	}
	if text != "" {
		l.findings = append(l.findings, preflight.Finding{Check: preflight.Warmup, Grade: preflight.Warn, Text: text, Advice: "the first groups may be slower than the others"})
	}
	s.job.Log.Info("warmed up", "bursts", bursts, "streams", streams, "seconds", rep.Seconds, "doubt", text)
	return settle(ctx, time.Duration(s.spec.MetricsSettle))
}

// settle waits for counters that a server publishes now and then, so that they do not move during what comes next.
func settle(ctx context.Context, d time.Duration) ending {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ending{}
	case <-ctx.Done():
		return failed("the wait for the server's counters was cut off", context.Cause(ctx))
	}
}

// mixedStreams are those of the mixed case.
const mixedStreams = 3

// largest is the number of streams of the largest group that goes to a server in this task.
func (s *session) largest(l *living) int {
	most := 0
	for _, pair := range s.job.Task.Pairs {
		setting, err := s.job.Run.Plan.At(pair.Point, 0)
		if err != nil {
			continue // its own result says so
		}
		if sv := setting.Serving; l.is(sv) {
			most = max(most, sv.Group.Concurrency)
			if sv.Group.Mixed != nil {
				most = max(most, mixedStreams)
			}
		}
	}
	return most
}
