package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Collect stands for the number of an array in the job that collects.
const Collect = -1

// Job is what all lines about one job say.
type Job struct {
	Name    string
	Array   int // or Collect
	Attempt int
	Tasks   []int // indices that were asked for, sorted; nil of a collect job
	Argv    []string
	Event   Event     // the last one
	ID      string    // counts only together with Name; empty: not known
	Asked   time.Time // when sbatch was last about to be called
	Changed time.Time // time of the last line
	Reason  string
}

// In reports whether the job was taken by Slurm, as far as the ledger knows.
func (j *Job) In() bool { return j.Event == Submitted || j.Event == Cancelled }

// Open reports whether the ledger does not know if the job was taken.
func (j *Job) Open() bool { return j.Event == Submitting || j.Event == Unknown }

// Find returns the job of that name, or nil.
func Find(jobs []Job, name string) *Job {
	for i := range jobs {
		if jobs[i].Name == name {
			return &jobs[i]
		}
	}
	return nil
}

// apply adds what a line says.
func apply(jobs []Job, line Line) []Job {
	j := Find(jobs, line.Name)
	if j == nil {
		array := Collect
		if line.Array != nil {
			array = *line.Array
		}
		jobs = append(jobs, Job{Name: line.Name, Array: array, Attempt: line.Attempt})
		j = &jobs[len(jobs)-1]
	}
	j.Event, j.Reason, j.Changed = line.Event, line.Reason, line.Time
	if line.Event == Submitting {
		j.Asked, j.Argv, j.ID = line.Time, line.Argv, ""
		j.Tasks, _ = ParseRanges(line.Tasks) // of a line that somebody edited as much as can be read
	}
	if line.ID != "" {
		j.ID = line.ID
	}
	return jobs
}

// ParseRanges reads sorted indices that stand as 0-4,7.
func ParseRanges(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if errFrom != nil || errTo != nil || from < 0 || to < from || to-from > 1<<22 {
			return out, fmt.Errorf("%q is no range of indices", part)
		}
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
