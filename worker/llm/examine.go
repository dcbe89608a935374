package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/warmup"
	"cpbench/worker/result"
)

// This file has what happens to a server between its start and its first group.

// examine runs the preflight and the warm-up before the first group of a server. What is found bad ends every group, and a
// doubt stands in every result.
func (l *living) examine(ctx context.Context, s *session, r *result.Result) ending {
	if !l.looked {
		if end := l.look(ctx, s, r); end.outcome != "" {
			return end
		}
	}
	for _, f := range l.findings.Worst(preflight.Warn) {
		doubt(r, f)
	}
	return badEnding(l.findings)
}

// look is the preflight and the warm-up. Where it comes to no end there is no group, which would be measured on a server
// that nobody has looked at or warmed up: the next group tries again.
func (l *living) look(ctx context.Context, s *session, r *result.Result) ending {
	if shot, err := l.metrics.Fetch(ctx); err == nil && shot.Blank() && !l.woken {
		l.woken = true
		l.warmed(ctx, s, r, 1, 1) // what becomes of it is told by the preflight
	}
	_, err := l.metrics.WaitIdle(ctx, patience(l.seen))
	busy := new(scrape.NotIdle)
	switch {
	case ctx.Err() != nil:
		return failed("the wait for an idle server was cut off", context.Cause(ctx))
	case errors.As(err, &busy):
		return ending{catalogue.Invalid, group.NotIdle, busy.Error()}
	}
	found := preflight.Look(ctx, l.seen, l.metrics, 0, 0, nil)
	if err != nil {
		if end := badEnding(found); end.outcome != "" {
			return end
		}
		return failed("the metrics could not be read", err)
	}
	found = append(found, preflight.Try(ctx, trial(s.spec, l.seen, l.metrics, s.hasWarm()))...)
	if ctx.Err() != nil {
		return failed("the preflight was cut off", context.Cause(ctx))
	}
	l.looked, l.findings = true, found
	s.log.preflight(l, r)
	return s.warmUp(ctx, l, r)
}

// badEnding is the first bad finding as the ending of a group; none if nothing is bad.
func badEnding(findings preflight.Findings) ending {
	bad := findings.Worst(preflight.Bad)
	if len(bad) == 0 {
		return ending{}
	}
	text := bad[0].Text
	if bad[0].Advice != "" {
		text += "; " + bad[0].Advice
	}
	return ending{catalogue.Error, "preflight: " + bad[0].Check, text}
}

// hasWarm reports whether the sweep has warm groups.
func (s *session) hasWarm() bool {
	return slices.ContainsFunc(s.job.Run.Plan.Axes, func(a plan.Axis) bool { return a.Name == "cache" && slices.Contains(a.Values, warm) })
}

// patience is how long an idle server is waited for: its gauges may be renewed rarely.
func patience(seen *dialect.Server) time.Duration {
	const usual = 10 * time.Second
	return usual + seen.Kind.Traits().GaugeRefresh
}

// warmUp sends what a server gets before its first group, and waits until it has counted that and the preflight. A request
// of it that is no success is a doubt about every group.
func (s *session) warmUp(ctx context.Context, l *living, r *result.Result) ending {
	if bursts, streams := s.spec.Warmup, s.largest(l); bursts > 0 && streams > 0 {
		text := l.warmed(ctx, s, r, bursts, streams)
		if ctx.Err() != nil {
			return failed("the warm-up was cut off", context.Cause(ctx))
		}
		if text != "" {
			l.findings = append(l.findings, preflight.Finding{Check: preflight.Warmup, Grade: preflight.Warn, Text: text, Advice: "the first groups may be slower than the others"})
		}
	}
	return settle(ctx, time.Duration(s.spec.MetricsSettle))
}

// warmed sends bursts of requests that no group knows of, and says what was not as it should be.
func (l *living) warmed(ctx context.Context, s *session, r *result.Result, bursts, streams int) (doubt string) {
	rep, err := warmup.Run(ctx, warmup.Plan{
		Server: l.seen, Bursts: bursts, Streams: streams, MaxTokens: s.spec.MaxTokens,
		Template: template(s.spec), Sampling: s.spec.Sampling, Priority: s.spec.Priority, Timeouts: timeouts(s.spec),
	})
	s.log.warmup(rep, r)
	if failed, of, why := rep.Failed(); failed > 0 {
		doubt = fmt.Sprintf("%d of %d requests of the warm-up failed: %s", failed, of, why)
	}
	if err != nil {
		doubt = fmt.Sprintf("no warm-up: %v", err)
	}
	s.job.Log.Info("warmed up", "bursts", bursts, "streams", streams, "seconds", rep.Seconds, "doubt", s.key.Redact(doubt))
	return doubt
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
