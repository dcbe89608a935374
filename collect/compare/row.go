package compare

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cpbench/collect/compare/cell"
	"cpbench/collect/compare/guard"
	"cpbench/collect/compare/turns"
	"cpbench/plan/catalogue"
)

// Row is one point of the sweep, under one label of the cache, on both sides.
type Row struct {
	// Values are those of Report.Axes, in the user's text, the label of the cache last if there is one.
	Values []string `json:"values"`
	Case   string   `json:"case,omitempty"`
	A      Half     `json:"a"`
	B      *Half    `json:"b"` // null in a report of one variant
	// Refused are the conditions in which the sides differ although they must not; empty: the row was compared.
	Refused []guard.Difference `json:"refused,omitempty"`
	Cells   []cell.Cell        `json:"metrics"`
	Notes   []int              `json:"notes,omitempty"` // positions in Report.Notes
}

// Half is what a row has on one side.
type Half struct {
	Planned int            `json:"planned"`           // executions
	Good    int            `json:"good"`              // in the means
	Endings map[string]int `json:"endings,omitempty"` // of the others, with their reason
	// Units are independent: starts of the server, or repeats.
	Units   int    `json:"units"`
	UnitOf  string `json:"unit"`
	Streams int    `json:"streams,omitempty"` // of all groups, failed ones as well
	Success int    `json:"streams_succeeded,omitempty"`
}

// group are the executions of a row.
type group struct {
	values  []string
	rowCase string
	entries [2][]entry
}

// good yields the executions of a side that are in the means.
func (g *group) good(side int) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := range g.entries[side] {
			if e := &g.entries[side][i]; e.good() && !yield(e) {
				return
			}
		}
	}
}

// unit is one independent start or repeat.
type unit struct {
	run     *input
	number  int    // of the start or the repeat
	task    [2]int // array and task, of all of its executions
	attempt string // and restart, of all of them; empty: they took several
	entries []*entry
}

// rows puts the executions into rows, in the order of the values.
func (c *comparison) rows() []*group {
	at := map[string]*group{}
	var rows []*group
	for _, e := range c.entries {
		values := c.valuesOf(&e)
		key := strings.Join(values, "\x00")
		g, ok := at[key]
		if !ok {
			g = &group{values: values, rowCase: e.Point.Case}
			at[key] = g
			rows = append(rows, g)
		}
		g.entries[e.side] = append(g.entries[e.side], e)
	}
	slices.SortStableFunc(rows, func(a, b *group) int {
		c := 0
		for i := range a.values {
			c = cmp.Or(c, compareValues(a.values[i], b.values[i]))
		}
		return c
	})
	for _, g := range rows {
		for side := range g.entries {
			slices.SortStableFunc(g.entries[side], func(a, b entry) int {
				return cmp.Or(cmp.Compare(slices.Index(c.runs, a.run), slices.Index(c.runs, b.run)), cmp.Compare(a.Repeat, b.Repeat))
			})
		}
	}
	return rows
}

// valuesOf are the values that make a row.
func (c *comparison) valuesOf(e *entry) []string {
	values := make([]string, len(c.axes))
	for i, name := range c.axes {
		if name == cacheLabel {
			values[i] = e.CacheLabel()
			continue
		}
		for j, a := range e.run.Plan.Axes {
			if a.Name == name {
				values[i] = e.Point.Values[j]
			}
		}
	}
	return values
}

