package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/cmd/cpbench/states"
	"cpbench/collect/compare"
	"cpbench/collect/compare/sheet"
	"cpbench/collect/table"
	"cpbench/plan/folder"

	"github.com/urfave/cli/v2"
)

// compareOptions are the flags of compare.
type compareOptions struct {
	a, b, keys, accept, metrics cli.StringSlice
	by, out                     string
	threshold                   float64
	asJSON                      bool
}

func compareCommand(s *streams) *cli.Command {
	o := &compareOptions{}
	return &cli.Command{
		Name:  "compare",
		Usage: "say whether a variant B is better than A, and how sure that is",
		UsageText: `cpbench compare A B                              # two runs; A is the base
cpbench compare --a R1 --a R2 --b R3             # several runs a side
cpbench compare RUN --by label                   # one run that holds both variants
cpbench compare RUN --by label=B,A               # ... with B as the base
cpbench compare --a COLD --a WARM                # one variant: its rows, and nothing to compare`,
		Description: "Rows with equal axis values are compared: means of independent repeats (of starts, where a run starts its server), the\n" +
			"ratio B/A with its 95 % interval, a verdict, and what could have been seen at all. Rows that differ in anything else\n" +
			"are refused with the keys that differ, unless --key declares one to be under test or --accept takes it as it is.\n" +
			"Exit code 3: a row was refused, or none has a good result on both sides.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "a", Usage: "a `RUN` of side A, the base; may be repeated", Destination: &o.a},
			&cli.StringSliceFlag{Name: "b", Usage: "a `RUN` of side B; may be repeated", Destination: &o.b},
			&cli.StringFlag{Name: "by", Usage: "the sides are two values of an `AXIS` within the runs; AXIS=BASE,OTHER names them", Destination: &o.by},
			&cli.StringSliceFlag{Name: "key", Usage: "`NAME` is under test, besides the label: an axis, a part of the spec such as workload.sampling, a fact such as torch; may be repeated", Destination: &o.keys},
			&cli.StringSliceFlag{Name: "accept", Usage: "rows may differ in `NAME`; the report says so; may be repeated", Destination: &o.accept},
			&cli.StringSliceFlag{Name: "metric", Usage: "compare the metric `NAME` in place of the main ones; may be repeated", Destination: &o.metrics},
			&cli.Float64Flag{Name: "threshold", Usage: "smallest change that matters, in `PERCENT`", Value: 1, Destination: &o.threshold},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the report to `FILE` and not to stdout", Destination: &o.out},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "JSON for programs, in place of Markdown", Destination: &o.asJSON},
		},
		OnUsageError: usageFault,
		Action:       func(c *cli.Context) error { return runCompare(s, o, c.Args().Slice()) },
	}
}

// runCompare compares the sides that flags and arguments name.
func runCompare(s *streams, o *compareOptions, args []string) error {
	opt := compare.Options{
		Keys: o.keys.Value(), Accept: o.accept.Value(), Metrics: o.metrics.Value(), Threshold: o.threshold / 100,
	}
	if o.threshold < 0 || o.threshold >= 100 {
		return &usageError{fmt.Sprintf("--threshold is %v", o.threshold), "a percentage from 0 up to 100, such as 1"}
	}
	dirsA, dirsB, err := sides(o, args, &opt)
	if err != nil {
		return err
	}
	a, err := openAll(dirsA)
	if err != nil {
		return err
	}
	b, err := openAll(dirsB)
	if err != nil {
		return err
	}
	if len(a) == 1 && len(b) == 0 && opt.By == "" && hasVariants(a[0]) {
		opt.By = "label" // one run that holds both
	}
	opt.States = states.Remember(slices.Concat(a, b)).Of // as the last collect or status has heard them
	r, err := compare.New(a, b, opt)
	var wrong *compare.Mistake
	if errors.As(err, &wrong) {
		return &usageError{wrong.Text, wrong.Hint}
	}
	if err != nil {
		return err
	}
	if err := o.write(s, r); err != nil {
		return err
	}
	return tellRefusals(s, r)
}

