package worker

import (
	"os"
	"slices"
	"strings"

	"cpbench/plan"
)

// Environ is the environment of a workload's programs: this process's, then the spec's, with the frozen files first
// on PYTHONPATH. Of two values of one name the last counts.
func (j Job) Environ(setting plan.Setting) []string {
	env := os.Environ()
	for name, value := range setting.Env {
		env = append(env, name+"="+value)
	}
	path := os.Getenv("PYTHONPATH")
	if own, ok := setting.Env["PYTHONPATH"]; ok {
		path = own
	}
	lib := j.Run.Lib()
	if path != "" {
		lib += string(os.PathListSeparator) + path
	}
	return append(env, "PYTHONPATH="+lib)
}

// misleading are the variables of a batch step that make a program believe that srun has started it.
var misleading = []string{"SLURM_PROCID=", "SLURM_LOCALID=", "SLURM_NODEID=", "SLURM_NTASKS=", "SLURM_NPROCS=", "SLURM_TASK_PID=", "SLURM_GTIDS=", "SLURM_STEP"}

// OutsideStep takes the variables out of an environment by which a program that this process starts would believe
// that srun has started it.
func OutsideStep(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return slices.ContainsFunc(misleading, func(m string) bool { return strings.HasPrefix(kv, m) })
	})
}
