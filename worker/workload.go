package worker

import (
	"context"
	"log/slog"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// Workload opens the session of a task. It returns soon after ctx ends, which is also the end of the task's time; the
// error is the evidence of the results that the task then leaves. Another kind of workload is a package with such a
// function, and one line in cmd that names it.
type Workload func(ctx context.Context, job Job) (Session, error)

// Job is what a workload knows about its task.
type Job struct {
	Run    *folder.Run
	Task   plan.Task
	Hosts  []string // names of the task's nodes, this one first; nil where there is only this one
	LogDir string   // for the output of the programs; nothing else reads it
	Log    *slog.Logger
}

// Session is an open workload: what its executions share, such as a launcher or a living server.
type Session interface {
	// Run carries out one (point, repeat) and fills r: outcome, reason, evidence, metrics, sizes, warnings. Every
	// ending is an outcome; there is no error to return. It returns soon after ctx ends, with what it knows and
	// with nothing of its own left running; context.Cause(ctx) says why. The samples go into the sidecar.
	Run(ctx context.Context, pair plan.Pair, r *result.Result) []result.Sample
	// Close ends what the executions shared. It is called once, after the last Run.
	Close() error
}

// Sizes are the sizes that a setting asks for; what really ran may be larger.
func Sizes(setting plan.Setting) result.Sizes {
	size := func(name string) *int64 {
		if n, ok := setting.Point[name].(int); ok {
			v := int64(n)
			return &v
		}
		return nil
	}
	return result.Sizes{Tokens: size("tokens"), Atoms: size("atoms"), MSA: size("msa"), Ranks: setting.Ranks, Topology: setting.Topology}
}

// SizesAt are the sizes that a search asks for with size n of the point; none where it cannot be evaluated there.
func (j Job) SizesAt(p plan.Point, n int64) result.Sizes {
	setting, err := j.Run.Plan.At(p, n)
	if err != nil {
		return result.Sizes{}
	}
	return Sizes(setting)
}
