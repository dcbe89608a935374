package collect

import (
	"errors"
	"os"
	"slices"

	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"

	"golang.org/x/sys/unix"
)

type taskKey struct {
	run         *folder.Run
	array, task int
}

// Judge gives every execution its verdict anew. states is asked once for each task: it gets what the run folder alone
// tells and returns what is known with the scheduler's help. The folder is looked at only for a task that is not
// wholly measured.
func (s *Set) Judge(states func(run *folder.Run, array, task int, files State) State) {
	tasks := map[taskKey][]int{}
	var order []taskKey
	if s.seen == nil {
		s.seen = map[taskKey]State{}
	}
	for i, p := range s.Pairs {
		k := taskKey{p.Run, p.Array, p.Task}
		if tasks[k] == nil {
			order = append(order, k)
		}
		tasks[k] = append(tasks[k], i)
	}
	for _, k := range order {
		pairs := tasks[k]
		results := make([]*result.Result, len(pairs))
		for j, i := range pairs {
			results[j] = s.Pairs[i].Result.brief()
		}
		state := states(k.run, k.array, k.task, s.fileState(k, results))
		// One of the task's programs is known to be what was killed.
		state.KillExplained = state.KillExplained || slices.ContainsFunc(pairs, func(i int) bool {
			x := s.Pairs[i].Result
			return x != nil && (x.Outcome == catalogue.OOMHost || x.killed)
		})
		var kept *State
		if state.Word != "" || state != (State{}) && needsState(results) {
			kept = &state
		}
		outcomes, reasons := taskVerdicts(results, state)
		for j, i := range pairs {
			s.Pairs[i].Outcome, s.Pairs[i].Reason, s.Pairs[i].State = outcomes[j], reasons[j], kept
			if why, ok := s.spoiled[pairKey{s.Pairs[i].Point.ID, s.Pairs[i].Repeat}]; ok && results[j] == nil && outcomes[j] == catalogue.Missing {
				s.Pairs[i].Reason = "its result file cannot be used: " + why
			}
		}
	}
}

// fileState is what the folder tells of a task: its logs, which are looked at once, and only if something in it is not
// measured well, and the results.
func (s *Set) fileState(k taskKey, results []*result.Result) State {
	known, ok := s.seen[k]
	if !ok && needsState(results) {
		known = s.fromFiles(k.run, k.array, k.task)
		s.seen[k] = known
	}
	for _, r := range results {
		if r != nil && (r.Attempt > known.Attempt || r.Attempt == known.Attempt && r.Restart > known.Restart) {
			known = State{Started: true, Attempt: r.Attempt, Restart: r.Restart}
		}
	}
	return known
}

// needsState reports whether something in the task is not measured well.
func needsState(results []*result.Result) bool {
	for _, r := range results {
		if r == nil || !r.Outcome.Fits() {
			return true
		}
	}
	return false
}

// newestLogs lists the newest attempt and restart of every task that has a log folder.
func newestLogs(run *folder.Run) map[[2]int][2]int {
	newest := map[[2]int][2]int{}
	entries, err := os.ReadDir(run.LogsDir())
	if err != nil {
		return newest // nothing has started
	}
	for _, e := range entries {
		array, task, attempt, restart, ok := folder.ParseLogName(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		key, at := [2]int{array, task}, [2]int{attempt, restart}
		if old, ok := newest[key]; !ok || at[0] > old[0] || at[0] == old[0] && at[1] > old[1] {
			newest[key] = at
		}
	}
	return newest
}

// NewestLog returns the newest attempt and restart of a task that has left a log folder, if one has.
func NewestLog(run *folder.Run, array, task int) (attempt, restart int, ok bool) {
	at, ok := newestLogs(run)[[2]int{array, task}]
	return at[0], at[1], ok
}

// Begun reports whether a task of a run has started, by its log folder.
func (s *Set) Begun(run *folder.Run, array, task int) bool {
	if s.logs[run] == nil {
		if s.logs == nil {
			s.logs = map[*folder.Run]map[[2]int][2]int{}
		}
		s.logs[run] = newestLogs(run)
	}
	_, ok := s.logs[run][[2]int{array, task}]
	return ok
}

// fromFiles is what the run folder tells about a task: whether it started, where and when.
func (set *Set) fromFiles(run *folder.Run, array, task int) State {
	if !set.Begun(run, array, task) {
		return State{}
	}
	return begun(run, array, task, set.logs[run][[2]int{array, task}])
}

// FolderState is what the logs of a run tell about a task, without its results: whether it started, where and when.
func FolderState(run *folder.Run, array, task int) State {
	at, ok := newestLogs(run)[[2]int{array, task}]
	if !ok {
		return State{}
	}
	return begun(run, array, task, at)
}

// begun is the state of a task by its newest attempt and restart with a log.
func begun(run *folder.Run, array, task int, at [2]int) State {
	s := State{Started: true, Attempt: at[0], Restart: at[1]}
	// The folder is there, so the task has started; where may not be known.
	if start, ok := ReadStart(run.LogDir(array, task, at[0], at[1])); ok {
		s.Node, s.Since = start.Node, start.Time
	}
	return s
}

// Start is what a worker has said first: when, where and as which job it began.
type Start struct{ folder.Start }

// ReadStart reads the first line of the worker's log in a task's log folder, if it is there and whole.
func ReadStart(dir string) (Start, bool) {
	start, ok := folder.ReadStart(dir)
	return Start{start}, ok
}

// Alive tells whether the worker still is a process of this machine. It is known only of one that ran here, without a
// scheduler.
func (s Start) Alive() (alive, known bool) {
	host, err := os.Hostname()
	if err != nil || s.PID == 0 || s.Job != "" || s.Node != host {
		return false, false
	}
	return !errors.Is(unix.Kill(s.PID, 0), unix.ESRCH), true
}