// compareValues puts numbers before words, and sorts numbers by size.
func compareValues(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX == nil && errY == nil:
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// units puts the good executions of a side into independent units, in order.
func (g *group) units(side int) []unit {
	type key struct {
		run    *input
		number int
	}
	at := map[key]int{}
	var list []unit
	for e := range g.good(side) {
		k := key{e.run, e.Repeat}
		if e.Result.Start > 0 {
			k.number = e.Result.Start
		}
		j, ok := at[k]
		if !ok {
			j = len(list)
			at[k] = j
			list = append(list, unit{run: e.run, number: k.number, task: [2]int{e.Array, e.Task}, attempt: e.attempt()})
		}
		if list[j].attempt != e.attempt() {
			list[j].attempt = ""
		}
		list[j].entries = append(list[j].entries, e)
	}
	return list
}

// half counts one side of a row.
func half(entries []entry, units []unit) Half {
	h := Half{Planned: len(entries), Units: len(units), UnitOf: guard.ByRepeat}
	for i := range entries {
		e := &entries[i]
		if e.Result != nil && e.Result.Group != nil {
			h.Streams, h.Success = h.Streams+e.Result.Group.Streams, h.Success+e.Result.Group.Succeeded
		}
		if e.good() {
			h.Good++
			h.UnitOf = guard.UnitOf(e.Result)
			continue
		}
		word := string(e.Outcome)
		if (e.Outcome == catalogue.Invalid || e.Outcome == catalogue.Skipped) && e.Reason != "" {
			word += " (" + e.Reason + ")"
		}
		if h.Endings == nil {
			h.Endings = map[string]int{}
		}
		h.Endings[word]++
	}
	return h
}

// Failures tells in words which executions are in no mean; empty: all are in it.
func (h *Half) Failures() string {
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(h.Endings)) {
		parts = append(parts, fmt.Sprintf("%d %s", h.Endings[word], word))
	}
	return strings.Join(parts, ", ")
}

// row compares a row in every metric.
func (c *comparison) row(g *group, metrics []cell.Metric) Row {
	var own [2][]unit
	for side := range own {
		own[side] = g.units(side)
	}
	row := Row{Values: g.values, Case: g.rowCase, A: half(g.entries[0], own[0]), Cells: []cell.Cell{}}
	c.failed(&row, 0, &row.A)
	c.restarted(&row, g, 0)
	if c.sides[1] == nil {
		for _, m := range metrics {
			if x, ok := m.Alone(g.rowCase, results(own[0])); ok {
				row.Cells = append(row.Cells, x)
			}
		}
		c.drifted(&row, g, metrics)
		c.doubts(&row, g)
		return row
	}
	h := half(g.entries[1], own[1])
	row.B = &h
	c.failed(&row, 1, row.B)
	c.restarted(&row, g, 1)
	how := pairing(own[0], own[1])
	if len(own[0]) > 0 && len(own[1]) > 0 {
		row.Refused = c.guard.Check(g.rowCase, g.members(), how.Name != "")
	}
	flags, both := c.oneSided(g), [2][]cell.Unit{results(own[0]), results(own[1])}
	for _, m := range metrics {
		if x, ok := m.Compare(g.rowCase, both, how); ok {
			x.Judge(m, c.o.Threshold, len(row.Refused) > 0, flags)
			row.Cells = append(row.Cells, x)
		}
	}
	c.drifted(&row, g, metrics)
	c.doubts(&row, g)
	return row
}

// results are the units without what tells them apart.
func results(units []unit) []cell.Unit {
	list := make([]cell.Unit, len(units))
	for i := range units {
		for _, e := range units[i].entries {
			list[i] = append(list[i], e.Result)
		}
	}
	return list
}

// members are the good executions of a row, by their side.
func (g *group) members() (sides [2][]guard.Member) {
	for side := range g.entries {
		for e := range g.good(side) {
			sides[side] = append(sides[side], guard.Member{Pair: e.Pair, Set: e.run.set})
		}
	}
	return sides
}

// order tells how the good executions lay in time, of rows that both sides have.
func (c *comparison) order(rows []*group) *turns.Order {
	var all []turns.Execution
	for _, g := range rows {
		if len(g.entries[0]) == 0 || len(g.entries[1]) == 0 {
			continue
		}
		for side := range g.entries {
			for e := range g.good(side) {
				task := fmt.Sprint(slices.Index(c.runs, e.run), e.Array, e.Task, e.attempt())
				all = append(all, turns.Execution{Side: side, Began: e.Result.Started, Ended: e.Result.Ended, Task: task})
			}
		}
	}
	return turns.Of([2]string{c.sides[0].Name, c.sides[1].Name}, all)
}
