package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrCut marks a list of indices whose end Slurm has left out. What it would have said is not known.
var ErrCut = errors.New("the list of indices is cut off")

// cut stands where Slurm leaves out the rest of a list.
const cut = "..."

// maxIndex is the largest MaxArraySize that Slurm itself can be configured for; indices end below it.
const maxIndex = 4_000_001

// JobID is a job id as Slurm's commands print it: 121, 121_3, 121_[5-6,8-9%1], 121+1 of a heterogeneous job, each with
// a step behind a dot.
type JobID struct {
	Job     string  // of the array, or of the job
	Index   int     // in the array; -1: none, or several
	Indices Indices // of a record that several tasks share
	Het     int     // offset in a heterogeneous job; -1: none
	Step    string  // such as 0, batch or extern; empty: the job itself
}

// Indices is a list of array indices as ranges. The zero value holds none.
type Indices []Range

// Range is the indices First, First+Step, ... up to Last.
type Range struct{ First, Last, Step int }

// Contains reports whether the list names index.
func (l Indices) Contains(index int) bool {
	for _, r := range l {
		if index >= r.First && index <= r.Last && (index-r.First)%r.Step == 0 {
			return true
		}
	}
	return false
}

// ParseJobID reads a job id. A list of indices that was cut off is ErrCut.
func ParseJobID(text string) (JobID, error) {
	if strings.Contains(text, cut) {
		return JobID{}, fmt.Errorf("%q: %w", text, ErrCut)
	}
	id := JobID{Index: -1, Het: -1}
	rest, step, stepped := strings.Cut(text, ".")
	if id.Step = step; stepped && step == "" {
		return JobID{}, fmt.Errorf("%q is no job id: no step behind its dot", text)
	}
	rest, het, isHet := strings.Cut(rest, "+")
	job, index, isTask := strings.Cut(rest, "_")
	var err error
	if _, err = number(job); err != nil {
		return JobID{}, fmt.Errorf("%q is no job id: %w", text, err)
	}
	id.Job = job
	if isHet {
		if id.Het, err = number(het); err != nil {
			return JobID{}, fmt.Errorf("%q is no job id: %w", text, err)
		}
	}
	list, open := strings.CutPrefix(index, "[")
	switch {
	case !isTask:
	case open:
		inner, closed := strings.CutSuffix(list, "]")
		if !closed {
			return JobID{}, fmt.Errorf("%q is no job id: no closing bracket", text)
		}
		id.Indices, err = ParseIndices(inner)
	default:
		id.Index, err = taskIndex(index)
	}
	if err != nil {
		return JobID{}, fmt.Errorf("%q is no job id: %w", text, err)
	}
	return id, nil
}

// ParseIndices reads a list such as 5-6,8-9%1 or 1-9:2; the throttle behind % is left out. A list that was cut off is
// ErrCut.
func ParseIndices(text string) (Indices, error) {
	if strings.Contains(text, cut) {
		return nil, fmt.Errorf("%q: %w", text, ErrCut)
	}
	list, throttle, throttled := strings.Cut(text, "%")
	if throttled {
		if _, err := number(throttle); err != nil {
			return nil, fmt.Errorf("throttle of %q: %w", text, err)
		}
	}
	var all Indices
	for item := range strings.SplitSeq(list, ",") {
		r, err := parseRange(item)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// parseRange reads N, N-M or N-M:STEP.
func parseRange(item string) (Range, error) {
	bounds, step, stepped := strings.Cut(item, ":")
	first, last, ranged := strings.Cut(bounds, "-")
	r := Range{Step: 1}
	var err error
	if r.First, err = taskIndex(first); err != nil {
		return r, err
	}
	r.Last = r.First
	if ranged {
		if r.Last, err = taskIndex(last); err != nil {
			return r, err
		}
	}
	if stepped {
		if r.Step, err = taskIndex(step); err != nil {
			return r, err
		}
	}
	if r.Last < r.First || r.Step == 0 || stepped && !ranged {
		return r, fmt.Errorf("%q is no range of indices", item)
	}
	r.Last -= (r.Last - r.First) % r.Step
	return r, nil
}

func taskIndex(text string) (int, error) {
	n, err := number(text)
	if err == nil && n >= maxIndex {
		err = fmt.Errorf("%q is no index below %d", text, maxIndex)
	}
	return n, err
}

// number reads digits alone: no sign, no blank.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return int(n), nil
}
