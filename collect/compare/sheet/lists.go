package sheet

import (
	"bytes"
	"fmt"
	"strings"

	"cpbench/collect/compare"
	"cpbench/collect/page"
)

// refused lists the rows that were not compared, together with those that differ in the same.
func (r sheet) refused(b *bytes.Buffer) {
	for i, part := range r.Refusals() {
		if i == 0 {
			b.WriteString("\n## Refused\n\nThese rows are unlike in what is neither under test nor accepted:\n\n")
		}
		var why []string
		for _, d := range part.Differ {
			why = append(why, r.difference(d))
		}
		rows := named(part.Rows)
		if len(part.Rows) == len(r.Rows) && len(r.Rows) > 1 {
			rows = fmt.Sprintf("all %d rows", len(r.Rows))
		}
		fmt.Fprintf(b, "- %s: %s\n", page.Inline(rows), strings.Join(why, ", "))
	}
}

// failed lists the rows that have no good execution on a side, those with the same endings together: no table has them.
func (r sheet) failed(b *bytes.Buffer) {
	rows := map[string][]string{}
	var order []string
	for i := range r.Rows {
		row := &r.Rows[i]
		var why []string
		for side, h := range []*compare.Half{&row.A, row.B} {
			if h != nil && h.Good == 0 {
				why = append(why, fmt.Sprintf("%s: %s", []*compare.Side{r.A, r.B}[side].Name, h.Failures()))
			}
		}
		if len(why) == 0 {
			continue
		}
		text := strings.Join(why, "; ")
		if rows[text] == nil {
			order = append(order, text)
		}
		rows[text] = append(rows[text], r.Name(row.Values))
	}
	for i, text := range order {
		if i == 0 {
			b.WriteString("\n## Without a good result\n\n")
		}
		fmt.Fprintf(b, "- %s: %s\n", page.Inline(text), page.Inline(named(rows[text])))
	}
}

// lonely lists the rows that one side lacks.
func (r sheet) lonely(b *bytes.Buffer) {
	if len(r.Single) == 0 {
		return
	}
	b.WriteString("\n## On one side only\n\n")
	for _, side := range []*compare.Side{r.A, r.B} {
		var rows []string
		for _, s := range r.Single {
			if s.Side == side.Name {
				rows = append(rows, r.Name(s.Values))
			}
		}
		if len(rows) > 0 {
			fmt.Fprintf(b, "- only %s has %s\n", page.Inline(side.Name), page.Inline(named(rows)))
		}
	}
}

// named lists rows, the first of them if there are many.
func named(rows []string) string {
	const most = 12
	text := strings.Join(rows[:min(len(rows), most)], "; ")
	if n := len(rows) - most; n > 0 {
		text += fmt.Sprintf("; and %d more rows", n)
	}
	return text
}
