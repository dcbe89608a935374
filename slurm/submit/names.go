package submit

import (
	"os"
	"time"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/ledger"
)

func arrayOf(job ledger.Job) *int {
	if job.Array == ledger.Collect {
		return nil
	}
	return &job.Array
}

// named is one job that a run may have.
type named struct {
	name           string
	key            string // by which the answer is searched for it: its name, or its id where the name is not ours alone
	array, attempt int
}

// names lists the jobs that a run may have: those of its scripts, also where a person gave them to sbatch, maybe under
// another name, and those of its ledger.
func names(run *folder.Run, jobs []ledger.Job) []named {
	var all []named
	starts := run.FirstStarts()
	for i := range run.Plan.Arrays {
		for n := 1; n <= run.Attempts(i); n++ {
			name := slurm.Job{Run: run, Array: i, Attempt: n}.Name()
			all = append(all, named{name, name, i, n})
			if start := starts[[2]int{i, n}]; start.Job != "" && start.Name != "" && start.Name != name {
				all = append(all, named{start.Name, start.ArrayID(), i, n})
			}
		}
	}
	for _, j := range jobs {
		if j.Array == ledger.Collect {
			all = append(all, named{j.Name, j.Name, j.Array, j.Attempt})
		}
	}
	return all
}

// since is a day before the run was made: clocks differ.
func since(run *folder.Run, jobs []ledger.Job) time.Time {
	first := time.Now()
	if info, err := os.Stat(run.PlanFile()); err == nil && info.ModTime().Before(first) {
		first = info.ModTime()
	}
	for _, j := range jobs {
		if !j.Asked.IsZero() && j.Asked.Before(first) {
			first = j.Asked
		}
	}
	return first.Add(-24 * time.Hour)
}

// Tries counts the attempts at a task so far: those that the ledger knows to have been submitted, and those that left a
// log.
func (s *Session) Tries() map[[2]int]int {
	seen := map[[3]int]bool{}
	for _, j := range s.Jobs() {
		if j.Array != ledger.Collect && (j.In() || j.Open()) {
			for _, task := range j.Tasks {
				seen[[3]int{j.Array, task, j.Attempt}] = true
			}
		}
	}
	for at := range s.withLogs() {
		seen[at] = true
	}
	tries := map[[2]int]int{}
	for at := range seen {
		tries[[2]int{at[0], at[1]}]++
	}
	return tries
}

// withLogs lists the attempts that have left a log, as array, task and attempt.
func (s *Session) withLogs() map[[3]int]bool {
	if s.logs != nil {
		return s.logs
	}
	s.logs = map[[3]int]bool{}
	entries, err := os.ReadDir(s.Run.LogsDir())
	if err != nil {
		return s.logs // nothing has started
	}
	for _, e := range entries {
		if array, task, attempt, _, ok := folder.ParseLogName(e.Name()); ok {
			s.logs[[3]int{array, task, attempt}] = true
		}
	}
	return s.logs
}