// sides are the folders of both sides.
func sides(o *compareOptions, args []string, opt *compare.Options) (a, b []string, err error) {
	a, b = o.a.Value(), o.b.Value()
	named := len(a)+len(b) > 0
	axis, values, two := strings.Cut(o.by, "=")
	if opt.By = axis; two {
		base, other, ok := strings.Cut(values, ",")
		if !ok || base == "" || other == "" || base == other {
			return nil, nil, &usageError{fmt.Sprintf("--by %s does not name two values", o.by), fmt.Sprintf("--by %s=BASE,OTHER", axis)}
		}
		opt.Base, opt.Other = base, other
	}
	switch {
	case named && len(args) > 0:
		return nil, nil, &usageError{fmt.Sprintf("%s belongs to no side", args[0]), "with --a and --b every run has one of them in front"}
	case named && opt.By != "":
		return nil, nil, &usageError{"--by and --a or --b are two ways to tell the sides", "name the runs alone: cpbench compare --by " + axis + " RUN"}
	case named && len(a) == 0:
		return nil, nil, &usageError{"side B alone is no comparison", "name the base with --a"}
	case named:
		return a, b, nil
	case len(args) == 0:
		return nil, nil, &usageError{"no run to compare", "cpbench compare A B, or cpbench compare RUN --by label"}
	case opt.By != "" || len(args) == 1:
		return args, nil, nil
	case len(args) == 2:
		return args[:1], args[1:], nil
	}
	return nil, nil, &usageError{fmt.Sprintf("%d runs have no sides", len(args)), "name the sides: --a RUN --a RUN --b RUN, or --by AXIS"}
}

func openAll(dirs []string) ([]*folder.Run, error) {
	var runs []*folder.Run
	for _, dir := range dirs {
		run, err := folder.Open(dir)
		if err != nil {
			hint := "name run folders, such as those in " + runsDir
			if inside, _ := filepath.Glob(filepath.Join(dir, "*", "plan.json")); len(inside) > 0 { // a good pattern
				hint = "it holds runs: name one of them"
			}
			return nil, &usageError{err.Error(), hint}
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// hasVariants reports whether a run has an axis label with several values.
func hasVariants(run *folder.Run) bool {
	for _, a := range run.Plan.Axes {
		if a.Name == "label" && len(a.Values) > 1 {
			return true
		}
	}
	return false
}

// write writes the report to the file of the user's, or to stdout.
func (o *compareOptions) write(s *streams, r *compare.Report) error {
	write := func(w io.Writer) error { return sheet.Write(w, r) }
	if o.asJSON {
		write = func(w io.Writer) error { return writeJSON(&streams{out: w}, r) }
	}
	if o.out == "" {
		return write(s.out)
	}
	if info, err := os.Stat(o.out); err == nil && info.IsDir() {
		return &usageError{o.out + " is a folder", "name a file, such as comparison.md"}
	}
	if err := table.WriteFile(o.out, write); err != nil {
		return err
	}
	s.sayf("wrote %s", o.out)
	return nil
}

// tellRefusals says what was not compared, and how it could be.
func tellRefusals(s *streams, r *compare.Report) error {
	if r.Comparable() {
		return nil
	}
	refusals := r.Refusals()
	for _, part := range refusals {
		s.warnf("%s refused: the sides differ in what is not under test:", countText(len(part.Rows), "row"))
		flags := ""
		for _, d := range part.Differ {
			s.sayf("  %s", d.Text())
			flags += " --accept " + shellWord(d.Key)
		}
		s.hintf("name what is under test with --key, or take the difference as it is:%s", flags)
	}
	if len(r.Rows) > 0 && len(refusals) == 0 {
		s.warnf("no row has a good result on both sides")
	}
	if len(r.Rows) == 0 {
		s.warnf("no row has both sides: %d rows have one", len(r.Single))
		for _, text := range r.Apart() {
			s.hintf("%s", text)
		}
	}
	return errIncomplete
}
