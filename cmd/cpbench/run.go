package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"cpbench/cmd/cpbench/states"
	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/local"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// runOptions are the flags of run.
type runOptions struct {
	runs, where, extend, run string
	hint, onlyFailed         string
	parallel                 int
}

func runCommand(s *streams) *cli.Command {
	o := &runOptions{}
	return &cli.Command{
		Name:  "run",
		Usage: "run a sweep on this machine, without Slurm, and print its table",
		UsageText: `cpbench run sweep.yaml
cpbench run sweep.yaml -n 4      # four tasks at a time
cpbench run --run RUN            # go on with what has no result yet
cpbench run --run RUN --only-failed          # what failed, once more
cpbench run --run RUN --only-failed=error    # what ended so`,
		Description: "The same script runs under bash, one process for each task. Ctrl-C stops; what has finished stays.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "parallel", Aliases: []string{"n"}, Usage: "run `N` tasks at a time", Value: 1, Destination: &o.parallel},
			&cli.StringFlag{Name: "runs", Usage: "make the run folder below `DIR`", Value: runsDir, Destination: &o.runs},
			&cli.StringFlag{Name: "where", Usage: "run only the points for which `EXPR` is true", Destination: &o.where},
			&cli.StringFlag{Name: "extend", Usage: "leave out what `RUN` plans already", Destination: &o.extend},
			hintFlag(&o.hint),
			&cli.StringFlag{Name: "run", Usage: "go on with the existing `RUN`", Destination: &o.run},
			&cli.StringFlag{Name: "only-failed", Usage: "of RUN only the points that failed or, if given, that ended with `OUTCOME`", Destination: &o.onlyFailed},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			if o.parallel < 1 {
				return &usageError{"--parallel needs a number above 0", ""}
			}
			if err := checkOnly(false, o.onlyFailed); err != nil {
				return err
			}
			if o.run == "" && o.onlyFailed != "" {
				return &usageError{"--only-failed speaks of a run", "add --run RUN"}
			}
			if o.run != "" {
				if c.NArg() > 0 || o.where != "" || o.extend != "" || o.hint != "" {
					return &usageError{"--run names a run that is planned already: no SPEC, --where, --extend or --hint with it", ""}
				}
				return runAgain(c.Context, s, o)
			}
			path, err := oneArgument(c, "SPEC")
			if err != nil {
				return err
			}
			return runSpec(c.Context, s, o, path)
		},
	}
}

// job is one array to run here.
type job struct {
	script []byte
	tasks  int
}

func runSpec(ctx context.Context, s *streams, o *runOptions, path string) error {
	src, err := load(request{path: path, where: o.where, extend: o.extend, hint: o.hint})
	if err != nil {
		return err
	}
	if err := check(src); err != nil {
		return err
	}
	if err := o.oneAtATime(src.plan); err != nil {
		return err
	}
	run, err := freeze(src, o.runs)
	if err != nil {
		return err
	}
	describe(s.voice, src)
	var jobs []job
	for i := range run.Plan.Arrays {
		text, err := os.ReadFile(run.Script(i, 1))
		if err != nil {
			return err
		}
		jobs = append(jobs, job{text, len(run.Plan.Arrays[i].Lengths)})
	}
	return runHere(ctx, s, o, run, jobs)
}

// oneAtATime refuses to run tasks with GPUs side by side.
func (o *runOptions) oneAtATime(p *plan.Plan) error {
	for _, a := range p.Arrays {
		if o.parallel > 1 && a.Shape.GPUsPerNode > 0 {
			return &usageError{"tasks that ask for GPUs run one at a time here: nothing shares the GPUs out among them", "leave out --parallel"}
		}
	}
	return nil
}

// runAgain goes on with a run: the tasks without a good end, or those that failed, as a new attempt.
func runAgain(ctx context.Context, s *streams, o *runOptions) error {
	run, err := folder.Open(o.run)
	if err != nil {
		return err
	}
	if err := o.oneAtATime(run.Plan); err != nil {
		return err
	}
	if err := usable(run); err != nil {
		return err
	}
	again, nothing := runAgainFor(o.onlyFailed)
	left, _, err := pending(run, again)
	if err != nil {
		return err
	}
	var jobs []job
	for i, tasks := range left {
		if len(tasks) == 0 {
			continue
		}
		text, _, err := run.AddScript(i, func(attempt int) ([]byte, error) {
			return slurm.Script(slurm.Job{Run: run, Array: i, Attempt: attempt, Tasks: tasks, Again: again})
		})
		if err != nil {
			return err
		}
		jobs = append(jobs, job{text, len(tasks)})
	}
	if len(jobs) == 0 {
		s.sayf("run %s: %s", run.Name(), nothing)
	}
	return runHere(ctx, s, o, run, jobs)
}

// runHere runs the arrays one after the other and ends with the table.
func runHere(ctx context.Context, s *streams, o *runOptions, run *folder.Run, jobs []job) error {
	s.sayf("run %s", shortPath(run.Dir))
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	signal.Ignore(unix.SIGPIPE) // `cpbench run | head` must not end us before our tasks
	total := 0
	for _, j := range jobs {
		total += j.tasks
	}
	show := newProgress(s, total)
	watched := show.watch(run.ResultsDir())
	defer watched() // after an error below
	for _, j := range jobs {
		exec := &local.Executor{Parallel: o.parallel, Notify: show.task}
		id, err := exec.Submit(ctx, j.script)
		if err != nil {
			return err
		}
		if err := exec.Wait(ctx, id); err != nil {
			s.sayf("stopping: the tasks write what they know")
			ended := context.WithoutCancel(ctx)
			if err := exec.Cancel(ended, id); err != nil {
				return err
			}
			if err := exec.Wait(ended, id); err != nil {
				return err
			}
			break
		}
	}
	watched()
	show.end()
	runs := []*folder.Run{run}
	err := collectRuns(context.WithoutCancel(ctx), s, runs, states.Remember(runs), collectOptions{format: "text"})
	if ctx.Err() != nil {
		s.hintf("go on with: cpbench run --run %s", shellWord(shortPath(run.Dir)))
		return errInterrupted
	}
	if show.failed > 0 {
		s.hintf("%s ended with an error; see %s", countText(show.failed, "task"), shortPath(run.LogsDir()))
	}
	return err
}

// stopSignals are what ends a run in good order. A closed terminal is one, unless nohup had it ignored.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) {
		signals = append(signals, unix.SIGHUP)
	}
	return signals
}

// isTerminal reports whether a person sees what is written to a stream, or types what is read from it.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// shellWord quotes a path for a line to type.
func shellWord(path string) string {
	q, err := slurm.ShellWord(path)
	if err != nil {
		return fmt.Sprintf("%q", path)
	}
	return q
}
