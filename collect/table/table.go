// Package table makes the table that is published out of a collect.Set: points by metrics, with intervals, footnotes
// and what is missing. Use New, then WriteMarkdown, WriteCSV, WriteRaw or Save.
package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// Table is points by metrics: one row for each point, its repeats folded; of `kind: llm` one for each label of the cache
// at a point.
type Table struct {
	Set     *collect.Set
	Plan    *plan.Plan // of the first run: its columns, its order of axes
	Rows    []Row
	Axes    []int    // indices of the axes that the contract's columns do not show
	Columns []string // titles of the user's columns
	Notes   []Note   // footnotes; rows refer to them by position
}

// Row is one point.
type Row struct {
	Point               string
	Case                string
	Values              []string // axis values in the user's text, in the plan's order
	Tokens, Atoms, MSA  *int64   // as asked for; of a search those of the largest size that fits
	Padded              *int64   // N as run
	Ranks               int      // 0: unknown
	Topology            string
	Outcome             string // ok, `fits 2/3`, or what happened instead
	Good, Judged, Asked int    // repeats that are ok, that have ended, that were planned
	Metrics             map[string]float64
	Interval            Interval
	Spread              *float64       // over repeats; nil below 2
	Search              *result.MaxFit // of a search
	Serving             *Serving       // of `kind: llm`
	User                []any          // cells of the user's columns; nil: not available
	Notes               []int          // positions in Table.Notes

	pairs []*collect.Pair
	size  func(n int64) int64 // tokens at a value of the searched axis
}

// Executions are those that the row stands for, by repeat.
func (r *Row) Executions() []*collect.Pair { return r.pairs }

// Note is a doubt that one or more rows share.
type Note struct {
	Code catalogue.Code // empty: no doubt, but why the answer of a search is a bound only
	Text string
	Hint string

	shape       string   // Text with gap for every number
	least, most []string // each of these numbers, over the rows that share the note
}

// New folds the repeats of every point and orders the rows: by CP size, by the other axes, by tokens, and the search
// for the largest size last in its group.
func New(s *collect.Set) *Table {
	t := &Table{Set: s, Plan: s.Runs[0].Plan}
	shown := axesOf(t.Plan.Spec, "ranks", "tokens", "atoms", "msa")
	if t.serves() {
		for _, name := range servingAxes {
			shown[name] = true
		}
	}
	for i, a := range t.Plan.Axes {
		if !shown[a.Name] {
			t.Axes = append(t.Axes, i)
		}
	}
	for _, c := range t.Plan.Spec.Columns {
		t.Columns = append(t.Columns, c.Name)
	}
	at := map[string]int{}
	for i := range s.Pairs {
		p := &s.Pairs[i]
		id := t.row(p)
		j, ok := at[id]
		if !ok {
			j = len(t.Rows)
			at[id] = j
			t.Rows = append(t.Rows, Row{Point: p.Point.ID, Case: p.Point.Case, Values: p.Point.Values})
		}
		t.Rows[j].pairs = append(t.Rows[j].pairs, p)
	}
	for i := range t.Rows {
		t.fill(&t.Rows[i])
	}
	if t.serves() {
		t.sortServing()
	} else {
		t.sort()
	}
	for i := range t.Rows { // after sorting, so that footnotes count downwards
		t.note(&t.Rows[i])
	}
	return t
}

// fill computes a row from its executions.
func (t *Table) fill(r *Row) {
	slices.SortFunc(r.pairs, func(a, b *collect.Pair) int { return cmp.Compare(a.Repeat, b.Repeat) })
	r.Asked = len(r.pairs)
	var good []*collect.Pair
	for _, p := range r.pairs {
		if !open(p.Outcome) {
			r.Judged++
		}
		if p.Outcome.Fits() && p.Result != nil {
			good = append(good, p)
		}
		if p.Result != nil && p.Result.Search != nil && (r.Search == nil || p.Outcome.Fits()) {
			r.Search = p.Result.Search
		}
	}
	r.Good = len(good)
	r.Outcome = fold(r.pairs, r.Good, r.Judged)
	if t.serves() {
		t.serve(r, good)
		return
	}
	r.Metrics = foldMetrics(good)
	r.Interval = interval(good, catalogue.StepSeconds)
	var times []float64
	for _, p := range good {
		if v, ok := p.Result.Metric(catalogue.StepSeconds); ok {
			times = append(times, v)
		}
	}
	if cv, ok := spread(times); ok {
		r.Spread = &cv
	}
	t.sizes(r)
}

// open reports whether it is not known yet, or never will be, how an execution ended.
func open(o catalogue.Outcome) bool {
	return o == catalogue.Pending || o == catalogue.Running || o == catalogue.Missing || o == catalogue.Lost
}

// fold is the outcome of a point over its repeats. Repeats that differ are never plainly ok.
func fold(pairs []*collect.Pair, good, judged int) string {
	count := map[catalogue.Outcome]int{}
	var order []string
	for _, p := range pairs {
		if count[p.Outcome]++; count[p.Outcome] == 1 {
			order = append(order, string(p.Outcome))
		}
	}
	switch {
	case good > 0 && good == judged:
		return string(catalogue.OK) // those still to come are told by the count of repeats
	case good > 0:
		return fmt.Sprintf("fits %d/%d", good, judged)
	}
	return strings.Join(order, ", ")
}

// foldMetrics takes the median over the repeats, and of memory the largest.
func foldMetrics(good []*collect.Pair) map[string]float64 {
	values := map[string][]float64{}
	for _, p := range good {
		for name, v := range p.Result.Metrics() {
			values[name] = append(values[name], v)
		}
	}
	folded := map[string]float64{}
	for name, v := range values {
		if m, ok := catalogue.MetricByName(name); ok && m.Unit == "bytes" {
			folded[name] = slices.Max(v)
		} else {
			folded[name] = median(v)
		}
	}
	return folded
}
