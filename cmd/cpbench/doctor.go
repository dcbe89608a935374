package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"cpbench/slurm"
	slurmsite "cpbench/slurm/site"

	"github.com/urfave/cli/v2"
)

// grade says how good a finding is.
type grade string

// The grades. Only bad ones make doctor fail.
const (
	good grade = "ok"
	warn grade = "warn"
	bad  grade = "bad"
)

// finding is one thing that doctor has looked at.
type finding struct {
	Check  string `json:"check"` // what was looked at
	Grade  grade  `json:"grade"`
	Text   string `json:"text"`             // what was seen, and what it means
	Advice string `json:"advice,omitempty"` // what to do
}

// doctor collects findings.
type doctor struct {
	here  *slurmsite.Site
	src   *source // nil: no spec was given
	runs  string  // where runs are kept
	found []finding
}

func (d *doctor) add(check string, g grade, advice, format string, args ...any) {
	d.found = append(d.found, finding{check, g, fmt.Sprintf(format, args...), advice})
}

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	runs          string
	asJSON, inJob bool
	patience      time.Duration
}

func doctorCommand(s *streams) *cli.Command {
	o := &doctorOptions{}
	return &cli.Command{
		Name:      "doctor",
		Usage:     "look at this machine and its Slurm, and say what a sweep will meet; exit status 3 if anything is bad",
		UsageText: "cpbench doctor [sweep.yaml] [--job] [--json]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "job", DisableDefaultText: true, Usage: "submit a job of one CPU, or one GPU if the spec has any, and look from its node as well", Destination: &o.inJob},
			&cli.DurationFlag{Name: "patience", Value: 10 * time.Minute, Usage: "how long to wait for that job", Destination: &o.patience},
			&cli.StringFlag{Name: "runs", Value: runsDir, Usage: "keep runs below `DIR`", Destination: &o.runs},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print JSON", Destination: &o.asJSON},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			path := ""
			if c.Args().Present() {
				var err error
				if path, err = oneArgument(c, "SPEC"); err != nil {
					return err
				}
			}
			return runDoctor(c.Context, s, path, o)
		},
	}
}

func runDoctor(ctx context.Context, s *streams, path string, o *doctorOptions) error {
	d := &doctor{here: slurmsite.Ask(ctx, &slurm.Slurm{}), runs: o.runs}
	if path != "" {
		req := request{path: path}
		if d.here.Config != nil {
			req.limit = func() (int, error) { return arrayLimit(d.here.Config), nil }
		}
		var err error
		if d.src, err = load(req); err != nil {
			return err
		}
		if err := check(d.src); err != nil {
			return err
		}
	}
	d.lookAtSlurm()
	d.lookHere(ctx)
	if d.src != nil {
		d.compareSpec()
	}
	switch {
	case d.here.Config == nil && o.inJob:
		d.add("job", bad, "run it where sbatch works", "no job can be submitted from here")
	case d.here.Config == nil: // there are no compute nodes
	case o.inJob:
		d.lookFromJob(ctx, s.voice, o.patience)
	default:
		d.add("job", good, "cpbench doctor"+specWord(path)+" --job submits a small job that looks from there", "not looked at from a compute node: a shared run folder, its clock, its GPUs, and the program after the set-up lines")
	}
	return d.tell(s, o.asJSON)
}

// specWord is a path as an argument behind a command.
func specWord(path string) string {
	if path == "" {
		return ""
	}
	return " " + shellWord(path)
}

// tell prints the findings. Only bad ones make the command fail.
func (d *doctor) tell(s *streams, asJSON bool) error {
	var err error
	if asJSON {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")
		err = enc.Encode(d.found)
	} else {
		for _, f := range d.found {
			advice := ""
			if f.Advice != "" {
				advice = "\n      -> " + f.Advice
			}
			if _, err = fmt.Fprintf(s.out, "%-4s  %s: %s%s\n", f.Grade, f.Check, f.Text, advice); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	for _, f := range d.found {
		if f.Grade == bad {
			return errIncomplete
		}
	}
	return nil
}
