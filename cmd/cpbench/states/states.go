// Package states is what Slurm says about the tasks of runs, and what it said before, as the states that collect judges by:
// use Ask before the results are listed, or From for an answer that is there already, and Told.Of for each task.
package states

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cpbench/collect"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/record"
)

// grace is how long after a task's end a shared file system may still hide its result, and how long after a submission
// Slurm may not yet show it.
const grace = 120 * time.Second

// Told is what Slurm says about the tasks of some runs, and what it said before.
type Told struct {
	Snapshot *record.Snapshot // nil: not asked, or no answer
	Taken    time.Time        // when it was asked
	Err      error            // why there is no answer; nil where nobody was asked

	runs map[*folder.Run]*submissions
}

// Remember gathers what the run folders tell about their jobs, without asking anybody.
func Remember(runs []*folder.Run) *Told {
	t := &Told{Taken: time.Now(), runs: map[*folder.Run]*submissions{}}
	for _, run := range runs {
		t.runs[run] = submissionsOf(run)
	}
	return t
}

// From takes the answer that somebody has got about a run.
func From(run *folder.Run, snap *record.Snapshot) *Told {
	t := Remember([]*folder.Run{run})
	t.Snapshot, t.Taken = snap, snap.Taken
	return t
}

// Ask asks squeue and sacct once each about all jobs of the runs. It has to come before the results are listed:
// else a task that ends in between seems to have left none. No squeue on PATH, or no job that Slurm could know, is no
// error: then the files and what was kept decide.
func Ask(ctx context.Context, runs []*folder.Run) *Told {
	t := Remember(runs)
	var names []string
	var since time.Time
	for _, run := range runs {
		mine := t.runs[run].names(run)
		names = append(names, mine...)
		// A day earlier, because clocks differ.
		if at := createdAt(run).AddDate(0, 0, -1); len(mine) > 0 && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	if _, err := exec.LookPath("squeue"); err != nil || len(names) == 0 {
		return t
	}
	t.Snapshot, t.Err = record.Ask(ctx, &slurm.Slurm{}, record.Query{Names: names, Since: since})
	return t
}

// whole reports whether everything that Slurm remembers has been said: only then does its silence mean anything.
func (t *Told) whole() bool {
	return t.Snapshot != nil && t.Snapshot.Queue && (t.Snapshot.Accounting || t.Snapshot.NoAccounting)
}

// Of is what is known about a task: the newest attempt that Slurm or the files know of decides.
func (t *Told) Of(run *folder.Run, array, task int, files collect.State) collect.State {
	for _, sub := range t.runs[run].arrays[array] {
		if files.Attempt > sub.attempt {
			break
		}
		var mine collect.State // what the files tell of this attempt
		if files.Attempt == sub.attempt {
			mine = files
		}
		if sub.here {
			if mine.Started {
				return here(run, array, task, mine)
			}
			continue
		}
		if s, ok := t.told(run, sub, collect.Attempt{Array: array, Task: task, Attempt: sub.attempt}, mine); ok {
			return s
		}
	}
	return files
}

// here is the state of a task that runs, or ran, without Slurm: while its process is there it runs.
func here(run *folder.Run, array, task int, mine collect.State) collect.State {
	if mine.Node == "" {
		return mine // its results alone told of it, so that nothing is left to run
	}
	start, _ := collect.ReadStart(run.LogDir(array, task, mine.Attempt, mine.Restart)) // what it lacks is not known
	if alive, _ := start.Alive(); alive {
		mine.Word = "RUNNING"
	}
	return mine
}

// told is what Slurm says about an attempt, else what it has said before, else what its silence means.
func (t *Told) told(run *folder.Run, sub submission, id collect.Attempt, mine collect.State) (collect.State, bool) {
	endings := t.runs[run].endings
	if t.Snapshot != nil {
		if task, ok := t.Snapshot.Find(sub.key(), id.Task); ok {
			return t.fromSlurm(run, endings, id, task, mine), true
		}
	}
	if e, ok := endings.Of(id); ok && (e.Restart < 0 || mine.Restart <= e.Restart) {
		return fromEnding(run, id, e, mine), true
	}
	return t.silent(run, sub, id, mine)
}

// silent is what a task's state is of which Slurm says nothing, if that means anything. Of the jobs of others it may not
// speak (PrivateData in slurm.conf).
func (t *Told) silent(run *folder.Run, sub submission, id collect.Attempt, mine collect.State) (collect.State, bool) {
	taken := slices.Contains(sub.tasks, id.Task)
	whole := t.whole() && !t.runs[run].hidden
	switch {
	case taken && sub.cancelled && !mine.Started:
		return collect.State{Word: string(slurm.Cancelled), Attempt: sub.attempt, Submitted: true}, true
	case whole && mine.Started && mine.Since.Before(t.Taken.Add(-grace)):
		mine.Submitted = true // by the worker's log
		return mine, true
	case mine.Started:
		return mine, true
	case whole && taken && t.Snapshot.Accounting && t.Snapshot.Lists(sub.key()):
		// One that waits stands in the queue and one that has run in accounting: it was cancelled in between.
		e := collect.Ending{Word: string(slurm.Cancelled)}
		t.runs[run].endings.Add(id, e)
		return fromEnding(run, id, e, mine), true
	case whole && taken:
		return collect.State{Submitted: true, Attempt: sub.attempt, InGrace: t.Taken.Sub(sub.asked) < grace}, true
	}
	return collect.State{}, false
}

// fromSlurm maps a record to a state, and keeps it if it is final.
func (t *Told) fromSlurm(run *folder.Run, endings *collect.Endings, id collect.Attempt, task record.Task, mine collect.State) collect.State {
	restart := task.Restarts
	if restart < 0 {
		restart = mine.Restart // accounting does not count them
		if task.Waits() && mine.Started {
			restart++
		}
	}
	if task.Ended() {
		e := collect.Ending{
			Job: jobText(task), Word: string(task.State), Exit: task.Exit, Reason: task.Reason, Node: task.Node, Memory: task.Memory, Start: task.Start, End: task.End,
			Restart: restart,
		}
		endings.Add(id, e)
		if kept, ok := endings.Of(id); ok {
			e = kept
		}
		return fromEnding(run, id, e, mine)
	}
	s := collect.State{
		Word: string(task.State), Started: mine.Started || !task.Start.IsZero(), Node: task.Node, Since: task.Start, Attempt: id.Attempt, Restart: restart,
		Submitted: true, Memory: task.Memory,
	}
	if s.Node == "" {
		s.Node = mine.Node
	}
	switch {
	case !task.Live && t.Snapshot.Queue:
		s.Word = "" // accounting has not heard of its end, and the controller does not know it
	case task.Waits():
		s.Reason, s.Advice, s.WontStart = explain(task)
	}
	return s
}

// explain puts the reason for which a task waits into words, with what to do about it.
func explain(t record.Task) (reason, advice string, wontStart bool) {
	reason, wontStart, advice = record.Explain(t.Reason)
	word, _, _ := strings.Cut(t.Reason, ",")
	if word != "" && !strings.Contains(reason, word) {
		reason += " (" + t.Reason + ")"
	}
	return reason, strings.ReplaceAll(advice, "JOB", t.Array), wontStart
}

// jobText names a task as Slurm's commands take it.
func jobText(t record.Task) string {
	if t.Index < 0 {
		return t.Array
	}
	return t.Array + "_" + strconv.Itoa(t.Index)
}

// fromEnding maps a final state.
func fromEnding(run *folder.Run, id collect.Attempt, e collect.Ending, mine collect.State) collect.State {
	s := collect.State{
		Word: e.Word, Exit: e.Exit, Started: mine.Started || !e.Start.IsZero(), Node: e.Node, Since: e.Start, Attempt: id.Attempt,
		Restart: max(e.Restart, mine.Restart), Submitted: true, Memory: e.Memory,
		InGrace: !e.End.IsZero() && time.Since(e.End) < grace,
	}
	if s.Node == "" {
		s.Node = mine.Node
	}
	if e.Word == string(slurm.Failed) && e.Job != "" {
		// The worker's greeting says nothing about its end.
		if tail := lastLine(filepath.Join(run.LogsDir(), e.Job+".out")); !strings.HasPrefix(tail, "cpbench: run ") {
			s.Tail = tail
		}
	}
	return s
}

// NoAccounting is what a site without accounting means for its users.
const NoAccounting = "this site keeps no accounting: Slurm forgets a task some minutes after its end"

// Forgets reports whether Slurm was asked and forgets what ended a while ago.
func (t *Told) Forgets() bool { return t.Snapshot != nil && t.Snapshot.NoAccounting }

// Doubts puts the final states into their runs, and returns what is in doubt about the answers.
func (t *Told) Doubts(ctx context.Context) []string {
	var all []string
	if t.Err != nil {
		all = append(all, fmt.Sprintf("Slurm was asked and gave no answer, so the files alone decide: %s", strings.ReplaceAll(t.Err.Error(), "\n", "; ")))
	}
	if t.Snapshot != nil {
		all = append(all, t.Snapshot.Notes...)
	}
	for _, run := range slices.SortedFunc(maps.Keys(t.runs), func(a, b *folder.Run) int { return strings.Compare(a.Dir, b.Dir) }) {
		subs := t.runs[run]
		for _, doubt := range subs.doubts {
			all = append(all, doubt.Error())
		}
		err := subs.endings.Save(ctx)
		switch {
		case err == nil, len(subs.doubts) > 0 && errors.Is(err, subs.doubts[0]): // told
		case errors.Is(err, fs.ErrPermission): // another user's, who keeps them
		default:
			all = append(all, fmt.Sprintf("the final states of the tasks are not kept: %v", err))
		}
	}
	return all
}
