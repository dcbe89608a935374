// Package model is the workload `kind: model`: it leads the ranks of a context-parallel model (package ranks) through
// warm-up and timed steps over the protocol, searches for the largest size, and turns what it hears into a result.
package model

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/container"
	"cpbench/worker/model/ranks"
	"cpbench/worker/node"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
	"cpbench/worker/tree"
)

// Open is the worker.Workload of this package. It only makes the worker the reaper of everything that it will
// start: every execution has fresh processes, because a repeat is an independent execution.
func Open(ctx context.Context, job worker.Job) (worker.Session, error) {
	if err := tree.Adopt(); err != nil {
		return nil, err
	}
	if err := container.Of(job.Run).Check(); err != nil {
		return nil, err
	}
	nodes := node.ForJob(job)
	gpus := job.Run.Plan.Arrays[job.Task.Array].Shape.GPUsPerNode
	return &session{job: job, spec: job.Run.Plan.Spec.Workload, nodes: nodes, gpus: telemetry.Open(ctx, nodes, gpus, job.Log)}, nil
}

type session struct {
	job   worker.Job
	spec  plan.Workload
	nodes *node.Fleet
	gpus  *telemetry.Telemetry
}

// Close ends the readings of the GPUs and the agents; of the executions nothing is left.
func (s *session) Close() error {
	s.nodes.Close()
	return nil
}

// Run carries out one repeat of a point, or the search of a case point.
func (s *session) Run(ctx context.Context, pair plan.Pair, r *result.Result) []result.Sample {
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
	doubts := slices.Clone(r.Warnings)
	samples, end := s.execute(ctx, setting, title, r)
	if end.Outcome == catalogue.OOMSuspect && ctx.Err() == nil {
		// The text only sometimes means memory: a second set of processes shows whether it was chance.
		s.job.Log.Info("once more", "what", title, "reason", end.Reason, "evidence", end.Evidence)
		clear(r.Metrics)
		r.Steps, r.Extra, r.Warnings = nil, nil, doubts
		samples, end = s.execute(ctx, setting, title+" once more", r)
		end = end.Repeated()
	}
	end.Into(r)
	return samples
}

// execute runs one repeat in processes of its own, within workload.timeout.
func (s *session) execute(ctx context.Context, setting plan.Setting, title string, r *result.Result) ([]result.Sample, ranks.Ending) {
	outer := ctx
	ctx, cancel := s.timeout(ctx)
	defer cancel()
	if end := s.ready(ctx, setting, r); !end.OK() {
		return nil, end
	}
	r.Sizes = worker.Sizes(setting)
	set := ranks.Launch(ctx, s.job, s.nodes, setting, title)
	samples, end := s.measure(ctx, set, r)
	set.Close(ctx, end, r)
	return samples, s.unspoilt(outer, setting, end)
}

// timeout bounds one execution or trial by workload.timeout.
func (s *session) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Duration(s.spec.Timeout)
	return context.WithTimeoutCause(ctx, limit, ranks.Timeout{Limit: limit})
}
