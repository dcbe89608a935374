package states

import (
	"context"

	"cpbench/collect"
	"cpbench/collect/trail"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
)

// Fate tells what becomes of an execution without a result: by what Slurm says of its task, or said before, or by its
// silence.
func Fate(ctx context.Context, run *folder.Run, of trail.Execution) trail.Fate {
	s := Ask(ctx, []*folder.Run{run}).Of(run, of.Array, of.Task, collect.FolderState(run, of.Array, of.Task))
	outcome, words := collect.Verdict(nil, s)
	switch {
	case outcome == catalogue.Missing, outcome == catalogue.Running && !s.InGrace:
		return trail.Fate{} // somebody may submit it yet, or it is under way
	case outcome == catalogue.Pending:
		if s.Advice != "" {
			words += "; to do: " + s.Advice
		}
		if !s.WontStart {
			words = "the task waits: " + words
		}
		return trail.Fate{Over: s.WontStart, Words: words}
	case s.InGrace:
		return trail.Fate{Words: "the task is over, but its result may still be on its way through the file system: " + words}
	}
	return trail.Fate{Over: true, Words: "the task has left no result: " + words}
}
