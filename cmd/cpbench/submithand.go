package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/refusal"
	"cpbench/slurm/submit"
)

// lookAgain is when the job that collects looks again for room in a queue that is full.
const lookAgain = 10 * time.Minute

// hand submits as much of the wants as the flags and the queue allow.
func (o *submitOptions) hand(ctx context.Context, s *streams, session *submit.Session, wants []submit.Want, exclude []string) error {
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	run := session.Run
	word := shellWord(shortPath(run.Dir))
	again := "cpbench submit --run " + word
	all := submit.Count(wants)
	keep := o.keep(run)
	queued := 0
	wants, rest, err := o.portion(run, wants, func() (n int, err error) {
		queued, err = submit.Queued(ctx, &slurm.Slurm{})
		return queued, err
	})
	if err != nil {
		return err
	}
	opt := submit.Options{Exclude: exclude}
	if len(wants) == 0 && len(rest) > 0 {
		s.warnf("your queue holds %s, so that there is no room for a task and the job that collects among %d", countText(queued, "task"), keep)
		if o.goOn == "" {
			s.hintf("later: %s --keep-queued %d", again, keep)
			return nil
		}
		opt.Later = lookAgain
	}
	opt.GoOn = o.successor(run, rest, keep)
	n := submit.Count(wants)
	err = session.Submit(ctx, wants, opt)
	var refused *submit.Refusal
	switch {
	case err != nil && ctx.Err() != nil:
		s.sayf("stopped: the jobs named above are in the queue; a call that was cut off is cleared up by whatever you type next")
		s.hintf("go on from here, nothing twice: %s; end what is in: cpbench cancel %s", again, word)
		return errInterrupted
	case errors.As(err, &refused):
		return o.explain(ctx, refused, err, again)
	case err != nil:
		return &hinted{err, again + " goes on from here, and submits nothing twice"}
	case n > 0 && len(rest) > 0:
		s.sayf("%s of %d; the job that collects goes on with the others, or by hand: %s", countText(n, "task"), all, again)
	case n > 0 && all > n:
		s.sayf("%s of %d; the others: %s", countText(n, "task"), all, again)
	}
	return nil
}

// keep is how many tasks and jobs may be in the queue at once; 0: any number.
func (o *submitOptions) keep(run *folder.Run) int {
	if o.keepQueued > 0 {
		return o.keepQueued
	}
	return int(run.Plan.Spec.Site.MaxQueued)
}

// portion splits the wants, as far as the flags want them, into what is submitted now and what has no room beside what
// is queued.
func (o *submitOptions) portion(run *folder.Run, wants []submit.Want, queued func() (int, error)) (now, rest []submit.Want, err error) {
	if o.limit > 0 {
		wants, _ = submit.Room(wants, o.limit)
	}
	keep := o.keep(run)
	if keep == 0 || len(wants) == 0 {
		return wants, nil, nil
	}
	n, err := queued()
	if err != nil {
		return nil, nil, err
	}
	now, rest = submit.Room(wants, keep-n-1) // one is the job that collects
	return now, rest, nil
}

// printCalls prints what would be called for the wants.
func (o *submitOptions) printCalls(ctx context.Context, s *streams, run *folder.Run, wants []submit.Want, calls func([]submit.Want) ([]string, error)) error {
	now, rest, err := o.portion(run, wants, func() (int, error) {
		n, err := submit.Queued(ctx, &slurm.Slurm{})
		if err != nil {
			s.warnf("%v: taken for an empty one", err)
		}
		return n, nil
	})
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		s.sayf("%s of %d; the job that collects goes on with the others", countText(submit.Count(now), "task"), submit.Count(wants))
	}
	lines, err := calls(now)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(s.out, line); err != nil {
			return err
		}
	}
	return nil
}

// noTasks stands for no task in the flag by which a job that collects goes on.
const noTasks = "none"

// successor lists the options by which the job that collects goes on: with the tasks that have no room now, which it
// chooses as this call has, and with what retry names. nil: there is nothing to go on with.
func (o *submitOptions) successor(run *folder.Run, rest []submit.Want, keep int) []string {
	if len(rest) == 0 && len(run.Plan.Spec.Retry.Outcomes()) == 0 {
		return nil
	}
	tasks := noTasks
	if len(rest) > 0 {
		tasks = submit.TasksText(rest)
	}
	out := []string{"--go-on", tasks, "--yes"}
	if keep > 0 {
		out = append(out, "--keep-queued", strconv.Itoa(keep))
	}
	switch {
	case o.onlyFailed != "":
		out = append(out, onlyFailed+"="+o.onlyFailed)
	case o.onlyMissing:
		out = append(out, "--only-missing")
	}
	return out
}

// explain puts a refusal into the words of a spec.
func (o *submitOptions) explain(ctx context.Context, r *submit.Refusal, err error, again string) error {
	var hints []string
	if r.Job != nil {
		if e, ok := refusal.Explain(ctx, &slurm.Slurm{}, r.Err, *r.Job); ok {
			hints = e.Lines()
		}
	} else {
		hints = append(hints, "the arrays are in; make the table by hand: cpbench collect")
	}
	if len(r.In) > 0 {
		hints = append(hints, "submitted before it, and not undone: "+strings.Join(r.In, ", "))
	}
	if o.goOn != "" {
		hints = append(hints, "if this site does not take jobs from a compute node, go on from a login node")
	}
	rest := again + " goes on with the rest"
	if len(r.In) == 0 && o.run == "" {
		rest = "mend the spec and submit it again; if the site was at fault: " + again
	}
	return &hinted{err, strings.Join(append(hints, rest), "\n")}
}

// after waits for the run, if that is wanted and something is in.
func (o *submitOptions) after(ctx context.Context, s *streams, run *folder.Run, err error) error {
	switch {
	case err != nil || o.goOn != "":
		return err
	case o.wait:
		return waitFor(ctx, s, run)
	}
	s.hintf("the table will be in %s; at any time: cpbench collect %s", shortPath(run.Table("table.md")), shellWord(shortPath(run.Dir)))
	return nil
}
