package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/submit"

	"github.com/urfave/cli/v2"
)

// submitOptions are the flags of submit.
type submitOptions struct {
	runs, where, extend, hint, run string
	onlyMissing, dry, wait, yes    bool
	anew                           bool
	onlyFailed                     string
	goOn                           string // the job that collects calls: tasks that had no room, or noTasks; empty: a person calls
	limit, keepQueued, askAboveGPU int
}

func submitCommand(s *streams) *cli.Command {
	o := &submitOptions{}
	return &cli.Command{
		Name:  "submit",
		Usage: "submit the arrays of a sweep or a run, and a job after them that makes the table",
		UsageText: `cpbench submit sweep.yaml
cpbench submit sweep.yaml --dry-run        # print the calls of sbatch; writes nothing
cpbench submit --run RUN                   # go on: what is in no queue and has no good end
cpbench submit --run RUN --only-failed=timeout
cpbench submit sweep.yaml --keep-queued 90 # where only so many tasks may be queued`,
		Description: "Calls sbatch once for each array and once for the job that collects. Typed twice, or twice at once, it\nsubmits nothing twice. What was asked and answered is kept in jobs.jsonl of the run.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "runs", Usage: "make the run folder below `DIR`", Value: runsDir, Destination: &o.runs},
			&cli.StringFlag{Name: "where", Usage: "plan only the points for which `EXPR` is true", Destination: &o.where},
			&cli.StringFlag{Name: "extend", Usage: "leave out what `RUN` plans already", Destination: &o.extend},
			hintFlag(&o.hint),
			&cli.StringFlag{Name: "run", Usage: "go on with the existing `RUN` instead of planning a spec", Destination: &o.run},
			&cli.BoolFlag{Name: "only-missing", DisableDefaultText: true, Usage: "only what has no result, or none that counts; without it what the spec's retry names as well", Destination: &o.onlyMissing},
			&cli.StringFlag{Name: "only-failed", Usage: "only the tasks with a point that failed or, if given, that ended with `OUTCOME`", Destination: &o.onlyFailed},
			&cli.IntFlag{Name: "limit", DefaultText: "all", Usage: "submit only the first `K` tasks; the others stay for submit --run RUN", Destination: &o.limit},
			&cli.IntFlag{Name: "keep-queued", DefaultText: "site.max_queued", Usage: "submit only so many tasks that `N` are in your queue; the job that collects goes on with the others", Destination: &o.keepQueued},
			&cli.BoolFlag{Name: "dry-run", DisableDefaultText: true, Usage: "print the calls as lines for a shell and do nothing", Destination: &o.dry},
			&cli.BoolFlag{Name: "wait", DisableDefaultText: true, Usage: "wait until nothing of the run is queued, then print the table; Ctrl-C leaves the jobs alone", Destination: &o.wait},
			&cli.BoolFlag{Name: "anew", DisableDefaultText: true, Usage: "make another run although one of the same plan is in the queue", Destination: &o.anew},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, DisableDefaultText: true, Usage: "do not ask, however many GPU-hours it is", Destination: &o.yes},
			&cli.IntFlag{Name: "ask-above", Usage: "ask on a terminal before more than `H` GPU-hours are submitted", Value: 1000, Destination: &o.askAboveGPU},
			&cli.StringFlag{Name: "go-on", Hidden: true, Usage: "only these `TASKS`, which had no room, and what retry names; the job that collects calls it so", Destination: &o.goOn},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			if err := o.check(c); err != nil {
				return err
			}
			if o.run != "" {
				return submitRun(c.Context, s, o)
			}
			path, err := oneArgument(c, "SPEC")
			if err != nil {
				return err
			}
			return submitSpec(c.Context, s, o, path)
		},
	}
}

func (o *submitOptions) check(c *cli.Context) error {
	switch {
	case c.IsSet("limit") && o.limit < 1:
		return &usageError{"--limit needs a number above 0", ""}
	case c.IsSet("keep-queued") && o.keepQueued < 3:
		return &usageError{"--keep-queued needs a number of at least 3", "a task, the job that collects and its successor count"}
	case o.dry && o.wait:
		return &usageError{"--dry-run submits nothing to wait for", "use one of them"}
	case o.run == "" && (o.onlyMissing || o.onlyFailed != ""):
		return &usageError{"--only-missing and --only-failed speak of a run", "add --run RUN"}
	case o.run != "" && (c.NArg() > 0 || o.where != "" || o.extend != "" || o.hint != ""):
		return &usageError{"--run names a run that is planned already: no SPEC, --where, --extend or --hint with it", ""}
	}
	return checkOnly(o.onlyMissing, o.onlyFailed)
}

