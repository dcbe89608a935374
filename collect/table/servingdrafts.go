package table

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"cpbench/collect"
	"cpbench/collect/contrast"
	"cpbench/collect/page"
)

// This file is the table of speculative decoding by position in the draft.

// draftsOf lists, for each position in a draft, the accepted tokens per round of every independent value that tells it: a
// unit is the mean over its repeats. Nil where no group tells any.
func draftsOf(units [][]*collect.Pair) [][]float64 {
	var by [][]float64
	for _, unit := range units {
		var told [][]float64
		for _, p := range unit {
			if g := p.Result.Group; g != nil {
				for i, v := range g.PerPosition {
					if i == len(told) {
						told = append(told, nil)
					}
					told[i] = append(told[i], v)
				}
			}
		}
		for i, values := range told {
			if i == len(by) {
				by = append(by, nil)
			}
			mean, _ := contrast.MeanSD(values)
			by[i] = append(by[i], mean)
		}
	}
	return by
}

// writeDrafts writes how many drafts were accepted at each position, with intervals, where servers count them.
func (t *Table) writeDrafts(b *bytes.Buffer) {
	if !t.serves() {
		return
	}
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return r.Serving.drafts == nil })
	longest := 0
	for _, r := range rows {
		longest = max(longest, len(r.Serving.drafts))
	}
	if longest == 0 {
		return
	}
	list := t.who()
	for i := range longest {
		list = append(list, column{title: strconv.Itoa(i + 1), right: true, cell: func(r *Row) string { return r.draft(i) }})
	}
	list = append(list, column{title: "n", right: true, cell: t.behind})
	fmt.Fprintf(b, "\n## Accepted drafts by position\n\nPer round of speculation, at the first draft token, the second and so on, without the bonus token: "+
		"the mean over the %s, and its 95 %% interval by Student's t.\n\n", t.unit())
	writeTable(b, list, rows)
}

// draft is the cell of a position, from 0.
func (r *Row) draft(position int) string {
	if position >= len(r.Serving.drafts) {
		return none
	}
	values := r.Serving.drafts[position]
	mean, _ := contrast.MeanSD(values)
	text := page.Significant(mean, 3)
	lo, hi, ok := meanBounds(values)
	if !ok {
		return text + " (n=1)"
	}
	return fmt.Sprintf("%s (%s–%s)", text, page.Significant(max(lo, 0), 3), page.Significant(min(hi, 1), 3))
}

// who are the columns that name a row.
func (t *Table) who() []column {
	list := []column{
		{title: "label", cell: func(r *Row) string { return t.axis(r, "label") }},
		{title: "cache", cell: t.cache},
		{title: "data", cell: func(r *Row) string { return t.axis(r, "data") }},
		{title: "ctx", right: true, cell: func(r *Row) string { return t.axis(r, "ctx") }},
		{title: "streams", right: true, cell: func(r *Row) string { return t.axis(r, "concurrency") }},
	}
	for _, i := range t.Axes {
		list = append(list, column{title: t.Plan.Axes[i].Name, cell: func(r *Row) string { return r.Values[i] }})
	}
	return list
}
