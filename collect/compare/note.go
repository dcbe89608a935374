package compare

import (
	"cmp"
	"fmt"
	"slices"

	"cpbench/collect/compare/cell"
	"cpbench/collect/compare/guard"
	"cpbench/plan/catalogue"
)

// note gives a row a note. Rows share one with the same text.
func (c *comparison) note(row *Row, code catalogue.Code, text string) {
	r := c.report
	i := slices.Index(r.Notes, Note{code, text})
	if i < 0 {
		i = len(r.Notes)
		r.Notes = append(r.Notes, Note{code, text})
	}
	if !slices.Contains(row.Notes, i) {
		row.Notes = append(row.Notes, i)
	}
}

// failed notes what is in no mean of a side.
func (c *comparison) failed(row *Row, side int, h *Half) {
	if text := h.Failures(); text != "" && h.Good > 0 {
		c.note(row, "", fmt.Sprintf("%s: %d of %d are in no mean: %s", c.sides[side].Name, h.Planned-h.Good, h.Planned, text))
	}
	if h.Units == 1 {
		why := ""
		if h.UnitOf == guard.ByStart {
			why = ", since a single start of the server has all repeats; workload.starts asks for more"
		}
		c.note(row, "", fmt.Sprintf("%s: n=1 is no evidence of repeatability%s", c.sides[side].Name, why))
	}
}

// restarted notes that the repeats of a side were measured on several processes of a server, as far as it tells them.
func (c *comparison) restarted(row *Row, g *group, side int) {
	begun := map[string]bool{}
	for e := range g.good(side) {
		if at := e.run.set.Provenance(e.Pair, nil)["server_started"]; at != "" && guard.UnitOf(e.Result) == guard.ByRepeat {
			begun[at] = true
		}
	}
	if n := len(begun); n > 1 {
		c.note(row, catalogue.ServerRestarted, fmt.Sprintf("%s: the repeats were measured on %d processes of the server, which differ by chance as well", c.sides[side].Name, n))
	}
}

// doubts notes the warnings of the results of a row: each code once for a side, or once for both in the same words.
func (c *comparison) doubts(row *Row, g *group) {
	var order []catalogue.Code
	first := [2]map[catalogue.Code]string{c.firstWords(g, 0, &order), c.firstWords(g, 1, &order)}
	for _, code := range order {
		a, inA := first[0][code]
		b, inB := first[1][code]
		switch {
		case inA && inB && a == b:
			c.note(row, code, "both: "+a)
			continue
		case inA:
			c.note(row, code, c.sides[0].Name+": "+a)
		}
		if inB {
			c.note(row, code, c.sides[1].Name+": "+b)
		}
	}
}

// firstWords are the words of the warnings of one side, those of the first execution with each code, and adds their codes
// to an order.
func (c *comparison) firstWords(g *group, side int, order *[]catalogue.Code) map[catalogue.Code]string {
	first := map[catalogue.Code]string{}
	for i := range g.entries[side] {
		x := g.entries[side][i].Result
		if x == nil {
			continue
		}
		for _, w := range x.Warnings {
			if _, ok := first[w.Code]; !ok {
				first[w.Code] = c.words(side, w.Code)
			}
			if !slices.Contains(*order, w.Code) {
				*order = append(*order, w.Code)
			}
		}
	}
	return first
}

// words are those of the first warning with a code on a side, for all of them: a page with a note for every row is not
// read, and the results have each in full. Where others have other words they are an instance.
func (c *comparison) words(side int, code catalogue.Code) string {
	if c.said == nil {
		c.said = c.sayings()
	}
	s := c.said[wordKey{side, code}]
	if s.varied {
		return "for instance " + s.first
	}
	return s.first
}

// sayings are the first words of every warning on each side.
func (c *comparison) sayings() map[wordKey]saying {
	said := map[wordKey]saying{}
	for i := range c.entries {
		e := &c.entries[i]
		if e.Result == nil {
			continue
		}
		for _, w := range e.Result.Warnings {
			k := wordKey{e.side, w.Code}
			s, ok := said[k]
			if !ok {
				s.first = w.Text
			}
			s.varied = s.varied || s.first != w.Text
			said[k] = s
		}
	}
	return said
}

// saying are the words of a warning.
type saying struct {
	first  string
	varied bool // others are not the same
}

type wordKey struct {
	side int
	code catalogue.Code
}

// flagCodes are the doubts that make sides unlike if only one has them: something has slowed it down that is no part of
// what is under test.
var flagCodes = []catalogue.Code{
	catalogue.Throttled, catalogue.ClocksUnlocked, catalogue.MemoryPressure, catalogue.SharedNode, catalogue.FewCPUs, catalogue.EnvDiffers,
	catalogue.ClientBound, catalogue.Preempted,
}

// oneSided lists the doubts that the good executions of one side have and those of the other have not.
func (c *comparison) oneSided(g *group) []string {
	var has [2]map[catalogue.Code]bool
	for side := range has {
		has[side] = map[catalogue.Code]bool{}
		for e := range g.good(side) {
			for _, w := range e.Result.Warnings {
				has[side][w.Code] = true
			}
		}
	}
	var list []string
	for _, code := range flagCodes {
		for side, s := range c.sides {
			if has[side][code] && !has[1-side][code] {
				list = append(list, fmt.Sprintf("only %s is marked %s", s.Name, code))
			}
		}
	}
	return list
}

// trendUnits is the least number of units of which a steady rise or fall is no chance: of 5 it happens in 2 of 120 orders.
const trendUnits = 5

// trend reports whether a metric only rises, or only falls, in the order of time, over enough units.
func trend(m cell.Metric, units []unit) bool {
	if len(units) < trendUnits || m.Kind != cell.Sampled {
		return false
	}
	sorted := slices.Clone(units)
	slices.SortStableFunc(sorted, func(a, b unit) int { return a.entries[0].Result.Started.Compare(b.entries[0].Result.Started) })
	_, values := m.Measured(results(sorted))
	up, down := 0, 0
	for i := 1; i < len(values); i++ {
		switch cmp.Compare(values[i], values[i-1]) {
		case 1:
			up++
		case -1:
			down++
		}
	}
	return len(values) >= trendUnits && (up == len(values)-1 || down == len(values)-1)
}

// drifted notes the metrics of a row that only rose or fell.
func (c *comparison) drifted(row *Row, g *group, metrics []cell.Metric) {
	for side := range g.entries {
		if c.sides[side] == nil {
			continue
		}
		own := g.units(side)
		for _, m := range metrics {
			if m.Applies(row.Case) && trend(m, own) {
				c.note(row, catalogue.Trend, fmt.Sprintf("%s: %s only rises or only falls over the units of a row, in the order of time", c.sides[side].Name, m.Name))
			}
		}
	}
}
