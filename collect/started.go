package collect

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// Judge gives every execution its verdict anew. states is asked once for each task: it gets what the run folder alone
// tells and returns what is known with the scheduler's help. The folder is looked at only for a task that is not
// wholly measured.
func (s *Set) Judge(states func(run *folder.Run, array, task int, files State) State) {
	type taskKey struct {
		run         *folder.Run
		array, task int
	}
	tasks := map[taskKey][]int{}
	var order []taskKey
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
		var state State
		if needsState(results) {
			state = s.fromFiles(k.run, k.array, k.task)
		}
		state = states(k.run, k.array, k.task, state)
		outcomes, reasons := taskVerdicts(results, state)
		for j, i := range pairs {
			s.Pairs[i].Outcome, s.Pairs[i].Reason = outcomes[j], reasons[j]
			if why, ok := s.spoiled[pairKey{s.Pairs[i].Point.ID, s.Pairs[i].Repeat}]; ok && results[j] == nil && outcomes[j] == catalogue.Missing {
				s.Pairs[i].Reason = "its result file cannot be used: " + why
			}
		}
	}
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
	s := State{}
	if !set.Begun(run, array, task) {
		return s
	}
	at := set.logs[run][[2]int{array, task}]
	s.Started, s.Attempt, s.Restart = true, at[0], at[1]
	f, err := os.Open(filepath.Join(run.LogDir(array, task, at[0], at[1]), folder.EventsFile))
	if err != nil {
		return s // the folder is there, so the task has started; where is not known
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadBytes('\n') // a line that was cut does not parse, and tells nothing
	var start struct {
		Time time.Time `json:"time"`
		Node string    `json:"node"`
	}
	if json.Unmarshal(line, &start) == nil {
		s.Node, s.Since = start.Node, start.Time
	}
	return s
}
