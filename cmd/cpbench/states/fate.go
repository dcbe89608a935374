package states

import (
	"context"
	"strings"
	"time"

	"cpbench/collect"
	"cpbench/collect/trail"
	"cpbench/plan/folder"
)

// Fate asks Slurm what becomes of an execution without a result.
func Fate(ctx context.Context, run *folder.Run, of trail.Execution) trail.Fate {
	asked := Ask(ctx, []*folder.Run{run})
	if asked.Snapshot == nil {
		return trail.Fate{}
	}
	for _, sub := range asked.runs[run].arrays[of.Array] {
		task, ok := asked.Snapshot.Find(sub.name, of.Task)
		if !ok {
			continue
		}
		switch ending := strings.TrimSpace(string(task.State) + " " + task.Exit); {
		case task.Ended() && time.Since(task.End) > grace:
			return trail.Fate{Over: true, Words: "the task has ended as " + ending + " and left no result"}
		case task.Ended():
			return trail.Fate{Words: "the task has ended as " + ending + "; its result may still be on its way through the file system"}
		case task.Waits():
			s := collect.State{Word: string(task.State)}
			s.Reason, s.Advice, s.WontStart = explain(task)
			_, words := collect.Verdict(nil, s)
			if s.Advice != "" {
				words += "; to do: " + s.Advice
			}
			if !s.WontStart {
				words = "the task waits: " + words
			}
			return trail.Fate{Over: s.WontStart, Words: words}
		}
		return trail.Fate{}
	}
	return trail.Fate{}
}
