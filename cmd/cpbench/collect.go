package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cpbench/cmd/cpbench/states"
	"cpbench/collect"
	"cpbench/collect/table"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"

	"github.com/urfave/cli/v2"
)

// collectOptions are the flags of collect.
type collectOptions struct {
	runs, out, format string
	requests          string // file to which the requests are added
}

func collectCommand(s *streams) *cli.Command {
	o := &collectOptions{}
	return &cli.Command{
		Name:  "collect",
		Usage: "make the table of one or more runs",
		UsageText: `cpbench collect                            # the newest run that has started
cpbench collect RUN -o docs/cp_benchmark.md
cpbench collect RUN OTHER --format csv     # runs that measure the same`,
		Description: "Writes table.md, table.csv and raw.csv into the run folder and the table to stdout. Works at any time:\nwhat has no result yet is listed with its reason. Exit code 3: some points have no good result.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the table to `FILE` as well, with its raw data beside it; CSV if it ends in .csv", Destination: &o.out},
			&cli.StringFlag{Name: "format", Usage: "`FORM` of the table on stdout: text, markdown, csv or raw", Value: "text", Destination: &o.format},
			&cli.StringFlag{Name: "requests", Usage: "of LLM sweeps: add every request and group to `FILE`, as lines of JSON; what is in it already is refused", Destination: &o.requests},
			&cli.StringFlag{Name: "runs", Usage: "look for the newest run in `DIR`", Value: runsDir, Destination: &o.runs},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			runs, err := openRuns(s, o, c.Args().Slice())
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, stopSignals()...)
			defer stop()
			if err := addRequests(ctx, s, runs, o.requests); err != nil {
				return err
			}
			return askAndCollect(ctx, s, runs, *o)
		},
	}
}

