package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"time"

	"cpbench/collect"
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

func runStatus(ctx context.Context, s *streams, run *folder.Run, o *statusOptions) error {
	look := func(ctx context.Context) (*picture, error) { return takePicture(ctx, run) }
	if o.watch {
		return watch(ctx, s.out, isTerminal(s.out), o, look)
	}
	p, err := look(ctx)
	if err != nil {
		return err
	}
	for _, doubt := range p.doubts {
		s.warnf("%s", doubt)
	}
	if o.json {
		if err := p.writeJSON(s.out); err != nil {
			return err
		}
		return p.verdict()
	}
	if err := p.write(s.out, o); err != nil {
		return err
	}
	return p.verdict()
}

// picture is how a run stands at one moment.
type picture struct {
	run    *folder.Run
	taken  time.Time
	set    *collect.Set
	asked  *scheduler
	doubts []string
}

// takePicture asks Slurm first and lists the folder second.
func takePicture(ctx context.Context, run *folder.Run) (*picture, error) {
	runs := []*folder.Run{run}
	asked := askSlurm(ctx, runs)
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	set, err := collect.Load(runs)
	if err != nil {
		return nil, err
	}
	set.Judge(asked.state)
	return &picture{run: run, taken: asked.taken, set: set, asked: asked, doubts: asked.doubts(ctx)}, nil
}

// open reports whether something may still change by itself.
func (p *picture) open() bool {
	for i := range p.set.Pairs {
		if stirs(&p.set.Pairs[i]) {
			return true
		}
	}
	return false
}

// verdict is the status with which the command ends.
func (p *picture) verdict() error {
	if p.open() {
		return nil
	}
	for o, n := range p.set.Counts() {
		if n > 0 && noGoodResult(o) {
			return errIncomplete
		}
	}
	return nil
}

// watchPause is the time between two looks: every look costs Slurm two requests.
const watchPause = time.Minute

// watch draws a run's picture again and again until everything has ended or ctx ends. While Slurm does not answer, the
// last picture stays, with its age.
func watch(ctx context.Context, out io.Writer, terminal bool, o *statusOptions, look func(context.Context) (*picture, error)) error {
	var last *picture
	for {
		p, err := look(ctx)
		trouble := ""
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case err != nil && last == nil:
			return err
		case err != nil:
			trouble = err.Error()
		case p.asked.err != nil && last != nil:
			trouble = p.asked.err.Error()
		default:
			last = p
		}
		if err := draw(out, terminal, o, last, trouble); err != nil {
			return err
		}
		if trouble == "" && !last.open() {
			return last.verdict()
		}
		timer := time.NewTimer(watchPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errInterrupted
		}
	}
}

// draw puts a picture onto the screen, or below the one before where there is none.
func draw(out io.Writer, terminal bool, o *statusOptions, p *picture, trouble string) error {
	if terminal {
		if _, err := io.WriteString(out, "\x1b[H\x1b[2J"); err != nil {
			return err
		}
	}
	age := "run " + p.run.Name() + " at " + p.taken.Format(time.TimeOnly)
	if trouble != "" {
		age += fmt.Sprintf(", %v ago; there is no newer answer: %s", time.Since(p.taken).Round(time.Second), trouble)
	}
	if _, err := fmt.Fprintln(out, age); err != nil {
		return err
	}
	for _, doubt := range p.doubts {
		if _, err := fmt.Fprintln(out, "warning: "+doubt); err != nil {
			return err
		}
	}
	return p.write(out, o)
}

// execution is one execution as status --json prints it; what is not known is null.
type execution struct {
	Point     string            `json:"point"`
	Values    map[string]string `json:"values"`
	Repeat    int               `json:"repeat"`
	Array     int               `json:"array"`
	Task      int               `json:"task"`
	Outcome   string            `json:"outcome"`
	Reason    *string           `json:"reason"`
	State     *string           `json:"state"` // Slurm's word for the task
	Exit      *string           `json:"exit"`
	Node      *string           `json:"node"`
	Since     *time.Time        `json:"since"` // the start of the task
	Attempt   *int              `json:"attempt"`
	WontStart bool              `json:"wont_start"`
	Advice    *string           `json:"advice"`
}

func (p *picture) writeJSON(w io.Writer) error {
	counts := map[string]int{}
	for o, n := range p.set.Counts() {
		counts[string(o)] = n
	}
	list := make([]execution, len(p.set.Pairs))
	for i := range p.set.Pairs {
		pair := &p.set.Pairs[i]
		e := execution{
			Point: pair.Point.ID, Values: map[string]string{}, Repeat: pair.Repeat, Array: pair.Array, Task: pair.Task,
			Outcome: string(pair.Outcome), Reason: known(pair.Reason), WontStart: wontStart(pair), Advice: known(p.advice(pair)),
		}
		for j, axis := range p.run.Plan.Axes {
			e.Values[axis.Name] = pair.Point.Values[j]
		}
		if state := pair.State; state != nil {
			e.State, e.Exit, e.Node = known(state.Word), known(state.Exit), known(state.Node)
			e.Since, e.Attempt = known(state.Since), known(state.Attempt)
		}
		list[i] = e
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	return enc.Encode(map[string]any{
		"schema": 1, "run": p.run.Name(), "dir": p.run.Dir, "taken": p.taken.UTC().Truncate(time.Second),
		"asked": p.asked.snap != nil, "accounting": p.asked.snap != nil && p.asked.snap.Accounting, "open": p.open(),
		"doubts": append([]string{}, p.doubts...), "counts": counts, "executions": list,
	})
}

// known is nil for a value that says nothing.
func known[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}
