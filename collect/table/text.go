package table

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"cpbench/collect/page"
	"cpbench/plan/catalogue"
)

// WriteText writes the table for a person at a terminal: the same cells without the conditions and without columns
// that say nothing, the doubts as words, the readout, and what is missing. The page that can be published is
// WriteMarkdown's.
func (t *Table) WriteText(w io.Writer) error {
	b := new(bytes.Buffer)
	t.writeGrid(b)
	fmt.Fprintf(b, "\n%s\n", t.Readout())
	for _, n := range t.Notes {
		if n.Code == catalogue.ReferenceModel || n.Code == "" {
			fmt.Fprintf(b, "note: %s\n", n.Text)
		}
	}
	for _, a := range append(t.Absences(false), t.Absences(true)...) {
		text := string(a.Outcome)
		if a.Reason != "" {
			text += ", " + a.Reason
		}
		named := a.Points[:min(len(a.Points), maxNamed)]
		fmt.Fprintf(b, "%s: %s", text, strings.Join(named, "; "))
		if more := len(a.Points) - len(named); more > 0 {
			fmt.Fprintf(b, "; and %d more points, all in raw.csv", more)
		}
		b.WriteByte('\n')
	}
	_, err := b.WriteTo(w)
	return err
}

func (t *Table) writeGrid(b *bytes.Buffer) {
	var columns []column
	for _, c := range t.columns() {
		if c.optional && t.blank(c) {
			continue
		}
		if c.title == "notes" {
			c.cell = t.doubts
		}
		columns = append(columns, c)
	}
	grid := make([][]string, len(t.Rows)+1)
	width := make([]int, len(columns))
	for i, c := range columns {
		grid[0] = append(grid[0], c.title)
		for j := range t.Rows {
			grid[j+1] = append(grid[j+1], strings.Join(strings.Fields(c.cell(&t.Rows[j])), " "))
		}
		for _, line := range grid {
			width[i] = max(width[i], len([]rune(line[i])))
		}
	}
	for _, line := range grid {
		cells := make([]string, len(line))
		for i, text := range line {
			cells[i] = page.Pad(text, width[i], columns[i].right)
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
	}
}

// blank reports whether a column says nothing in any row.
func (t *Table) blank(c column) bool {
	for i := range t.Rows {
		if text := c.cell(&t.Rows[i]); text != none && text != "n/a (n=1)" {
			return false
		}
	}
	return true
}

// doubts names the warnings of a row; that of the reference model, which every row would have, is told once below.
func (t *Table) doubts(r *Row) string {
	var words []string
	for _, i := range r.Notes {
		if code := string(t.Notes[i].Code); code != "" && t.Notes[i].Code != catalogue.ReferenceModel && !slices.Contains(words, code) {
			words = append(words, code)
		}
	}
	return strings.Join(words, ", ")
}
