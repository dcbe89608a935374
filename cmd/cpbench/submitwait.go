package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/ledger"
	slurmsite "cpbench/slurm/site"
	"cpbench/slurm/submit"
)

// part is what is wanted of the arrays of one shape.
type part struct {
	shape       plan.Shape
	arrays      []int
	tasks       int
	nodes, gpus int64 // seconds, in the worst case
}

// byShape adds up the wants of each shape, in the order of their first arrays.
func byShape(p *plan.Plan, wants []submit.Want) []*part {
	var parts []*part
	for _, w := range wants {
		a := p.Arrays[w.Array]
		i := slices.IndexFunc(parts, func(part *part) bool { return part.shape == a.Shape })
		if i < 0 {
			i, parts = len(parts), append(parts, &part{shape: a.Shape})
		}
		seconds := int64(len(w.Tasks)) * a.Seconds * int64(a.Shape.Nodes)
		of := parts[i]
		of.arrays, of.tasks = append(of.arrays, w.Array), of.tasks+len(w.Tasks)
		of.nodes, of.gpus = of.nodes+seconds, of.gpus+seconds*int64(a.Shape.GPUsPerNode)
	}
	return parts
}

// confirm tells what the wants may cost at most, by shape, and asks on a terminal if that is much. Without a terminal
// nobody can answer: it goes on with a warning.
func (o *submitOptions) confirm(s *streams, p *plan.Plan, wants []submit.Want) error {
	var nodes, gpus int64
	for _, part := range byShape(p, wants) {
		nodes, gpus = nodes+part.nodes, gpus+part.gpus
		if len(wants) > 1 {
			label := "array"
			if len(part.arrays) > 1 {
				label = "arrays"
			}
			s.sayf("%s %s: %s of %s, at most %s", label, slurm.IndexList(part.arrays), countText(part.tasks, "task"), slurm.ShapeText(part.shape), slurm.CostText(part.nodes, part.gpus))
		}
	}
	s.sayf("to submit: %s, at most %s", countText(submit.Count(wants), "task"), slurm.CostText(nodes, gpus))
	if hours := float64(gpus) / 3600; o.yes || hours <= float64(o.askAboveGPU) {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil || !isTerminal(s.in) {
		s.warnf("more than %d GPU-hours, and nobody to ask; --yes leaves this warning out", o.askAboveGPU)
		return nil //nolint:nilerr // no terminal is no fault
	}
	defer tty.Close() // its error would change nothing
	fmt.Fprintf(tty, "cpbench: more than %d GPU-hours; submit? [y/N] ", o.askAboveGPU)
	answer, _ := bufio.NewReader(tty).ReadString('\n') // no answer is no
	if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
		return errors.New("nothing was submitted")
	}
	return nil
}

// foresee warns of what the site does not allow: sbatch takes many a job that never starts.
func (o *submitOptions) foresee(ctx context.Context, v voice, src *source) {
	few := o.limit > 0 || o.keepQueued > 0 || src.plan.Spec.Site.MaxQueued > 0
	for _, f := range slurmsite.Ask(ctx, &slurm.Slurm{}).CheckPlan(src.plan) {
		if f.Key == "pack" && few {
			continue // not all tasks are queued at once
		}
		v.warnf("%s: %s", f.Key, f.Text)
		v.hintf("%s", f.Advice)
	}
}

// alone keeps other submissions of the same user that make a run in the same folder out until release is called: of two
// at once neither could see the other's jobs.
func (o *submitOptions) alone(ctx context.Context, v voice) (release func() error, err error) {
	if err = os.MkdirAll(o.runs, 0o755); err == nil {
		path := filepath.Join(o.runs, fmt.Sprintf(".submit-%d.lock", os.Getuid()))
		release, err = ledger.Lock(ctx, path, func() { v.sayf("waiting for another cpbench submit in %s", shortPath(o.runs)) })
	}
	if err != nil {
		return nil, &hinted{err, "choose another place for the run with --runs DIR"}
	}
	return release, nil
}

// onlyOnce refuses to submit a plan of which a run is in the queue, or may be: who types the same line again, after a
// connection broke for example, does not want the sweep twice.
func (o *submitOptions) onlyOnce(ctx context.Context, p *plan.Plan) error {
	pattern := filepath.Join(o.runs, p.Name+"-*")
	found, err := filepath.Glob(escapeGlob(o.runs, pattern))
	if err != nil || o.anew {
		return err
	}
	for _, dir := range slices.Backward(found) { // the newest first
		run, err := folder.Open(dir)
		if err != nil || run.Plan.Digest != p.Digest {
			continue // no run, or another sweep
		}
		word := shellWord(shortPath(run.Dir))
		hint := "go on with it: cpbench submit --run " + word + "\nend it first: cpbench cancel " + word + "\nanother run beside it: --anew"
		jobs, err := ledger.Read(run.JobsFile())
		switch {
		case err != nil:
			return &hinted{fmt.Errorf("run %s has the same plan: %w", run.Name(), err), hint}
		case len(jobs) == 0:
			continue
		case slices.ContainsFunc(jobs, func(j ledger.Job) bool { return j.Open() }):
			return &hinted{fmt.Errorf("run %s has the same plan, and its submission was cut off", run.Name()), hint}
		}
		left, err := submit.Left(ctx, &slurm.Slurm{}, run)
		if err != nil {
			return err
		}
		if left > 0 {
			return &hinted{fmt.Errorf("run %s has the same plan, and %s in the queue", run.Name(), countText(left, "job")), hint}
		}
	}
	return nil
}

// The pauses between two looks at the queue: short at first, for runs that end at once, then as rarely as a site likes.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// waitFor waits until nothing of a run is queued and prints its table. It owns nothing: it may be stopped and typed
// again at any time.
func waitFor(ctx context.Context, s *streams, run *folder.Run) error {
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	s.sayf("waiting for run %s; Ctrl-C leaves its jobs alone", run.Name())
	failed := false
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		left, err := submit.Left(ctx, &slurm.Slurm{}, run)
		switch {
		case ctx.Err() != nil: // told below
		case err != nil && !failed:
			failed = true
			s.warnf("Slurm does not answer, and is asked again: %v", err)
		case err == nil && left == 0:
			return askAndCollect(ctx, s, []*folder.Run{run}, collectOptions{format: "text"})
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			s.sayf("the jobs go on without this command")
			s.hintf("wait again with: cpbench submit --run %s --wait; end them with: cpbench cancel %[1]s", shellWord(shortPath(run.Dir)))
			return errInterrupted
		}
	}
}
