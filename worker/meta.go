package worker

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"golang.org/x/sys/unix"
)

// Allocation is what the scheduler has given the task; cmd maps it from the environment. Zero values are unknown.
type Allocation struct {
	Job       string // id of the job, <array>_<task> for a task of an array
	Restart   int    // how often the scheduler has started this job again
	Partition string
	Nodes     string   // in the scheduler's own compact form
	Hosts     []string // their names, this one first; nil for a single node
	Count     int      // tasks of the array that really runs
	End       time.Time
}

// provenance gathers the facts about machine and software that are the same for every result of a task. A source
// that is missing leaves its key out: absent means unknown.
func provenance(cfg Config) map[string]string {
	facts := map[string]string{"cpbench": cfg.Version, "go": runtime.Version()}
	set := func(key, value string) {
		if value != "" {
			facts[key] = value
		}
	}
	if host, err := os.Hostname(); err == nil {
		set("host", host)
	}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		set("kernel", unix.ByteSliceToString(uts.Release[:]))
	}
	set("cpu", cpuModel())
	if n := allowedCPUs(); n > 0 {
		set("cpus_allowed", strconv.Itoa(n))
	}
	set("slurm_job", cfg.Alloc.Job)
	set("slurm_partition", cfg.Alloc.Partition)
	set("slurm_nodes", cfg.Alloc.Nodes)
	if cfg.Alloc.Job != "" && cfg.Run.Plan.Arrays[cfg.Array].Shape.Exclusive {
		set("node_shared", "no")
	}
	return facts
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(data) {
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// allowedCPUs is the number of CPUs on which this process may run; 0 if that cannot be read.
func allowedCPUs() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 0
	}
	return set.Count()
}

// doubts adds the warnings that hold for every result of the task.
func (w *worker) doubts(r *result.Result) {
	asked := w.cfg.Run.Plan.Arrays[w.cfg.Array].Shape.CPUsPerTask
	if have := allowedCPUs(); have > 0 && have < asked {
		r.Warn(catalogue.FewCPUs, fmt.Sprintf("%d CPUs were asked for, but the task may use %d", asked, have),
			"times may be longer than on a whole allocation")
	}
	if n := w.cfg.Alloc.Count; n > len(w.cfg.Run.Plan.Arrays[w.cfg.Array].Lengths) {
		r.Warn(catalogue.ArrayDiffers, fmt.Sprintf("the array that ran has %d tasks, the planned one %d", n,
			len(w.cfg.Run.Plan.Arrays[w.cfg.Array].Lengths)), "was --array given to sbatch?")
	}
}
