package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Snapshot is what Slurm said at one moment.
type Snapshot struct {
	Taken        time.Time // before the first call
	Queue        bool      // squeue has answered
	Accounting   bool      // sacct has answered
	NoAccounting bool      // the site keeps none
	Notes        []string  // doubts about the answers, each once

	arrays []*array // by age
}

// array is one submission: a job id under a name. The id alone does not do: a controller that crashes may give it
// to another job.
type array struct {
	id, name string
	submit   time.Time
	own      map[int]Task // rows of one task, and under -1 one that names no index
	shared   []row        // records that several tasks share
}

// rows parses the lines of a command and leaves out what was not asked for. A line that cannot be read costs itself
// alone, and a note.
func (s *Snapshot) rows(command, out string, q Query, parse func(string) (row, error)) []row {
	var rows []row
	var first error
	bad := 0
	for line := range strings.Lines(out) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) == "" {
			continue
		}
		r, err := parse(line)
		if err != nil {
			if bad++; first == nil {
				first = fmt.Errorf("%q: %w", line, err)
			}
			continue
		}
		if q.wants(r.Task) {
			rows = append(rows, r)
		}
	}
	if bad > 0 {
		s.note("%s: %d lines cannot be read; the first is %v", command, bad, first)
	}
	return rows
}

func (s *Snapshot) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// merge files the rows under their arrays. The controller's word beats accounting's, which lags behind it by seconds.
func (s *Snapshot) merge(queued, booked []row) {
	type key struct{ id, name string }
	known := map[key]*array{}
	file := func(r row) {
		k := key{r.Array, r.Name}
		a := known[k]
		if a == nil {
			a = &array{id: r.Array, name: r.Name, submit: r.Submit, own: map[int]Task{}}
			known[k] = a
			s.arrays = append(s.arrays, a)
		}
		if r.Submit.Before(a.submit) {
			a.submit = r.Submit
		}
		if r.shared != nil {
			a.shared = append(a.shared, r)
			return
		}
		if old, ok := a.own[r.Index]; !ok || newer(r.Task, old) {
			a.own[r.Index] = r.Task
		}
	}
	for _, r := range queued {
		file(r)
	}
	for _, r := range booked {
		file(r)
	}
	slices.SortFunc(s.arrays, func(a, b *array) int {
		return cmp.Or(a.submit.Compare(b.submit), cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id))
	})
}

// newer reports whether a row says more than an older one of the same task.
func newer(t, old Task) bool {
	if t.Live != old.Live {
		return t.Live
	}
	return cmp.Or(t.Submit.Compare(old.Submit), t.Start.Compare(old.Start)) > 0
}

// IDs returns the ids of the jobs of a name, the oldest first.
func (s *Snapshot) IDs(name string) []string {
	var ids []string
	for _, a := range s.arrays {
		if a.name == name {
			ids = append(ids, a.id)
		}
	}
	return ids
}

// Known reports whether Slurm knows a job by its name or its id.
func (s *Snapshot) Known(key string) bool {
	return slices.ContainsFunc(s.arrays, func(a *array) bool { return a.id == key || a.name == key })
}

// Lists reports whether the controller itself has told of some task of a job, by its name or its id. It then tells of
// every one that waits.
func (s *Snapshot) Lists(key string) bool {
	return slices.ContainsFunc(s.arrays, func(a *array) bool {
		if a.id != key && a.name != key {
			return false
		}
		for _, t := range a.own {
			if t.Live {
				return true
			}
		}
		return slices.ContainsFunc(a.shared, func(r row) bool { return r.Live })
	})
}

// Tasks returns the tasks of the jobs with a name or an id that have a row of their own, the older submission first and
// then by index. Records that several tasks share are not spread out: see Find.
func (s *Snapshot) Tasks(key string) []Task {
	var all []Task
	for _, a := range s.arrays {
		if a.id != key && a.name != key {
			continue
		}
		for _, index := range slices.Sorted(maps.Keys(a.own)) {
			if index >= 0 || len(a.own) == 1 && len(a.shared) == 0 {
				all = append(all, a.own[index])
			}
		}
	}
	return all
}

// Find returns what is known about one task, by its name or id and its index, of the newest submission that has it.
// Not found means not known, and never that the task is lost: accounting's rows come seconds late, and a waiting task
// that was cancelled has none. A task that is found, has not ended and is not Live stands in accounting alone: the
// controller does not know it, so either the end has not been booked yet or the job was lost.
func (s *Snapshot) Find(key string, index int) (Task, bool) {
	for _, a := range slices.Backward(s.arrays) {
		if a.id != key && a.name != key {
			continue
		}
		if t, ok := a.find(index, s.Queue); ok {
			return t, true
		}
	}
	return Task{}, false
}

// find looks for the task's own row, then for a record that it shares. queue says that the controller has answered:
// then what waits stands in its answer, and accounting's records of waiting tasks are stale.
func (a *array) find(index int, queue bool) (Task, bool) {
	if t, ok := a.own[index]; ok {
		return t, true
	}
	for _, r := range a.shared {
		if r.shared.Contains(index) && (r.Live || r.Ended() || !queue) {
			t := r.Task
			t.Index = index
			return t, true
		}
	}
	// A row without index is true of all tasks while none has begun: of a held array that was cancelled, or right after
	// the submission. Otherwise it is a state of the books on their way: one task's end, under the array's own id.
	bare, ok := a.own[-1]
	if ok && index >= 0 && bare.Start.IsZero() && (bare.Ended() || !queue) {
		bare.Index = index
		return bare, true
	}
	return Task{}, false
}
