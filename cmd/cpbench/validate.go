package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/refusal"
	slurmsite "cpbench/slurm/site"

	"github.com/hashicorp/go-multierror"
	"github.com/urfave/cli/v2"
)

func validateCommand(s *streams) *cli.Command {
	var onSite bool
	return &cli.Command{
		Name:      "validate",
		Usage:     "check a spec and tell every mistake at once; nothing is written",
		UsageText: "cpbench validate sweep.yaml [--slurm]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "slurm", DisableDefaultText: true, Usage: "compare with this site's limits as well, and let sbatch --test-only check each script", Destination: &onSite},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			path, err := oneArgument(c, "SPEC")
			if err != nil {
				return err
			}
			return runValidate(c.Context, s, path, onSite)
		},
	}
}

func runValidate(ctx context.Context, s *streams, path string, onSite bool) error {
	req, here := request{path: path}, &slurmsite.Site{}
	if onSite {
		here = slurmsite.Ask(ctx, &slurm.Slurm{})
		if here.Config == nil {
			why := here.Unknown[0]
			return &hinted{fmt.Errorf("%s cannot be asked: %s", why.What, why.Why), "cpbench validate SPEC checks all that needs no cluster; cpbench doctor says more"}
		}
		req.limit = func() (int, error) { return arrayLimit(here.Config), nil }
	}
	src, err := load(req)
	if err != nil {
		return err
	}
	if err := check(src); err != nil {
		return err
	}
	for _, w := range src.sum.Warnings {
		s.warnf("%s", w)
	}
	var starts []string
	if onSite {
		if starts, err = checkSite(ctx, s.voice, here, src); err != nil {
			return err
		}
	}
	tasks := 0
	for i := range src.plan.Arrays {
		tasks += len(src.plan.Arrays[i].Tasks)
	}
	_, err = fmt.Fprintf(s.out, "%s: ok: %s, %s, %s\n%s", path, src.points(),
		countText(tasks, "task"), countText(src.sum.Shapes, "resource shape"), strings.Join(starts, ""))
	return err
}

// arrayLimit is the largest array of a site; 0 where it names none, or has arrays switched off, which Check tells.
func arrayLimit(c *slurmsite.Config) int {
	if c.MaxArraySize == nil {
		return 0
	}
	return *c.MaxArraySize
}

// checkSite compares every array of a plan with the site and has sbatch test its script. It returns a line for each
// array with sbatch's estimate of its start, or every mistake as one error.
func checkSite(ctx context.Context, v voice, here *slurmsite.Site, src *source) ([]string, error) {
	for _, u := range here.Unknown {
		v.sayf("not checked: %s: %s", u.What, u.Why)
	}
	warnOverrides(v)
	run := &folder.Run{Dir: filepath.Join(filepath.Dir(src.path), runsDir, src.plan.Name), Plan: src.plan}
	var (
		many   *multierror.Error
		starts []string
		told   = map[string]bool{}
	)
	tell := func(key, text, hint string) {
		if err := src.plan.Spec.Mistake(key, text, hint); !told[err.Error()] { // arrays share most of their mistakes
			told[err.Error()] = true
			many = multierror.Append(many, err)
		}
	}
	for i := range src.plan.Arrays {
		job := slurm.Job{Run: run, Array: i, Attempt: 1}
		found := here.Check(slurmsite.RequestOf(job))
		for _, f := range found {
			tell(f.Key, f.Text, f.Advice)
		}
		script, err := slurm.Script(job)
		if err != nil {
			return nil, err
		}
		start, err := (&slurm.Slurm{}).TestOnly(ctx, script)
		switch {
		case err == nil:
			starts = append(starts, fmt.Sprintf("array %d: %s: %s\n", i, countText(len(src.plan.Arrays[i].Tasks), "task"), start))
		case slurm.Words(err) == "":
			return nil, err
		case len(found) == 0: // otherwise sbatch only says the same again, in fewer words
			tell("slurm", fmt.Sprintf("sbatch would refuse array %d: %s", i, slurm.Words(err)), refused(ctx, err, job))
		}
	}
	return starts, many.ErrorOrNil()
}

// refused is the hint for a job that sbatch takes not.
func refused(ctx context.Context, err error, job slurm.Job) string {
	if e, ok := refusal.Explain(ctx, &slurm.Slurm{}, err, job); ok {
		return strings.Join(e.Lines(), "\n")
	}
	return ""
}
