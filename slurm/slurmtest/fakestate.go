package slurmtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cpbench/slurm"
)

// stateDir returns the folder of the fake cluster, absolute.
func stateDir() (string, error) {
	dir := os.Getenv(stateEnv)
	if dir == "" {
		return "", fmt.Errorf("this is a fake, and %s names no folder", stateEnv)
	}
	return filepath.Abs(dir)
}

// jobDir is where a job is kept: slurm_script, its copy for bash; header, the text its options are read from; journal,
// a line for each change; pid, of its keeper while that lives.
func jobDir(state, id string) string { return filepath.Join(state, "jobs", id) }

// maxArraySize is the fake cluster's.
func maxArraySize() int {
	if n, err := strconv.Atoi(os.Getenv("CPBENCH_FAKE_MAXARRAY")); err == nil {
		return n
	}
	return 1001
}

// takeIDs returns the first of n job ids that no one else gets.
func takeIDs(state string, n int) (first int, err error) {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return 0, err
	}
	file, err := os.OpenFile(filepath.Join(state, "next"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return 0, err
	}
	// Fixed width, so that a new number covers the old one.
	if _, err := fmt.Fscanf(file, "%d", &first); err != nil {
		first = 1
	}
	_, err = file.WriteAt(fmt.Appendf(nil, "%012d\n", first+n), 0)
	return first, err
}

// taskJobID is a task's own job id: in Slurm the last one bears the array's.
func taskJobID(id string, indices []int, index int) string {
	at := slices.Index(indices, index)
	if at < 0 || at == len(indices)-1 {
		return id
	}
	n, _ := strconv.Atoi(id) // takeIDs made it
	return strconv.Itoa(n + 1 + at)
}

// journalLine is one change of one task, in the columns of entry.
func journalLine(index int, state slurm.TaskState) string {
	code, sig, _ := strings.Cut(state.Exit, ":")
	c, _ := strconv.Atoi(code) // none while it runs
	s, _ := strconv.Atoi(sig)
	return fmt.Sprintf("%d %s %d %d %s\n", index, state.State, c<<8|s, time.Now().Unix(), state.Node)
}

// entry is where a task stands.
type entry struct {
	index  int
	state  slurm.State
	status int   // raw wait status
	at     int64 // when it came to stand there, in Unix seconds
	node   string
	start  int64 // when it began to run; 0: it has not
}

// end is when it ended; 0: it has not.
func (e entry) end() int64 {
	if !e.state.Ended() {
		return 0
	}
	return e.at
}

// clock is a time as Slurm's commands print it, in the zone of the environment.
func clock(unix int64) string {
	if unix == 0 {
		return "N/A"
	}
	return time.Unix(unix, 0).Format("2006-01-02T15:04:05")
}

// readJournal returns the last entry of each task, in the order of their indices.
func readJournal(job string) ([]entry, error) {
	text, err := os.ReadFile(filepath.Join(job, "journal"))
	if err != nil {
		return nil, err
	}
	last := map[int]entry{}
	for line := range strings.Lines(string(text)) {
		var e entry
		// A node that is not known yet leaves the last column out.
		if n, err := fmt.Sscan(line, &e.index, &e.state, &e.status, &e.at, &e.node); n < 4 {
			return nil, fmt.Errorf("%s: %q: %w", job, line, err)
		}
		if e.start = last[e.index].start; e.state == slurm.Running && e.start == 0 {
			e.start = e.at
		}
		last[e.index] = e
	}
	var all []entry
	for _, e := range last {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return a.index - b.index })
	return all, nil
}
