package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cpbench/collect/compare/guard"
	"cpbench/plan"
)

// cacheLabel is the name of the column of what the cache did.
const cacheLabel = "cache label"

// shape finds the axes: those under test, with what is zipped to them, and those that make a row. All runs have the same.
func (c *comparison) shape() error {
	test := c.underTest()
	var own [][]string // of every run, those that make a row
	for _, run := range c.runs {
		var names []string
		for _, a := range run.Plan.Axes {
			switch {
			case !test[a.Name]:
				names = append(names, a.Name)
			case !slices.Contains(c.tests, a.Name):
				c.tests = append(c.tests, a.Name)
			}
		}
		own = append(own, names)
	}
	c.axes = own[0]
	for i, names := range own[1:] {
		if err := lacks(c.runs[0], c.runs[i+1], c.axes, names); err != nil {
			return err
		}
		if err := lacks(c.runs[i+1], c.runs[0], names, c.axes); err != nil {
			return err
		}
	}
	if c.kind == "llm" {
		c.axes = append(c.axes, cacheLabel)
	}
	if c.o.By != "" && !slices.Contains(c.tests, c.o.By) {
		return mistake("choose from "+strings.Join(append(c.tests, c.axes...), ", "), "no run has an axis %q", c.o.By)
	}
	return nil
}

// lacks reports an axis of one run that the other has not.
func lacks(run, other *input, have, names []string) error {
	for _, name := range have {
		if !slices.Contains(names, name) {
			return mistake(fmt.Sprintf("declare it with --key %s if it is under test", name), "the axis %q of %s is not in %s", name, run.Name(), other.Name())
		}
	}
	return nil
}

// underTest are the axes by which a row is not told apart: the label, those that were named, and what is zipped to them.
func (c *comparison) underTest() map[string]bool {
	test := map[string]bool{guard.Label: true, c.o.By: true}
	for _, name := range append(slices.Clone(c.o.Keys), c.o.Accept...) {
		test[name] = true
	}
	for _, run := range c.runs {
		for _, group := range run.Plan.Spec.Zip {
			if !slices.ContainsFunc(group, func(a plan.AxisValues) bool { return test[a.Name] }) {
				continue
			}
			for _, a := range group {
				test[a.Name] = true
			}
		}
	}
	return test
}

// named gives the sides their names, the value that tells them apart if one does, and says what makes them.
func (c *comparison) named() error {
	made := c.made()
	for i, s := range c.sides {
		if s == nil {
			continue
		}
		if s.Executions == 0 {
			return mistake("", "there is no execution for side %s", s.Name)
		}
		if err := c.uniform(s, made[i]); err != nil {
			return err
		}
	}
	c.guard = guard.New(c.o.Keys, c.o.Accept, c.tests)
	labels := [2][]string{made[0][guard.Label], made[1][guard.Label]}
	if c.sides[1] == nil {
		if len(labels[0]) == 1 {
			c.sides[0].Name = labels[0][0]
		}
		return nil
	}
	if !slices.Equal(labels[0], labels[1]) {
		c.guard = guard.New(append([]string{guard.Label}, c.o.Keys...), c.o.Accept, c.tests)
	}
	telling := cmp.Or(c.o.By, guard.Label)
	x, y := made[0][telling], made[1][telling]
	if len(x) != 1 || len(y) != 1 || x[0] == y[0] {
		return nil
	}
	if c.sides[0].Name, c.sides[1].Name = x[0], y[0]; telling != guard.Label {
		c.sides[0].Name, c.sides[1].Name = telling+"="+x[0], telling+"="+y[0]
	}
	return nil
}

// made lists the values that the axes under test have on each side.
func (c *comparison) made() (sides [2]map[string][]string) {
	sides = [2]map[string][]string{{}, {}}
	for i := range c.entries {
		e := &c.entries[i]
		for at, a := range e.run.Plan.Axes {
			if v := e.Point.Values[at]; slices.Contains(c.tests, a.Name) && !slices.Contains(sides[e.side][a.Name], v) {
				sides[e.side][a.Name] = append(sides[e.side][a.Name], v)
			}
		}
	}
	return sides
}

// uniform checks that a side is one variant, and writes down which.
func (c *comparison) uniform(s *Side, made map[string][]string) error {
	for _, name := range c.tests {
		values := made[name]
		if len(values) > 1 {
			return mistake(fmt.Sprintf("compare them with --by %s, the base first: --by %s=%s", name, name, strings.Join(values[:2], ",")),
				"side %s holds %s: two variants are no one side", s.Name, oneOf(name, values))
		}
		if len(values) == 1 {
			s.What = append(s.What, name+"="+values[0])
		}
	}
	return nil
}

func oneOf(name string, values []string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = name + "=" + v
	}
	return strings.Join(parts, " and ")
}

// values lists the values of an axis over the runs, in the order in which they stand there.
func (c *comparison) values(axis string) []string {
	var list []string
	for _, run := range c.runs {
		at := slices.IndexFunc(run.Plan.Axes, func(a plan.Axis) bool { return a.Name == axis })
		if at < 0 {
			continue
		}
		used := map[string]bool{}
		for i := range run.set.Pairs {
			used[run.set.Pairs[i].Point.Values[at]] = true
		}
		for _, v := range append(slices.Clone(run.Plan.Axes[at].Values), slices.Sorted(maps.Keys(used))...) {
			if used[v] && !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	return list
}

// under lists what is under test.
func (c *comparison) under() []string {
	list := slices.Clone(c.tests)
	for _, key := range c.o.Keys {
		if !slices.Contains(list, key) {
			list = append(list, key)
		}
	}
	return slices.DeleteFunc(list, func(key string) bool { return slices.Contains(c.o.Accept, key) })
}
