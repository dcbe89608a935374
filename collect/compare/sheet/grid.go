package sheet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"cpbench/collect/compare"
	"cpbench/collect/compare/cell"
	"cpbench/collect/page"
)

// maxRows is how many rows of a metric are printed one by one: those that claim something first, then the others.
const maxRows = 100

// columns are the positions of the axes whose values differ between rows.
func (r sheet) columns() []int {
	var list []int
	for at := range r.Axes {
		for i := range r.Rows {
			if r.Rows[i].Values[at] != r.Rows[0].Values[at] {
				list = append(list, at)
				break
			}
		}
	}
	return list
}

// common writes the values that all rows share.
func (r sheet) common(shown []int) string {
	var parts []string
	for at, name := range r.Axes {
		if len(r.Rows) > 0 && !slices.Contains(shown, at) && r.Rows[0].Values[at] != "" {
			parts = append(parts, name+"="+r.Rows[0].Values[at])
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "All rows: " + strings.Join(parts, ", ") + "."
}

// cellOf is the cell of a metric in a row; nil: it has none.
func cellOf(row *compare.Row, metric string) *cell.Cell {
	if i := slices.IndexFunc(row.Cells, func(c cell.Cell) bool { return c.Metric == metric }); i >= 0 {
		return &row.Cells[i]
	}
	return nil
}

// metric writes the table of a metric.
func (r sheet) metric(b *bytes.Buffer, sum *compare.Sum, shown []int) {
	fmt.Fprintf(b, "\n## %s", page.Inline(sum.Title))
	if sum.Better != "" {
		fmt.Fprintf(b, ": %s is better", sum.Better)
	}
	b.WriteString("\n\n")
	columns := r.axisColumns(shown)
	columns = append(columns, page.Column{Title: r.A.Name, Right: true}, page.Column{Title: r.B.Name, Right: true},
		page.Column{Title: r.B.Name + "/" + r.A.Name, Right: true}, page.Column{Title: "95 % interval", Right: true}, page.Column{Title: "verdict"},
		page.Column{Title: "sees", Right: true}, page.Column{Title: "p", Right: true}, page.Column{Title: "method"}, page.Column{Title: "notes"})
	rows, folded := r.chosen(sum.Metric)
	var grid [][]string
	for _, row := range rows {
		c := cellOf(row, sum.Metric)
		line := append(axisCells(row, shown), oneSide(c.A, &row.A, sum.Metric), oneSide(c.B, row.B, sum.Metric))
		grid = append(grid, append(line, ratio(c, sum.Metric), interval(c, sum.Metric), verdict(c), sees(c, sum.Metric), probability(c.Holm), method(c), marks(row)))
	}
	page.Grid(b, columns, grid)
	if folded > 0 {
		fmt.Fprintf(b, "\n%s without a claim are left out here; --json has all.\n", page.Count(folded, "more row"))
	}
	fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(r.summary(sum)+" "+page.Inline(r.common(shown))))
}

// chosen are the rows of a metric that are printed, and how many are not.
func (r sheet) chosen(metric string) (rows []*compare.Row, folded int) {
	total, claims := 0, 0
	for i := range r.Rows {
		if c := cellOf(&r.Rows[i], metric); c != nil {
			if total++; c.Verdict.Differs() {
				claims++
			}
		}
	}
	room := max(0, maxRows-claims) // for those that claim nothing
	for i := range r.Rows {
		c := cellOf(&r.Rows[i], metric)
		switch {
		case c == nil || len(rows) == maxRows:
			continue
		case !c.Verdict.Differs() && total > maxRows:
			if room == 0 {
				continue
			}
			room--
		}
		rows = append(rows, &r.Rows[i])
	}
	return rows, total - len(rows)
}

// summary counts the verdicts, with the geometric mean of the ratios.
func (r sheet) summary(sum *compare.Sum) string {
	var parts []string
	for _, v := range cell.Verdicts() {
		if n := sum.Verdicts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, page.Code(string(v))))
		}
	}
	text := strings.Join(parts, ", ") + "."
	if sum.GeometricMean != nil && sum.Of > 1 {
		text += fmt.Sprintf(" Geometric mean of the ratios of %d rows: %s.", sum.Of, percent(*sum.GeometricMean))
	}
	return text
}

func (r sheet) axisColumns(shown []int) []page.Column {
	var columns []page.Column
	for _, at := range shown {
		columns = append(columns, page.Column{Title: r.Axes[at]})
	}
	return columns
}

func axisCells(row *compare.Row, shown []int) []string {
	var cells []string
	for _, at := range shown {
		cells = append(cells, row.Values[at])
	}
	return cells
}

func marks(row *compare.Row) string {
	var list []string
	for _, i := range row.Notes {
		list = append(list, fmt.Sprintf("[^%d]", i+1))
	}
	return strings.Join(list, " ")
}

// single writes the table of one variant.
func (r sheet) single(b *bytes.Buffer, shown []int) {
	columns := r.axisColumns(shown)
	for _, sum := range r.Metrics {
		columns = append(columns, page.Column{Title: sum.Title, Right: true})
	}
	columns = append(columns, page.Column{Title: "good", Right: true}, page.Column{Title: "notes"})
	var grid [][]string
	for i := range r.Rows[:min(len(r.Rows), maxRows)] {
		row := &r.Rows[i]
		line := axisCells(row, shown)
		for _, sum := range r.Metrics {
			text := page.None
			if c := cellOf(row, sum.Metric); c != nil {
				text = oneSide(c.A, &row.A, sum.Metric)
			}
			line = append(line, text)
		}
		grid = append(grid, append(line, fmt.Sprintf("%d of %d", row.A.Good, row.A.Planned), marks(row)))
	}
	b.WriteByte('\n')
	page.Grid(b, columns, grid)
	if n := len(r.Rows) - maxRows; n > 0 {
		fmt.Fprintf(b, "\n%s are left out here; --json has all.\n", page.Count(n, "more row"))
	}
	if text := r.common(shown); text != "" {
		fmt.Fprintf(b, "\n%s\n", page.Inline(text))
	}
}