// submitSpec freezes a spec and submits all of it.
func submitSpec(ctx context.Context, s *streams, o *submitOptions, path string) error {
	src, err := load(request{path: path, where: o.where, extend: o.extend, hint: o.hint, limit: func() (int, error) { return siteLimit(ctx, s.voice) }})
	if err != nil {
		return err
	}
	if err := check(src); err != nil {
		return err
	}
	describe(s.voice, src)
	o.foresee(ctx, s.voice, src)
	if o.dry {
		return dryRunSpec(ctx, s, o, src)
	}
	if err := o.confirm(s, src.plan, everything(src.plan)); err != nil { // before anything is written
		return err
	}
	release, err := o.alone(ctx, s.voice)
	if err != nil {
		return err
	}
	run, err := o.submitPlan(ctx, s, src)
	return o.after(ctx, s, run, errors.Join(err, release()))
}

// submitPlan makes the run of a plan and submits it, while nobody else does so in that folder.
func (o *submitOptions) submitPlan(ctx context.Context, s *streams, src *source) (*folder.Run, error) {
	if err := o.onlyOnce(ctx, src.plan); err != nil {
		return nil, err
	}
	run, err := freeze(src, o.runs)
	if err != nil {
		return nil, err
	}
	s.sayf("run %s", shortPath(run.Dir))
	session, err := submit.Open(ctx, &slurm.Slurm{}, run, s.sayf)
	if err != nil {
		return nil, err
	}
	err = o.hand(ctx, s, session, everything(run.Plan), nil)
	return run, errors.Join(err, session.Close())
}

// everything wants all tasks of a plan.
func everything(p *plan.Plan) []submit.Want {
	var wants []submit.Want
	for i := range p.Arrays {
		w := submit.Want{Array: i}
		for task := range max(len(p.Arrays[i].Lengths), len(p.Arrays[i].Tasks)) {
			w.Tasks = append(w.Tasks, task)
		}
		wants = append(wants, w)
	}
	return wants
}

func dryRunSpec(ctx context.Context, s *streams, o *submitOptions, src *source) error {
	abs, err := filepath.Abs(o.runs)
	if err != nil {
		return err
	}
	run := &folder.Run{Dir: filepath.Join(abs, folder.RunName(src.plan.Name, time.Now())), Plan: src.plan}
	s.sayf("nothing is written; the stamp in the paths will be that of the submission")
	return o.printCalls(ctx, s, run, everything(src.plan), func(now []submit.Want) ([]string, error) { return submit.DryRun(run, now, submit.Options{}) })
}

// submitRun goes on with a run: what is in no queue and has no good end.
func submitRun(ctx context.Context, s *streams, o *submitOptions) error {
	run, err := folder.Open(o.run)
	if err != nil {
		return err
	}
	sl := &slurm.Slurm{}
	if o.dry {
		session, err := submit.Peek(ctx, sl, run)
		if err != nil {
			return err
		}
		pick, err := o.pick(session)
		if err != nil {
			return err
		}
		pick.tell(s.voice)
		return o.printCalls(ctx, s, run, pick.wants, func(now []submit.Want) ([]string, error) {
			return session.DryRun(now, submit.Options{Exclude: pick.exclude})
		})
	}
	if err := usable(run); err != nil {
		return err
	}
	session, err := submit.Open(ctx, sl, run, s.sayf)
	if err != nil {
		return err
	}
	err = o.goOnWith(ctx, s, session)
	return o.after(ctx, s, run, errors.Join(err, session.Close()))
}

func (o *submitOptions) goOnWith(ctx context.Context, s *streams, session *submit.Session) error {
	if err := session.Look(ctx); err != nil {
		return err
	}
	run := session.Run
	if o.goOn != "" && session.Stopped() {
		s.sayf("run %s was cancelled: nothing is submitted", run.Name())
		return nil
	}
	pick, err := o.pick(session)
	if err != nil {
		return err
	}
	pick.tell(s.voice)
	if len(pick.wants) == 0 {
		s.sayf("run %s: nothing to submit: %s", run.Name(), pick.why)
	} else if err := o.confirm(s, run.Plan, pick.wants); err != nil {
		return err
	}
	return o.hand(ctx, s, session, pick.wants, pick.exclude)
}
