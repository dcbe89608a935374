package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"cpbench/cmd/cpbench/states"
	"cpbench/collect/trail"
	"cpbench/plan/folder"

	"github.com/urfave/cli/v2"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	run, runs    string
	follow       bool
	rank, repeat int
}

func logsCommand(s *streams) *cli.Command {
	o := &logsOptions{}
	return &cli.Command{
		Name:      "logs",
		Usage:     "print the logs of a point",
		ArgsUsage: "POINT",
		UsageText: `cpbench logs cp=4,tokens=2048       # or as few values as tell it apart
cpbench logs tokens=max-fit -f      # until the point has ended
cpbench logs 3f2a --rank 2          # the beginning of its id`,
		Description: "POINT is an id, a beginning of one, or axis values. Prints what the newest attempt has left: Slurm's output\nfile with the set-up lines, the worker's own words, and the logs of ranks, launcher or program.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the point has ended", Destination: &o.follow},
			&cli.IntFlag{Name: "rank", Usage: "of the logs of ranks only that of `N`", Value: trail.AllRanks, DefaultText: "all", Destination: &o.rank},
			&cli.IntFlag{Name: "repeat", Usage: "repeat `N` of the point", DefaultText: "the first", Destination: &o.repeat},
			&cli.StringFlag{Name: "run", Usage: "look into `RUN` instead of the newest that has started", Destination: &o.run},
			&cli.StringFlag{Name: "runs", Usage: "look for the newest run in `DIR`", Value: runsDir, Destination: &o.runs},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			text, err := oneArgument(c, "POINT")
			if err != nil {
				return err
			}
			var dirs []string
			if o.run != "" {
				dirs = []string{o.run}
			}
			runs, err := openRuns(s, &collectOptions{runs: o.runs}, dirs)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, stopSignals()...)
			defer stop()
			return runLogs(ctx, s, runs[0], text, o)
		},
	}
}

// choose is the repeat of the point with the number that the flag gives, or its first one. Those of later starts of a
// server, and those of an extended run, do not count from 1.
func (o *logsOptions) choose(repeats []trail.Execution) (trail.Execution, error) {
	if o.repeat == 0 {
		return repeats[0], nil
	}
	var numbers []string
	for _, of := range repeats {
		if of.Repeat == o.repeat {
			return of, nil
		}
		numbers = append(numbers, strconv.Itoa(of.Repeat))
	}
	return trail.Execution{}, &usageError{fmt.Sprintf("the point has no repeat %d", o.repeat), "choose from " + strings.Join(numbers, ", ")}
}

func runLogs(ctx context.Context, s *streams, run *folder.Run, text string, o *logsOptions) error {
	repeats, err := trail.Choose(run, text)
	var notOne *trail.NotOne
	if errors.As(err, &notOne) {
		return &usageError{notOne.Text, notOne.Hint}
	}
	if err != nil {
		return err
	}
	of, err := o.choose(repeats)
	if err != nil {
		return err
	}
	t := trail.New(run, of, o.rank, s.out, shortPath)
	s.sayf("%s (%s), repeat %d: array %d, task %d", run.Plan.PointName(of.Point), of.ID, of.Repeat, of.Array, of.Task)
	status := "cpbench status " + shellWord(shortPath(run.Dir))
	if o.follow {
		why, err := t.Follow(ctx, func(ctx context.Context) trail.Fate { return states.Fate(ctx, run, of) }, func(words string) { s.sayf("%s", words) })
		if err != nil || why == "" {
			return err
		}
		s.sayf("%s", why)
		s.hintf("more about it: %s", status)
		return errIncomplete
	}
	switch any, err := t.Print(); {
	case err != nil:
		return err
	case !any:
		return &hinted{errors.New("the point has left no log yet"), "what it waits for is told by " + status}
	case !t.Measured():
		s.sayf("no result of this attempt; whether it still runs, or how it ended, is told by %s", status)
	}
	// The requests of an LLM task are for programs, and too many to print.
	if files, _ := filepath.Glob(filepath.Join(run.LogsDir(), fmt.Sprintf("%d-%d-a*", of.Array, of.Task), "requests*.jsonl")); len(files) > 0 {
		s.hintf("the requests of its task, stream by stream: %s", shellWord(shortPath(files[len(files)-1])))
	}
	return nil
}
