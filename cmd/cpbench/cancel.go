package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/submit"

	"github.com/urfave/cli/v2"
)

func cancelCommand(s *streams) *cli.Command {
	var runs string
	var keep bool
	return &cli.Command{
		Name:  "cancel",
		Usage: "end all jobs of a run",
		UsageText: `cpbench cancel                    # of the newest run that has started
cpbench cancel RUN --keep-collect # the job that makes the table stays`,
		Description: "Finds the jobs by name, also those that a script was given to sbatch for, and calls scancel once.\nWhat has results keeps them; submit --run RUN goes on later.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "keep-collect", DisableDefaultText: true, Usage: "leave the job alone that makes the table", Destination: &keep},
			&cli.StringFlag{Name: "runs", Usage: "look for the newest run in `DIR`", Value: runsDir, Destination: &runs},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return &usageError{fmt.Sprintf("one RUN at a time, not %d", c.NArg()), "see cpbench cancel --help"}
			}
			found, err := openRuns(s, &collectOptions{runs: runs}, c.Args().Slice())
			if err != nil {
				return err
			}
			return cancelRun(c.Context, s, found[0], keep)
		},
	}
}

func cancelRun(ctx context.Context, s *streams, run *folder.Run, keep bool) error {
	session, err := submit.Open(ctx, &slurm.Slurm{}, run, s.sayf)
	if err != nil {
		return err
	}
	var ended submit.Ended
	if err = session.Look(ctx); err == nil {
		ended, err = session.Cancel(ctx, keep)
	}
	if err := errors.Join(err, session.Close()); err != nil {
		return err
	}
	if len(ended.IDs) == 0 {
		s.sayf("nothing of run %s is in the queue", run.Name())
		return nil
	}
	text := fmt.Sprintf("cancelled %s that ran and %d that waited", countText(ended.Running, "task"), ended.Waiting)
	if ended.Collectors > 0 {
		text += ", and the job that collects"
	}
	s.sayf("%s: jobs %s", text, strings.Join(ended.IDs, ", "))
	s.hintf("go on later with: cpbench submit --run %s", shellWord(shortPath(run.Dir)))
	return nil
}
