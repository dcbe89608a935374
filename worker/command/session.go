// Package command is the workload `kind: command`: it runs a program that knows nothing of cpbench once for each
// iteration, and judges every run by its exit, by the file that it should have written and by the texts in its output.
//
// A run has a log of its own and, unless workload.workdir is given, a fresh folder of its own, both in the task's log
// folder. The folder in which the program runs is the one that artifact and json files are relative to.
package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/container"
	"cpbench/worker/evidence"
	"cpbench/worker/gpu"
	"cpbench/worker/node"
	"cpbench/worker/result"
	"cpbench/worker/search"
	"cpbench/worker/telemetry"
	"cpbench/worker/tree"
)

// Open is the worker.Workload of this package. It compiles what the spec says of the output, and makes the worker the
// reaper of everything that it will start. It fails if the spec asks for what cannot be done.
func Open(ctx context.Context, job worker.Job) (worker.Session, error) {
	s := &session{job: job, spec: job.Run.Plan.Spec.Workload, runs: map[string]int{}}
	for i, f := range s.spec.Metrics {
		c, err := compileFigure(f)
		if err != nil {
			return nil, fmt.Errorf("workload.metrics[%d]: %w", i, err)
		}
		s.figures = append(s.figures, c)
	}
	for i, p := range s.spec.OOMPatterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("workload.oom_patterns[%d]: %w", i, err)
		}
		s.patterns = append(s.patterns, re)
	}
	if err := container.Of(job.Run).Check(); err != nil {
		return nil, err
	}
	if err := tree.Adopt(); err != nil {
		return nil, err
	}
	s.mark = newMark()
	s.nodes = node.ForJob(job)
	s.gpus = telemetry.Open(ctx, s.nodes, job.Run.Plan.Arrays[job.Task.Array].Shape.GPUsPerNode, job.Log)
	return s, nil
}

type session struct {
	job      worker.Job
	spec     plan.Workload
	figures  []figure
	patterns []*regexp.Regexp
	runs     map[string]int // runs so far by their title, for names of their own
	nodes    *node.Fleet
	gpus     *telemetry.Telemetry
	mark     string // in the environment of every process of a run, on whichever node
}

// ending is how a run ended. Without an outcome it went well.
type ending = search.Failure

// Close ends the readings of the GPUs and the agents; of the runs nothing is left.
func (s *session) Close() error {
	s.nodes.Close()
	return nil
}

// Run carries out one repeat of a point, or the search of a case point.
func (s *session) Run(ctx context.Context, pair plan.Pair, r *result.Result) []result.Sample {
	if r.Provenance == nil {
		r.Provenance = map[string]string{}
	}
	if pair.Case == plan.CaseMaxFit {
		s.search(ctx, pair, r)
		return nil
	}
	setting, err := s.job.Run.Plan.At(pair.Point, 0)
	if err != nil {
		r.Outcome, r.Reason, r.Evidence = catalogue.Error, "the point cannot be evaluated", err.Error()
		return nil
	}
	r.Sizes = worker.Sizes(setting)
	kept := maps.Clone(r.Metrics)
	if end := s.lookInside(ctx, setting, r); end.Outcome != "" {
		r.Outcome, r.Reason, r.Evidence = end.Outcome, end.Reason, end.Evidence
		return nil
	}
	doubts := slices.Clone(r.Warnings)
	title := fmt.Sprintf("%s-r%d", pair.ID, pair.Repeat)
	samples, end := s.execute(ctx, setting, title, r)
	if end.Outcome == catalogue.OOMSuspect && ctx.Err() == nil {
		// The text only sometimes means memory: the same once more shows whether it was chance.
		s.job.Log.Info("once more", "what", title, "reason", end.Reason, "evidence", end.Evidence)
		r.Metrics, r.Steps, r.Extra, r.Warnings = kept, nil, nil, doubts
		samples, end = s.execute(ctx, setting, title+"-again", r)
		end.Outcome = evidence.Repeated(end.Outcome, end.Evidence)
	}
	r.Outcome, r.Reason, r.Evidence = catalogue.OK, "", ""
	if end.Outcome != "" {
		r.Outcome, r.Reason, r.Evidence = end.Outcome, end.Reason, end.Evidence
	}
	return samples
}

// execute runs the program for the warm-up and for the timed iterations. What was measured before a failure is kept.
func (s *session) execute(ctx context.Context, setting plan.Setting, title string, r *result.Result) ([]result.Sample, ending) {
	m := &measurement{figures: s.figures}
	total := s.spec.Warmup + s.spec.Iterations
	var g readings
	var end ending
	for i := range total {
		name, pace := fmt.Sprintf("%s-warmup-%d", title, i+1), gpu.Untimed
		if i >= s.spec.Warmup {
			name, pace = fmt.Sprintf("%s-run-%d", title, i-s.spec.Warmup+1), gpu.Timed
		}
		x := s.run(ctx, setting, name, pace, r)
		g.add(x.span, pace)
		end = x.end
		if x.whole { // a run that was too slow is the only one that tells how slow
			m.add(x.seconds, s.read(x), i >= s.spec.Warmup || end.Outcome == catalogue.Slow)
		}
		if end.Outcome != "" {
			break
		}
		if i < total-1 {
			s.drop(x) // of good runs the last one shows enough
		}
	}
	m.into(r, s.spec.Warmup)
	g.into(r)
	if n := len(m.wall); end.Outcome != "" && n > 0 {
		r.Warn(catalogue.Interrupted, fmt.Sprintf("only %d of %d timed runs were made", n, s.spec.Iterations), "")
	}
	return m.samples(), end
}

// timeout bounds one run by workload.timeout.
func (s *session) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Duration(s.spec.Timeout)
	return context.WithTimeoutCause(ctx, limit, errTimeout{limit: limit})
}

// errTimeout is the end of workload.timeout, or of another limit that why tells.
type errTimeout struct {
	limit time.Duration
	why   string
}

func (e errTimeout) Error() string {
	return fmt.Sprintf("%s (%v)", cmp.Or(e.why, "one run took longer than workload.timeout"), e.limit)
}

// folder is where a run takes place, and whether it is that run's alone.
func (s *session) folder(title string) (dir string, fresh bool) {
	switch w := s.spec.Workdir; {
	case w == "":
		return filepath.Join(s.job.LogDir, "work", title), true
	case filepath.IsAbs(w):
		return w, false
	default:
		return filepath.Join(s.job.Run.Plan.Dir, w), false
	}
}
