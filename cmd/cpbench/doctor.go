package main

import (
	"context"
	"time"

	"cpbench/cmd/cpbench/doctor"
	"cpbench/plan/folder"
	"cpbench/slurm"
	slurmsite "cpbench/slurm/site"

	"github.com/urfave/cli/v2"
)

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
	here := slurmsite.Ask(ctx, &slurm.Slurm{})
	var spec *doctor.Spec
	if path != "" {
		req := request{path: path}
		if here.Config != nil {
			req.limit = func() (int, error) { return arrayLimit(here.Config), nil }
		}
		src, err := load(req)
		if err != nil {
			return err
		}
		if err := check(src); err != nil {
			return err
		}
		spec = &doctor.Spec{Path: src.path, Text: src.text, Plan: src.plan}
	}
	d := doctor.New(here, spec, o.runs, version().Version)
	d.Look(ctx)
	switch {
	case here.Config == nil && o.inJob:
		d.Add(doctor.Finding{Check: "job", Grade: doctor.Bad, Text: "no job can be submitted from here", Advice: "run it where sbatch works"})
	case here.Config == nil: // there are no compute nodes
	case o.inJob:
		d.LookFromJob(ctx, s.sayf, o.patience)
	default:
		d.Add(doctor.Finding{
			Check: "job", Grade: doctor.Good, Text: "not looked at from a compute node: a shared run folder, its clock, its GPUs, and the program after the set-up lines",
			Advice: "cpbench doctor" + specWord(path) + " --job submits a small job that looks from there",
		})
	}
	write := d.Write
	if o.asJSON {
		write = d.WriteJSON
	}
	if err := write(s.out); err != nil {
		return err
	}
	if d.Bad() {
		return errIncomplete
	}
	return nil
}

// specWord is a path as an argument behind a command.
func specWord(path string) string {
	if path == "" {
		return ""
	}
	return " " + shellWord(path)
}

func probeCommand() *cli.Command {
	var setup string
	return &cli.Command{
		Name:         "probe",
		Usage:        "look at this node for cpbench doctor; its job calls it",
		Hidden:       true,
		Flags:        []cli.Flag{&cli.StringFlag{Name: "setup-failed", Usage: "LINE:RC of the set-up line that failed", Destination: &setup}},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			dir, err := oneArgument(c, "RUN")
			if err != nil {
				return err
			}
			run, err := folder.Open(dir)
			if err != nil {
				return err
			}
			return doctor.Probe(c.Context, run, setup)
		},
	}
}
