package compare

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/collect/compare/guard"
	"cpbench/plan"
	"cpbench/plan/folder"
)

// input is a run with its results.
type input struct {
	*folder.Run
	set *collect.Set
}

// entry is one planned execution on one side.
type entry struct {
	*collect.Pair
	run  *input
	side int
}

// comparison is the work on a report.
type comparison struct {
	o       Options
	kind    string
	runs    []*input
	sides   [2]*Side // the second is nil in a report of one variant
	entries []entry
	axes    []string // that make a row, the label of the cache last if there is one
	tests   []string // axes under test
	guard   *guard.Guard
	report  *Report
	said    map[wordKey]saying // of warnings, by side and code
}

// gather reads the runs, refuses the same execution twice, and puts every execution on its side.
func gather(a, b []*folder.Run, o Options) (*comparison, error) {
	c := &comparison{o: o}
	for _, run := range append(slices.Clone(a), b...) {
		for _, other := range c.runs {
			if real(other.Dir) == real(run.Dir) {
				return nil, mistake("name every run once", "%s is given twice", run.Dir)
			}
		}
		set, err := collect.Load([]*folder.Run{run})
		if err != nil {
			return nil, err
		}
		if o.States != nil {
			set.Judge(o.States)
		}
		c.runs = append(c.runs, &input{run, set})
		if kind := run.Plan.Spec.Workload.Kind; c.kind != "" && kind != c.kind {
			return nil, mistake("", "%s is a run of `kind: %s`, and %s of `kind: %s`", c.runs[0].Name(), c.kind, run.Name(), kind)
		} else {
			c.kind = kind
		}
	}
	if err := c.twice(); err != nil {
		return nil, err
	}
	if err := c.shape(); err != nil {
		return nil, err
	}
	return c, c.assign(len(a))
}

// real is the path of a folder without symbolic links.
func real(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	return dir
}

// twice refuses results that stand in two of the runs: a run folder that was copied, or a result.
func (c *comparison) twice() error {
	type key struct {
		point                    string
		repeat, attempt, restart int
		began, ended             int64
		host                     string
	}
	seen := map[key]string{}
	for _, run := range c.runs {
		for i := range run.set.Pairs {
			p := &run.set.Pairs[i]
			x := p.Result
			if x == nil || x.Started.IsZero() {
				continue
			}
			k := key{p.Point.ID, p.Repeat, x.Attempt, x.Restart, x.Started.UnixNano(), x.Ended.UnixNano(), x.Host}
			place := filepath.Join(run.Dir, p.Path())
			if first, ok := seen[k]; ok {
				return mistake("leave one of them out: a copy of a result is no repeat",
					"the same execution stands in two places (%s, repeat %d, attempt %d): %s and %s", run.Plan.PointName(p.Point), p.Repeat, x.Attempt, first, place)
			}
			seen[k] = place
		}
	}
	return nil
}

// assign puts the executions on their sides. The first n runs are those of side A.
func (c *comparison) assign(n int) error {
	base, other := c.o.Base, c.o.Other
	if c.o.By != "" && base == "" {
		values := c.values(c.o.By)
		if len(values) != 2 {
			hint := fmt.Sprintf("say which two, the base first: --by %s=%s", c.o.By, strings.Join(values[:min(2, len(values))], ","))
			return mistake(hint, "the axis %q has %d values in these runs: %s", c.o.By, len(values), strings.Join(values, ", "))
		}
		base, other = values[0], values[1]
	}
	c.sides[0] = newSide("A")
	if c.o.By != "" || n < len(c.runs) {
		c.sides[1] = newSide("B")
	}
	for i, run := range c.runs {
		at := slices.IndexFunc(run.Plan.Axes, func(a plan.Axis) bool { return a.Name == c.o.By })
		for j := range run.set.Pairs {
			e := entry{Pair: &run.set.Pairs[j], run: run}
			switch {
			case c.o.By == "":
				if i >= n {
					e.side = 1
				}
			case at < 0 || e.Point.Values[at] != base && e.Point.Values[at] != other:
				continue
			case e.Point.Values[at] == other:
				e.side = 1
			}
			c.entries = append(c.entries, e)
			c.count(&e)
		}
	}
	return c.named()
}

// attempt names the attempt and the restart of a good execution: those of one task share an allocation.
func (e *entry) attempt() string { return fmt.Sprintf("a%d.%d", e.Result.Attempt, e.Result.Restart) }

// good reports whether an execution is in the means.
func (e *entry) good() bool { return e.Outcome.Fits() && e.Result != nil }
