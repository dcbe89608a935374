package main

import (
	"context"
	"fmt"
	"os/signal"

	"cpbench/cmd/cpbench/states"
	"cpbench/collect"
	"cpbench/collect/picture"
	"cpbench/plan/folder"

	"github.com/urfave/cli/v2"
)

// statusOptions are the flags of status.
type statusOptions struct {
	runs                     string
	watch, json, failed, all bool
}

func statusCommand(s *streams) *cli.Command {
	o := &statusOptions{}
	return &cli.Command{
		Name:      "status",
		Usage:     "say how a run stands: counts, then points by verdict",
		ArgsUsage: "[RUN]",
		UsageText: `cpbench status              # the newest run that has started
cpbench status RUN --failed
cpbench status --watch      # looks again every minute`,
		Description: "Asks Slurm once, if there is one, and reads the run folder. Final states are kept in the run's states.json,\nbecause Slurm forgets them. Exit code 3: everything has ended, and some points have no good result.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Usage: "look again every minute until everything has ended", Destination: &o.watch},
			&cli.BoolFlag{Name: "failed", Usage: "list only what has failed, is lost or will not start", Destination: &o.failed},
			&cli.BoolFlag{Name: "all", Usage: "list every point, also what is measured", Destination: &o.all},
			&cli.BoolFlag{Name: "json", Usage: "print every execution as JSON", Destination: &o.json},
			&cli.StringFlag{Name: "runs", Usage: "look for the newest run in `DIR`", Value: runsDir, Destination: &o.runs},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() > 1:
				return &usageError{fmt.Sprintf("one RUN at a time, not %d", c.NArg()), "see cpbench status --help"}
			case o.watch && o.json:
				return &usageError{"--watch is for people and --json for programs", "leave one of them out"}
			case o.failed && o.all:
				return &usageError{"--failed lists less and --all lists more", "leave one of them out"}
			}
			runs, err := openRuns(s, &collectOptions{runs: o.runs}, c.Args().Slice())
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, stopSignals()...)
			defer stop()
			return runStatus(ctx, s, runs[0], o)
		},
	}
}

func (o *statusOptions) scope() picture.Scope {
	switch {
	case o.all:
		return picture.All
	case o.failed:
		return picture.Failed
	}
	return picture.Usual
}

func runStatus(ctx context.Context, s *streams, run *folder.Run, o *statusOptions) error {
	if o.watch {
		screen, stop := screenOn(s.out, o.scope())
		defer stop()
		return watch(ctx, screen, func(ctx context.Context) (*picture.Picture, error) { return takePicture(ctx, run) })
	}
	answered := whileAsking(s.voice)
	p, err := takePicture(ctx, run)
	answered()
	if err != nil {
		return err
	}
	for _, doubt := range p.Doubts {
		s.warnf("%s", doubt)
	}
	if o.json {
		if err := p.WriteJSON(s.out); err != nil {
			return err
		}
		return ending(p)
	}
	if err := p.Write(s.out, o.scope()); err != nil {
		return err
	}
	nextSteps(s.voice, p.Set, p.Open())
	return ending(p)
}

// takePicture asks Slurm first and lists the folder second.
func takePicture(ctx context.Context, run *folder.Run) (*picture.Picture, error) {
	runs := []*folder.Run{run}
	asked := states.Ask(ctx, runs)
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	set, err := collect.Load(runs)
	if err != nil {
		return nil, err
	}
	set.Judge(asked.Of)
	p := &picture.Picture{Run: run, Set: set, Taken: asked.Taken, Doubts: asked.Doubts(ctx), Asked: asked.Snapshot != nil, Silent: asked.Err}
	if asked.Snapshot != nil {
		p.Accounting = asked.Snapshot.Accounting
	}
	if asked.Forgets() {
		p.Lost = states.NoAccounting
	}
	return p, nil
}

// ending is the status with which the command ends.
func ending(p *picture.Picture) error {
	if p.Open() {
		return nil
	}
	for o, n := range p.Set.Counts() {
		if n > 0 && noGoodResult(o) {
			return errIncomplete
		}
	}
	return nil
}
