package folder

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stamped is the end of a run's name; see Create.
var stamped = regexp.MustCompile(`-(\d{8}T\d{6}Z)(?:-(\d+))?$`)

// Newest opens the newest run below parent in which something has started: a worker's log or a submitted job.
func Newest(parent string) (*Run, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("no runs here: %w; plan a sweep first, or name a run", err)
	}
	type candidate struct {
		dir, stamp string
		count      int // of the runs of one second
	}
	var runs []candidate
	for _, e := range entries {
		if m := stamped.FindStringSubmatch(e.Name()); e.IsDir() && m != nil {
			count, _ := strconv.Atoi(m[2]) // none is 0
			runs = append(runs, candidate{filepath.Join(parent, e.Name()), m[1], count})
		}
	}
	slices.SortFunc(runs, func(a, b candidate) int {
		return cmp.Or(strings.Compare(b.stamp, a.stamp), cmp.Compare(b.count, a.count))
	})
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
	if _, err := os.Stat(r.JobsFile()); err == nil {
		return true
	}
	logs, err := os.ReadDir(r.LogsDir())
	return err == nil && len(logs) > 0
}

// Created is when the run was planned, by the stamp in its name; zero if it was given another name.
func (r *Run) Created() time.Time {
	m := stamped.FindStringSubmatch(r.Name())
	if m == nil {
		return time.Time{}
	}
	at, err := time.Parse(stampForm, m[1])
	if err != nil {
		return time.Time{}
	}
	return at
}
