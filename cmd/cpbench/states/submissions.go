package states

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"cpbench/collect"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/ledger"
)

// submissions are the attempts at the arrays of a run.
type submissions struct {
	endings *collect.Endings
	doubts  []error        // files of the run that cannot be read
	hidden  bool           // Slurm may not tell of the jobs: they are another user's, or go by a name that the folder no longer has
	arrays  [][]submission // by array; the newest attempt first
}

// submission is one attempt at an array.
type submission struct {
	attempt   int
	name      string // of the job
	id        string // of the job, where its name is not ours alone; else empty
	tasks     []int  // that sbatch took, as the ledger has it; nil: not known
	cancelled bool   // by cpbench cancel
	asked     time.Time
	here      bool // it has run on this machine, without Slurm
}

// createdAt is when a run was planned; of a run with another name, when its plan was written.
func createdAt(run *folder.Run) time.Time {
	if at := run.Created(); !at.IsZero() {
		return at
	}
	info, err := os.Stat(run.PlanFile())
	if err != nil {
		return time.Now()
	}
	return info.ModTime()
}

// submissionsOf lists the attempts that have a script, with what the ledger and the workers' logs tell of them.
func submissionsOf(run *folder.Run) *submissions {
	subs := &submissions{arrays: make([][]submission, len(run.Plan.Arrays)), hidden: foreign(run.Dir) || run.Created().IsZero()}
	var err error
	if subs.endings, err = collect.ReadEndings(run); err != nil {
		subs.doubts = append(subs.doubts, err)
	}
	jobs, err := ledger.Read(run.JobsFile())
	if err != nil { // its jobs are looked up by the names of the scripts
		subs.doubts = append(subs.doubts, err)
	}
	starts := run.FirstStarts()
	for array := range run.Plan.Arrays {
		for attempt := run.Attempts(array); attempt > 0; attempt-- {
			sub := submission{attempt: attempt, name: slurm.Job{Run: run, Array: array, Attempt: attempt}.Name()}
			start, started := starts[[2]int{array, attempt}]
			sub.here = started && start.Job == ""
			sub.booked(array, jobs)
			if start.Job != "" && start.Name != "" && start.Name != sub.name && sub.tasks == nil {
				sub.name, sub.id = start.Name, start.ArrayID() // a person has given it another name
			}
			subs.arrays[array] = append(subs.arrays[array], sub)
		}
	}
	return subs
}

// key is by what the answer is searched for the job.
func (s *submission) key() string { return cmp.Or(s.id, s.name) }

// booked takes in what the ledger has about the attempt.
func (s *submission) booked(array int, jobs []ledger.Job) {
	for _, j := range jobs {
		if j.Array != array || j.Attempt != s.attempt {
			continue
		}
		s.name, s.asked, s.cancelled = j.Name, j.Asked, j.Event == ledger.Cancelled
		if j.In() {
			s.tasks = j.Tasks
		}
	}
}

// foreign reports whether a folder is another user's. root sees all jobs.
func foreign(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getuid() != 0 && int(stat.Uid) != os.Getuid()
}

// names lists the jobs that Slurm could know, unless the final state of every task is kept already.
func (s *submissions) names(run *folder.Run) []string {
	var names []string
	open := false
	for array, subs := range s.arrays {
		for _, sub := range subs {
			if !sub.here {
				names = append(names, sub.name)
			}
		}
		for task := range run.Plan.Arrays[array].Lengths {
			if len(subs) > 0 && !open {
				_, kept := s.endings.Of(collect.Attempt{Array: array, Task: task, Attempt: subs[0].attempt})
				open = !kept
			}
		}
	}
	if !open {
		return nil
	}
	return names
}

// lastLine is the last line of a log that is not blank, cut to what fits into a reason. Slurm's word that it has ended
// the task for its memory comes first, wherever it stands.
func lastLine(path string) string {
	const look, most = 4096, 200
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(info.Size(), look))
	n, _ := f.ReadAt(text, info.Size()-int64(len(text))) // what was read counts
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(text[:n]), "?")), "\n")
	line := lines[len(lines)-1]
	if i := slices.IndexFunc(lines, collect.OverMemory); i >= 0 {
		line = lines[i]
	}
	last := []rune(strings.TrimSpace(line))
	if len(last) > most {
		return string(last[:most]) + "..."
	}
	return string(last)
}
