package main

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

// scheduler is what Slurm says about the tasks of some runs, and what it said before.
type scheduler struct {
	snap  *record.Snapshot // nil: not asked, or no answer
	taken time.Time        // when it was asked
	err   error            // why there is no answer; nil where nobody was asked
	runs  map[*folder.Run]*submissions
}

// remember gathers what the run folders tell about their jobs, without asking anybody.
func remember(runs []*folder.Run) *scheduler {
	c := &scheduler{taken: time.Now(), runs: map[*folder.Run]*submissions{}}
	for _, run := range runs {
		c.runs[run] = submissionsOf(run)
	}
	return c
}

// askSlurm asks squeue and sacct once each about all jobs of the runs. It has to come before the results are listed:
// else a task that ends in between seems to have left none. No squeue on PATH, or no job that Slurm could know, is no
// error: then the files and what was kept decide.
func askSlurm(ctx context.Context, runs []*folder.Run) *scheduler {
	c := remember(runs)
	var names []string
	var since time.Time
	for _, run := range runs {
		mine := c.runs[run].names(run)
		names = append(names, mine...)
		// A day earlier, because clocks differ.
		if at := createdAt(run).AddDate(0, 0, -1); len(mine) > 0 && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	if _, err := exec.LookPath("squeue"); err != nil || len(names) == 0 {
		return c
	}
	c.snap, c.err = record.Ask(ctx, &slurm.Slurm{}, record.Query{Names: names, Since: since})
	return c
}

// slow is when a person is told what a command waits for.
const slow = 5 * time.Second

// whileAsking tells the person at the terminal when Slurm takes long, until done is called.
func whileAsking(v voice) (done func()) {
	timer := time.AfterFunc(slow, func() { v.sayf("waiting for Slurm's squeue and sacct, each at most a minute; Ctrl-C changes nothing") })
	return func() { timer.Stop() }
}

// whole reports whether everything that Slurm remembers has been said: only then does its silence mean anything.
func (c *scheduler) whole() bool {
	return c.snap != nil && c.snap.Queue && (c.snap.Accounting || c.snap.NoAccounting)
}

// state is what is known about a task: the newest attempt that Slurm or the files know of decides.
func (c *scheduler) state(run *folder.Run, array, task int, files collect.State) collect.State {
	for _, sub := range c.runs[run].arrays[array] {
		if files.Attempt > sub.attempt {
			break
		}
		var mine collect.State // what the files tell of this attempt
		if files.Attempt == sub.attempt {
			mine = files
		}
		if sub.here {
			if mine.Started {
				return mine
			}
			continue
		}
		if s, ok := c.told(run, sub, collect.Attempt{Array: array, Task: task, Attempt: sub.attempt}, mine); ok {
			return s
		}
	}
	return files
}

// told is what Slurm says about an attempt, else what it has said before, else what its silence means.
func (c *scheduler) told(run *folder.Run, sub submission, id collect.Attempt, mine collect.State) (collect.State, bool) {
	endings := c.runs[run].endings
	if c.snap != nil {
		if t, ok := c.snap.Find(sub.name, id.Task); ok {
			return c.fromSlurm(run, endings, id, t, mine), true
		}
	}
	if e, ok := endings.Of(id); ok && (e.Restart < 0 || mine.Restart <= e.Restart) {
		return fromEnding(run, id, e, mine), true
	}
	return c.silent(run, sub, id.Task, mine)
}

// silent is what a task's state is of which Slurm says nothing, if that means anything. Of the jobs of others it may not
// speak (PrivateData in slurm.conf).
func (c *scheduler) silent(run *folder.Run, sub submission, task int, mine collect.State) (collect.State, bool) {
	taken := slices.Contains(sub.tasks, task)
	whole := c.whole() && !c.runs[run].hidden
	switch {
	case taken && sub.cancelled && !mine.Started:
		return collect.State{Word: string(slurm.Cancelled), Attempt: sub.attempt, Submitted: true}, true
	case whole && mine.Started && mine.Since.Before(c.taken.Add(-grace)):
		mine.Submitted = true // by the worker's log
		return mine, true
	case mine.Started:
		return mine, true
	case whole && taken:
		return collect.State{Submitted: true, Attempt: sub.attempt, InGrace: c.taken.Sub(sub.asked) < grace}, true
	}
	return collect.State{}, false
}

// fromSlurm maps a record to a state, and keeps it if it is final.
func (c *scheduler) fromSlurm(run *folder.Run, endings *collect.Endings, id collect.Attempt, t record.Task, mine collect.State) collect.State {
	restart := t.Restarts
	if restart < 0 {
		restart = mine.Restart // accounting does not count them
		if t.Waits() && mine.Started {
			restart++
		}
	}
	if t.Ended() {
		e := collect.Ending{
			Job: jobText(t), Word: string(t.State), Exit: t.Exit, Reason: t.Reason, Node: t.Node, Memory: t.Memory, Start: t.Start, End: t.End,
			Restart: restart,
		}
		endings.Add(id, e)
		if kept, ok := endings.Of(id); ok {
			e = kept
		}
		return fromEnding(run, id, e, mine)
	}
	s := collect.State{
		Word: string(t.State), Started: mine.Started || !t.Start.IsZero(), Node: t.Node, Since: t.Start, Attempt: id.Attempt, Restart: restart,
		Submitted: true, Memory: t.Memory,
	}
	if s.Node == "" {
		s.Node = mine.Node
	}
	switch {
	case !t.Live && c.snap.Queue:
		s.Word = "" // accounting has not heard of its end, and the controller does not know it
	case t.Waits():
		s.Reason, s.Advice, s.WontStart = explain(t)
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

// noAccounting is what a site without accounting means for its users.
const noAccounting = "this site keeps no accounting: Slurm forgets a task some minutes after its end"

// forgets reports whether Slurm was asked and forgets what ended a while ago.
func (c *scheduler) forgets() bool { return c.snap != nil && c.snap.NoAccounting }

// doubts puts the final states into their runs, and returns what is in doubt about the answers.
func (c *scheduler) doubts(ctx context.Context) []string {
	var all []string
	if c.err != nil {
		all = append(all, fmt.Sprintf("Slurm was asked and gave no answer, so the files alone decide: %s", strings.ReplaceAll(c.err.Error(), "\n", "; ")))
	}
	if c.snap != nil {
		all = append(all, c.snap.Notes...)
	}
	for _, run := range slices.SortedFunc(maps.Keys(c.runs), func(a, b *folder.Run) int { return strings.Compare(a.Dir, b.Dir) }) {
		subs := c.runs[run]
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
