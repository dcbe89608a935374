package submit

import (
	"fmt"
	"strings"

	"cpbench/plan/folder"
	"cpbench/slurm"
)

// DryRun lists what Submit would call, as lines for a shell, each id in a variable.
func (s *Session) DryRun(wants []Want, opt Options) ([]string, error) {
	collect, err := s.collectAttempt()
	if err != nil {
		return nil, err
	}
	return dryRun(s.Run, wants, opt, collect, func(w Want) int {
		job := slurm.Job{Run: s.Run, Array: w.Array, Attempt: s.Run.Attempts(w.Array)}
		if job.Attempt > 0 && s.used(job) || len(w.Again) > 0 {
			return job.Attempt + 1
		}
		return max(job.Attempt, 1)
	})
}

// DryRun lists the calls for a run that is not there yet.
func DryRun(run *folder.Run, wants []Want, opt Options) ([]string, error) {
	return dryRun(run, wants, opt, 1, func(Want) int { return 1 })
}

func dryRun(run *folder.Run, wants []Want, opt Options, collect int, attempt func(Want) int) ([]string, error) {
	spec := run.Plan.Spec.Slurm
	throttles, exclude := share(spec.Parallel, wants), excluded(spec.Exclude, opt.Exclude)
	var lines []string
	var vars strings.Builder
	for i, w := range wants {
		text, err := slurm.ShellLine(slurm.SubmitArgs(run.Script(w.Array, attempt(w)), options(w, throttles[i], exclude)...))
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("job%d=$(%s)", w.Array, text))
		fmt.Fprintf(&vars, `:"$job%d"`, w.Array)
	}
	if len(wants) == 0 {
		return nil, nil
	}
	script, err := slurm.ShellWord(run.CollectScript(collect))
	if err != nil {
		return nil, err
	}
	return append(lines, "sbatch --parsable --dependency=afterany"+vars.String()+" --kill-on-invalid-dep=yes "+script), nil
}
