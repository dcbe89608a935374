package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/slurm"

	"github.com/urfave/cli/v2"
)

// planOptions are the flags of plan.
type planOptions struct {
	runs, where, extend, run string
	hint                     string
	table, onlyMissing       bool
	onlyFailed               string
	limit, array             int
}

func planCommand(s *streams) *cli.Command {
	o := &planOptions{}
	return &cli.Command{
		Name:  "plan",
		Usage: "freeze a sweep into a run folder and print the script of its array",
		UsageText: `cpbench plan sweep.yaml | sbatch
cpbench plan sweep.yaml --table                       # look first; writes nothing
cpbench plan --run RUN --array 1 | sbatch             # another array of a run
cpbench plan --run RUN --only-missing | sbatch        # what has no result yet
cpbench plan --run RUN --only-failed=timeout | sbatch # what ended so`,
		Description: "The script goes to stdout and everything else to stderr. A plan that fails prints nothing on stdout,\nso that sbatch refuses it. The run folder is made below cpbench-runs in the present folder.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "runs", Usage: "make the run folder below `DIR`", Value: runsDir, Destination: &o.runs},
			&cli.BoolFlag{Name: "table", DisableDefaultText: true, Usage: "print the points and write nothing", Destination: &o.table},
			&cli.StringFlag{Name: "where", Usage: "plan only the points for which `EXPR` is true", Destination: &o.where},
			&cli.StringFlag{Name: "extend", Usage: "leave out what `RUN` plans already", Destination: &o.extend},
			hintFlag(&o.hint),
			&cli.IntFlag{Name: "limit", DefaultText: "all", Usage: "ask only for the first `N` tasks; the others stay for --run RUN --only-missing", Destination: &o.limit},
			&cli.StringFlag{Name: "run", Usage: "print a script of the existing `RUN` instead of planning a spec", Destination: &o.run},
			&cli.IntFlag{Name: "array", DefaultText: "the only one", Usage: "of array `K`; needed where the run has several", Value: -1, Destination: &o.array},
			&cli.BoolFlag{Name: "only-missing", DisableDefaultText: true, Usage: "only the tasks that are in no queue and have a point without a result, or with none that counts", Destination: &o.onlyMissing},
			&cli.StringFlag{Name: "only-failed", Usage: "only the tasks with a point that failed or, if given, that ended with `OUTCOME`", Destination: &o.onlyFailed},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			if err := o.check(c); err != nil {
				return err
			}
			if o.run != "" {
				return planAgain(c.Context, s, o)
			}
			path, err := oneArgument(c, "SPEC")
			if err != nil {
				return err
			}
			return planSpec(c.Context, s, o, path)
		},
	}
}

func (o *planOptions) check(c *cli.Context) error {
	switch {
	case c.IsSet("limit") && o.limit < 1:
		return &usageError{"--limit needs a number above 0", ""}
	case c.IsSet("limit") && o.table:
		return &usageError{"--limit shortens a script, and --table writes none", "choose points with --where"}
	case o.run == "" && (o.array >= 0 || o.onlyMissing || o.onlyFailed != ""):
		return &usageError{"--array, --only-missing and --only-failed speak of a run", "add --run RUN"}
	case o.run != "" && (c.NArg() > 0 || o.where != "" || o.extend != "" || o.hint != "" || o.table):
		return &usageError{"--run names a run that is planned already: no SPEC, --table, --where, --extend or --hint with it", ""}
	}
	return checkOnly(o.onlyMissing, o.onlyFailed)
}

// checkOnly checks the flags that choose tasks of a run.
func checkOnly(onlyMissing bool, onlyFailed string) error {
	switch {
	case onlyMissing && onlyFailed != "":
		return &usageError{"--only-missing and --only-failed are two different sets", "use one of them"}
	case onlyFailed != "" && onlyFailed != "failed" && !catalogue.Outcome(onlyFailed).Known():
		var names []string
		for _, m := range catalogue.Outcomes() {
			names = append(names, string(m.Outcome))
		}
		return &usageError{fmt.Sprintf("unknown outcome %q", onlyFailed), "choose from " + strings.Join(names, ", ")}
	}
	return nil
}

