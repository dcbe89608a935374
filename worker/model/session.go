// Package model is the workload `kind: model`: it starts the ranks of a context-parallel model, leads them through
// warm-up and timed steps over the protocol, and judges how they ended.
package model

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// Open is the worker.Workload of this package. It only makes the worker the reaper of everything that it will
// start: every execution has fresh processes, because a repeat is an independent execution.
func Open(ctx context.Context, job worker.Job) (worker.Session, error) {
	if err := tree.Adopt(); err != nil {
		return nil, err
	}
	s := &session{job: job, spec: job.Run.Plan.Spec.Workload}
	s.openTelemetry(ctx)
	return s, nil
}

type session struct {
	job  worker.Job
	spec plan.Workload
	gpus *telemetry // nil: no GPUs
}

// Close ends the readings of the GPUs; of the executions nothing is left.
func (s *session) Close() error {
	s.gpus.close()
	return nil
}

// Run carries out one repeat of a point, or the search of a case point.
func (s *session) Run(ctx context.Context, pair plan.Pair, r *result.Result) []result.Sample {
	s.gpus.enter(r)
	if pair.Case == plan.CaseMaxFit {
		s.search(ctx, pair, r)
		return nil
	}
	setting, err := s.job.Run.Plan.At(pair.Point, 0)
	if err != nil {
		r.Outcome, r.Reason, r.Evidence = catalogue.Error, "the point cannot be evaluated", err.Error()
		return nil
	}
	title := fmt.Sprintf("point %s repeat %d", pair.ID, pair.Repeat)
	samples, end := s.execute(ctx, setting, title, r)
	if end.outcome == catalogue.OOMSuspect && ctx.Err() == nil {
		// The text only sometimes means memory: a second set of processes shows whether it was chance.
		s.job.Log.Info("once more", "what", title, "reason", end.reason, "evidence", end.evidence)
		clear(r.Metrics)
		r.Steps, r.Extra = nil, nil
		samples, end = s.execute(ctx, setting, title+" once more", r)
	}
	end.into(r)
	return samples
}

// execute runs one repeat in processes of its own, within workload.timeout.
func (s *session) execute(ctx context.Context, setting plan.Setting, title string, r *result.Result) ([]result.Sample, ending) {
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	if end := s.gpus.clean(ctx, setting.Ranks/setting.Resources.Nodes); end.outcome != "" {
		return nil, end
	}
	e := s.launch(setting, title)
	e.fill(r)
	samples, end := s.measure(ctx, e, r)
	e.close(ctx, end, r)
	return samples, end
}

// timeout bounds one execution or trial by workload.timeout.
func (s *session) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Duration(s.spec.Timeout)
	return context.WithTimeoutCause(ctx, limit, errTimeout{limit})
}

// errTimeout is the end of workload.timeout.
type errTimeout struct{ limit time.Duration }

func (e errTimeout) Error() string {
	return fmt.Sprintf("one execution took longer than workload.timeout (%v)", e.limit)
}

// workdir is the folder in which the ranks run.
func (s *session) workdir() string {
	if filepath.IsAbs(s.spec.Workdir) {
		return s.spec.Workdir
	}
	return filepath.Join(s.job.Run.Plan.Dir, s.spec.Workdir)
}
