package folder

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Start is what a worker has said first: when, where and as which job it began.
type Start struct {
	Time    time.Time `json:"time"`
	Job     string    `json:"job"`  // in the form 121_3; empty: not under Slurm
	Name    string    `json:"name"` // of the job; a person may have given it another one than its script does; empty: not known
	Node    string    `json:"node"`
	PID     int       `json:"pid"`
	Restart int       `json:"restart"`
}

// ArrayID is the id of the array that the job is a task of, or of a job that is none.
func (s Start) ArrayID() string {
	id, _, _ := strings.Cut(s.Job, "_")
	return id
}

// ReadStart reads the first line of the worker's log in a task's log folder, if it is there and whole.
func ReadStart(dir string) (Start, bool) {
	f, err := os.Open(filepath.Join(dir, EventsFile))
	if err != nil {
		return Start{}, false
	}
	defer f.Close()                               // read only
	line, _ := bufio.NewReader(f).ReadBytes('\n') // a line that was cut does not parse, and tells nothing
	var start Start
	return start, json.Unmarshal(line, &start) == nil
}

// FirstStarts reads the log of one task for each attempt at an array: all of them ran in the same place, as one job.
func (r *Run) FirstStarts() map[[2]int]Start {
	starts := map[[2]int]Start{}
	entries, err := os.ReadDir(r.LogsDir())
	if err != nil {
		return starts // nothing has started
	}
	for _, e := range entries {
		array, _, attempt, _, ok := ParseLogName(e.Name())
		if _, seen := starts[[2]int{array, attempt}]; !ok || seen {
			continue
		}
		if start, ok := ReadStart(filepath.Join(r.LogsDir(), e.Name())); ok {
			starts[[2]int{array, attempt}] = start
		}
	}
	return starts
}