// planSpec freezes a spec and prints its script if it has only one.
func planSpec(ctx context.Context, s *streams, o *planOptions, path string) error {
	ask := func() (int, error) { return siteLimit(ctx, s.voice) }
	if o.table {
		ask = nil
	}
	src, err := load(request{path: path, where: o.where, extend: o.extend, hint: o.hint, limit: ask})
	if err != nil {
		return err
	}
	if err := check(src); err != nil {
		return err
	}
	if o.table {
		describe(s.voice, src)
		return printPoints(s, src.plan)
	}
	run, err := freeze(src, o.runs)
	if err != nil {
		return err
	}
	describe(s.voice, src)
	s.sayf("run %s", shortPath(run.Dir))
	warnEnvironment(s.voice)
	if len(run.Plan.Arrays) > 1 {
		return severalArrays(run, src.sum)
	}
	return printScript(s, run, 0, o)
}

// severalArrays says what to do with arrays that do not fit one pipe; nothing goes to stdout.
func severalArrays(run *folder.Run, sum plan.Summary) error {
	why := sum.Why
	if why == "" {
		why = "the site allows fewer tasks in one array"
	} else if sum.Waste > 0 {
		why += fmt.Sprintf(" (one shape for all: %.0f %% wasted)", 100*sum.Waste)
	}
	ways := []string{fmt.Sprintf("cpbench submit --run %s   # all of them, and a job that makes the table", shellWord(shortPath(run.Dir)))}
	for i := range run.Plan.Arrays {
		c := run.Plan.Arrays[i].Cost()
		ways = append(ways, fmt.Sprintf("cpbench plan --run %s --array %d | sbatch   # %s, at most %s", shellWord(shortPath(run.Dir)), i,
			countText(c.Tasks, "task"), slurm.CostText(c.NodeSecs, c.GPUSecs)))
		if i == 9 && len(run.Plan.Arrays) > 10 {
			ways = append(ways, fmt.Sprintf("... and so on to --array %d", len(run.Plan.Arrays)-1))
			break
		}
	}
	return &hinted{fmt.Errorf("the sweep needs %d arrays and a pipe takes one: %s", len(run.Plan.Arrays), why), strings.Join(ways, "\n")}
}

// printScript writes the first script of an array, or one for its first tasks only.
func printScript(s *streams, run *folder.Run, array int, o *planOptions) error {
	text, err := os.ReadFile(run.Script(array, 1))
	if err != nil {
		return err
	}
	word := shellWord(shortPath(run.Dir))
	if n := len(run.Plan.Arrays[array].Lengths); o.limit > 0 && o.limit < n {
		tasks := make([]int, o.limit)
		for i := range tasks {
			tasks[i] = i
		}
		if text, err = slurm.Script(slurm.Job{Run: run, Array: array, Attempt: 1, Tasks: tasks}); err != nil {
			return err
		}
		s.sayf("%s of %d; the others, when these have finished: cpbench plan --run %s --only-missing | sbatch", countText(o.limit, "task"), n, word)
	}
	if isTerminal(s.out) {
		s.hintf("give this script to sbatch: cpbench plan ... | sbatch")
	}
	s.hintf("when the jobs have finished: cpbench collect %s", word)
	_, err = s.out.Write(text)
	return err
}

// planAgain prints a script of an existing run.
func planAgain(ctx context.Context, s *streams, o *planOptions) error {
	run, err := folder.Open(o.run)
	if err != nil {
		return err
	}
	array, err := o.arrayOf(run)
	if err != nil {
		return err
	}
	if err := usable(run); err != nil {
		return err
	}
	warnEnvironment(s.voice)
	if o.onlyMissing || o.onlyFailed != "" {
		return planRest(ctx, s, o, run, array)
	}
	return printScript(s, run, array, o)
}

