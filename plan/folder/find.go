package folder

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Newest opens the newest run below parent in which something has started: a worker's log or a submitted job.
func Newest(parent string) (*Run, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("no runs here: %w; plan a sweep first, or name a run", err)
	}
	type candidate struct{ dir, stamp string }
	var runs []candidate
	for _, e := range entries {
		if i := strings.LastIndex(e.Name(), "-2"); e.IsDir() && i > 0 {
			runs = append(runs, candidate{filepath.Join(parent, e.Name()), e.Name()[i+1:]})
		}
	}
	slices.SortFunc(runs, func(a, b candidate) int { return strings.Compare(b.stamp, a.stamp) })
	var first error
	for _, c := range runs {
		r := &Run{Dir: c.dir}
		if !r.started() {
			continue
		}
		opened, err := Open(c.dir)
		if err == nil {
			return opened, nil
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return nil, first
	}
	return nil, fmt.Errorf("no run in %s has started yet: submit its script, or name the run", parent)
}

// started reports whether a task of the run has begun or a job was submitted.
func (r *Run) started() bool {
	if _, err := os.Stat(r.path("jobs.jsonl")); err == nil {
		return true
	}
	logs, err := os.ReadDir(r.LogsDir())
	return err == nil && len(logs) > 0
}
