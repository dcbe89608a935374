package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/provenance"
	"cpbench/worker/result"
)

// Allocation is what the scheduler has given the task; cmd maps it from the environment. Zero values are unknown.
type Allocation struct {
	Job       string // id of the job, <array>_<task> for a task of an array
	Name      string // of the job
	Restart   int    // how often the scheduler has started this job again
	Partition string
	Nodes     string   // in the scheduler's own compact form
	Hosts     []string // their names, this one first; nil for a single node
	Count     int      // tasks of the array that really runs
	End       time.Time
}

// gather looks up the provenance that all results of the task have in common.
func (w *worker) gather() *provenance.Record {
	a := w.cfg.Alloc
	return provenance.Gather(provenance.Task{
		Plan: w.cfg.Run.Plan, Task: w.task, Version: w.cfg.Version, Job: a.Job, Partition: a.Partition, Nodes: a.Nodes, Restart: a.Restart,
		Environ: os.Environ(), Root: "/", File: filepath.Join(w.logDir, folder.FactsFile),
	})
}

// doubts adds the warnings that hold for every result of the task.
func (w *worker) doubts(r *result.Result) {
	asked := w.cfg.Run.Plan.Arrays[w.cfg.Array].Shape.CPUsPerTask
	if have := provenance.AllowedCPUs(); have > 0 && have < asked {
		r.Warn(catalogue.FewCPUs, fmt.Sprintf("%d CPUs were asked for, but the task may use %d", asked, have),
			"times may be longer than on a whole allocation")
	}
	if n := w.cfg.Alloc.Count; n > len(w.cfg.Run.Plan.Arrays[w.cfg.Array].Lengths) {
		r.Warn(catalogue.ArrayDiffers, fmt.Sprintf("the array that ran has %d tasks, the planned one %d", n,
			len(w.cfg.Run.Plan.Arrays[w.cfg.Array].Lengths)), "was --array given to sbatch?")
	}
}