// arrayOf is the array that the flags name, or the only one.
func (o *planOptions) arrayOf(run *folder.Run) (int, error) {
	last := len(run.Plan.Arrays) - 1
	switch {
	case o.array < 0 && last > 0:
		return 0, &usageError{fmt.Sprintf("run %s has %d arrays", run.Name(), last+1), fmt.Sprintf("add --array K, from 0 to %d", last)}
	case o.array > last:
		return 0, &usageError{fmt.Sprintf("run %s has no array %d", run.Name(), o.array), fmt.Sprintf("choose from 0 to %d", last)}
	}
	return max(o.array, 0), nil
}

// runAgainFor are the outcomes that --only-failed has run again, empty without it, and what is said where there are none.
func runAgainFor(onlyFailed string) (again []string, nothing string) {
	switch onlyFailed {
	case "":
		return nil, "every point has a result"
	case "failed":
		return []string{"failed"}, "no point failed"
	}
	return []string{onlyFailed}, "no point ended with " + onlyFailed
}

// planRest prints the script of a new attempt at the tasks that are missing or failed, and in no queue.
func planRest(ctx context.Context, s *streams, o *planOptions, run *folder.Run, array int) error {
	again, nothing := runAgainFor(o.onlyFailed)
	left, started, err := pending(run, again)
	if err != nil {
		return err
	}
	tasks, asked := notQueued(ctx, s.voice, run, array, left[array])
	if n := started[array]; n > 0 && !asked {
		s.warnf("%s of them started and left no result: make sure with squeue that they do not run any more", countText(n, "task"))
	}
	if len(tasks) < len(left[array]) {
		s.sayf("%s in the queue already", countText(len(left[array])-len(tasks), "task"))
		nothing = "what is left is in the queue"
	}
	if len(tasks) == 0 {
		return &hinted{fmt.Errorf("run %s, array %d: %s", run.Name(), array, nothing), "cpbench collect " + shellWord(shortPath(run.Dir))}
	}
	all := len(tasks)
	if o.limit > 0 && o.limit < len(tasks) {
		tasks = tasks[:o.limit]
	}
	text, attempt, err := run.AddScript(array, func(attempt int) ([]byte, error) {
		return slurm.Script(slurm.Job{Run: run, Array: array, Attempt: attempt, Tasks: tasks, Again: again})
	})
	if err != nil {
		return err
	}
	s.sayf("run %s, array %d, attempt %d: %d of %s", run.Name(), array, attempt, len(tasks), countText(all, "task"))
	_, err = s.out.Write(text)
	return err
}

// warnOverrides names the variables that beat the directives of a script.
func warnOverrides(v voice) {
	for _, kv := range slurm.Overrides(os.Environ()) {
		name, _, _ := strings.Cut(kv, "=")
		v.warnf("%s is set and beats the script's own directive: %s", name, kv)
	}
}

// warnEnvironment names what of this process's environment a sbatch behind the pipe takes over.
func warnEnvironment(v voice) {
	warnOverrides(v)
	if job := os.Getenv("SLURM_JOB_ID"); job != "" { // an inherited SLURM_GPUS_PER_NODE lets the tasks' own srun fail
		v.warnf("this is inside job %s, and a sbatch behind the pipe hands its variables, such as SLURM_GPUS_PER_NODE, on to the tasks", job)
		v.hintf("cpbench submit leaves them out")
	}
}

// printPoints lists the points of a plan in the order in which they will run.
func printPoints(s *streams, p *plan.Plan) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	head := []string{"array", "task", "repeat"}
	for _, a := range p.Axes {
		head = append(head, a.Name)
	}
	fmt.Fprintln(w, strings.Join(append(head, "point"), "\t"))
	for _, a := range p.Arrays {
		for _, t := range a.Tasks {
			for _, pair := range t.Pairs {
				fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\n", t.Array, t.Index, pair.Repeat, strings.Join(pair.Values, "\t"), pair.ID)
			}
		}
	}
	return w.Flush()
}

// shortPath is a path relative to the present folder where that is shorter.
func shortPath(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "../..") {
		return path
	}
	return rel
}