func openRuns(s *streams, o *collectOptions, dirs []string) ([]*folder.Run, error) {
	if len(dirs) == 0 {
		run, err := folder.Newest(o.runs)
		if err != nil {
			return nil, err
		}
		s.sayf("run %s", shortPath(run.Dir))
		return []*folder.Run{run}, nil
	}
	var runs []*folder.Run
	for _, dir := range dirs {
		run, err := folder.Open(dir)
		if inside, _ := filepath.Glob(filepath.Join(dir, "*", "plan.json")); err != nil && len(inside) > 0 { // a good pattern
			return nil, &hinted{err, fmt.Sprintf("it holds runs: name one of them, or take the newest with --runs %s", shellWord(dir))}
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(runs, func(r *folder.Run) bool { return r.Dir == run.Dir }) { // named twice, read once
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// askAndCollect asks Slurm about the runs and then collects them.
func askAndCollect(ctx context.Context, s *streams, runs []*folder.Run, o collectOptions) error {
	answered := whileAsking(s.voice)
	asked := states.Ask(ctx, runs)
	answered()
	if ctx.Err() != nil {
		return errInterrupted
	}
	return collectRuns(ctx, s, runs, asked, o)
}

// slow is when a person is told what a command waits for.
const slow = 5 * time.Second

// whileAsking tells the person at the terminal when Slurm takes long, until done is called.
func whileAsking(v voice) (done func()) {
	timer := time.AfterFunc(slow, func() { v.sayf("waiting for Slurm's squeue and sacct, each at most a minute; Ctrl-C changes nothing") })
	return func() { timer.Stop() }
}

// collectRuns makes the table, writes it into the first run and to stdout, and says what is missing. asked is what Slurm
// has said about the tasks.
func collectRuns(ctx context.Context, s *streams, runs []*folder.Run, asked *states.Told, o collectOptions) error {
	write := map[string]func(*table.Table, io.Writer) error{
		"text": (*table.Table).WriteText, "markdown": (*table.Table).WriteMarkdown, "csv": (*table.Table).WriteCSV, "raw": (*table.Table).WriteRaw,
	}
	print, ok := write[o.format]
	if !ok {
		return &usageError{fmt.Sprintf("unknown format %q", o.format), "choose from text, markdown, csv, raw"}
	}
	set, err := collect.Load(runs)
	if err != nil {
		return err
	}
	set.Judge(asked.Of)
	for _, doubt := range asked.Doubts(ctx) {
		s.warnf("%s", doubt)
	}
	if asked.Forgets() && set.Counts()[catalogue.Lost] > 0 {
		s.warnf("%s", states.NoAccounting)
	}
	t := table.New(set)
	switch err := save(t, runs); {
	case err != nil:
		s.warnf("the run folder keeps no table: %v", err) // perhaps another user's run
	case len(runs) == 1:
		defer s.sayf("table.md, table.csv and raw.csv are in %s", shortPath(runs[0].Dir))
	case o.out == "":
		defer s.hintf("no run folder keeps the table of several runs: name a file with -o")
	}
	if err := saveAs(s, t, o.out); err != nil {
		return err
	}
	if err := print(t, s.out); err != nil {
		return err
	}
	for _, run := range runs {
		if n := set.Unused(run); n > 0 {
			s.warnf("%s of run %s not used: another run has the same points and repeats, and its results took their place", countText(n, "result"), run.Name())
		}
	}
	for _, p := range set.Problems {
		s.warnf("%s is not counted: %s", shortPath(p.Path), p.Reason)
	}
	return verdict(s, set)
}

// save puts the table into the folder of its run; that of several runs belongs to none of them.
func save(t *table.Table, runs []*folder.Run) error {
	if len(runs) > 1 {
		return nil
	}
	return t.Save(runs[0])
}

// saveAs writes the table to a path of the user's, and its raw data beside it.
func saveAs(s *streams, t *table.Table, path string) error {
	if path == "" {
		return nil
	}
	write := t.WriteMarkdown
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		write = t.WriteCSV
	}
	raw := strings.TrimSuffix(path, filepath.Ext(path)) + ".raw.csv"
	switch err := table.WriteFile(path, write); {
	case errors.Is(err, fs.ErrNotExist):
		return &hinted{err, "make its folder first: mkdir -p " + shellWord(filepath.Dir(path))}
	case err != nil:
		return err
	}
	if err := table.WriteFile(raw, t.WriteRaw); err != nil {
		return err
	}
	s.sayf("wrote %s and %s", path, raw)
	return nil
}

// noGoodResult reports whether an execution with that verdict has yet to give what it was planned for.
func noGoodResult(o catalogue.Outcome) bool {
	return o.Failed() || o == catalogue.Pending || o == catalogue.Running || o == catalogue.Lost || o == catalogue.Missing
}

// verdict tells what has no good result.
func verdict(s *streams, set *collect.Set) error {
	counts, bad := set.Counts(), 0
	var words []string
	for _, o := range slices.Sorted(maps.Keys(counts)) {
		if noGoodResult(o) {
			bad += counts[o]
			words = append(words, fmt.Sprintf("%d %s", counts[o], o))
		}
	}
	if bad == 0 {
		return nil
	}
	s.sayf("%d of %s without a good result: %s", bad, countText(len(set.Pairs), "execution"), strings.Join(words, ", "))
	nextSteps(s.voice, set, false)
	return errIncomplete
}

// nextSteps says what to type about executions without a good result: where their words are, and how they run again.
// open says that something still waits or runs.
func nextSteps(v voice, set *collect.Set, open bool) {
	word := shellWord(shortPath(set.Runs[0].Dir))
	var failed *collect.Pair
	again, other := false, false
	for i := range set.Pairs {
		p := &set.Pairs[i]
		began := p.Outcome == catalogue.Lost && p.State != nil && p.State.Started
		if failed == nil && (began || p.Outcome.Failed() && p.Outcome != catalogue.Cancelled) {
			failed = p
		}
		again = again || unfinished(p.Outcome) && p.Outcome != catalogue.Pending && p.Outcome != catalogue.Running
		other = other || p.Outcome.Failed() && p.Outcome.Done()
	}
	if failed != nil {
		point := failed.Run.Plan.PointName(failed.Point)
		if plain := strings.ReplaceAll(point, "=", ""); shellWord(plain) != plain { // an = needs no quotes there
			point = shellWord(point)
		}
		text := fmt.Sprintf("cpbench logs %s --run %s", point, shellWord(shortPath(failed.Run.Dir)))
		if failed.Repeat > 1 {
			text += fmt.Sprintf(" --repeat %d", failed.Repeat)
		}
		v.hintf("what a point has said: %s", text)
	}
	if open || len(set.Runs) > 1 {
		return
	}
	if again {
		v.hintf("run what is missing: cpbench submit --run %s, cpbench plan --run %[1]s --only-missing | sbatch, or here cpbench run --run %[1]s", word)
	}
	if other {
		v.hintf("what has failed, once more: cpbench submit --run %s --only-failed, or here cpbench run --run %[1]s --only-failed", word)
	}
}
