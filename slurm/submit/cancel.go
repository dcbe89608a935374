package submit

import (
	"context"
	"errors"
	"slices"
	"strings"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/ledger"
)

// Ended is what Cancel has ended.
type Ended struct {
	IDs              []string // of arrays, and of jobs that collect
	Running, Waiting int      // tasks of arrays
	Collectors       int      // jobs that collect
}

// Cancel ends every job of the run that is in the queue, found by name, with one call of scancel: those of the ledger
// and those that a person has submitted. With keep, jobs that collect stay: they run when the arrays have ended, and
// do not go on with the run. One that waits without any array would, and is ended as well. Look comes first.
func (s *Session) Cancel(ctx context.Context, keep bool) (Ended, error) {
	var ended Ended
	if arrays, _ := s.live(); len(arrays) == 0 {
		keep = false
	}
	var lines []ledger.Line
	for _, n := range names(s.Run, s.Jobs()) {
		if n.array == ledger.Collect && keep {
			continue
		}
		var ids []string
		for _, t := range s.snap.Tasks(n.key) {
			switch {
			case !alive(t):
				continue
			case n.array == ledger.Collect:
				ended.Collectors++
			case t.Waits():
				ended.Waiting++
			default:
				ended.Running++
			}
			ids = append(ids, t.Array)
		}
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			ended.IDs = append(ended.IDs, id)
			line := ledger.Line{Event: ledger.Cancelled, Name: n.name, Attempt: n.attempt, ID: id}
			if n.array != ledger.Collect {
				line.Array = &n.array
			}
			lines = append(lines, line)
		}
	}
	if len(ended.IDs) == 0 {
		return ended, nil
	}
	if err := s.slurm.CancelJobs(ctx, ended.IDs...); err != nil {
		return ended, err
	}
	var errs []error
	for _, line := range lines {
		errs = append(errs, s.ledger.Append(line))
	}
	return ended, errors.Join(errs...)
}

// Stopped reports whether somebody has cancelled jobs of the run after the last submission of an array. A job that
// collects then does not go on with it.
func (s *Session) Stopped() bool {
	var newest, cancelled ledger.Job
	for _, j := range s.Jobs() {
		switch {
		case j.Array == ledger.Collect:
			continue
		case j.Event == ledger.Cancelled && j.Changed.After(cancelled.Changed):
			cancelled = j
		}
		if j.Asked.After(newest.Asked) {
			newest = j
		}
	}
	return !cancelled.Changed.IsZero() && !cancelled.Changed.Before(newest.Asked)
}

// Left counts the tasks and the jobs that collect which the run has in the queue, with one call each of squeue and
// sacct. It asks again if there is nothing left and the ledger has grown meanwhile: a job that collects has then handed
// over to the next ones and ended, between the look at the ledger and that at the queue.
func Left(ctx context.Context, s *slurm.Slurm, run *folder.Run) (int, error) {
	for asked := -1; ; {
		jobs, err := ledger.Read(run.JobsFile())
		if err != nil || len(jobs) == asked {
			return 0, err
		}
		n, err := left(ctx, s, run, jobs)
		if err != nil || n > 0 {
			return n, err
		}
		asked = len(jobs)
	}
}

// left counts those of the jobs that are in the queue.
func left(ctx context.Context, s *slurm.Slurm, run *folder.Run, jobs []ledger.Job) (int, error) {
	snap, err := Ask(ctx, s, run, jobs)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, j := range names(run, jobs) {
		for _, t := range snap.Tasks(j.key) {
			if alive(t) {
				n++
			}
		}
	}
	return n, nil
}

// NodeFailures calls visit for every task that Slurm says to have ended because of its node, where that is one node.
func (s *Session) NodeFailures(visit func(array, task, attempt int, node string)) {
	if s.snap == nil {
		return
	}
	for _, n := range names(s.Run, s.Jobs()) {
		for _, t := range s.snap.Tasks(n.key) {
			failed := t.State == "NODE_FAIL" || t.State == "BOOT_FAIL"
			if failed && n.array != ledger.Collect && t.Node != "" && !strings.ContainsAny(t.Node, "[,") {
				visit(n.array, t.Index, n.attempt, t.Node)
			}
		}
	}
}
