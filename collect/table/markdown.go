package table

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"cpbench/collect/page"
)

// column is one column of the Markdown table.
type column struct {
	title    string
	right    bool
	optional bool // left out at a terminal where it says nothing
	cell     func(r *Row) string
}

// WriteMarkdown writes the page: the conditions of the measurement, the table in the columns of the CP benchmark
// contract followed by the user's and cpbench's own, a readout, footnotes, and what is missing.
func (t *Table) WriteMarkdown(w io.Writer) error {
	b := new(bytes.Buffer)
	title, unmeasured := "CP benchmark", "No time measured"
	if t.serves() {
		title, unmeasured = "LLM benchmark", "No good result"
	}
	fmt.Fprintf(b, "# %s: %s\n\n", title, page.Inline(t.Plan.Name))
	for _, f := range t.Meta() {
		fmt.Fprintf(b, "- %s: %s\n", f.Name, page.Inline(f.Value))
	}
	b.WriteByte('\n')
	writeTable(b, t.columns(), t.Rows)
	fmt.Fprintf(b, "\n%s\n", page.Inline(t.Readout()))
	fmt.Fprintf(b, "\n%s\n", t.statistic())
	t.writeIntervals(b)
	t.writeDrafts(b)
	t.writeNotes(b)
	writeAbsences(b, "Missing", t.Absences(false))
	writeAbsences(b, unmeasured, t.Absences(true))
	t.writeLacking(b)
	if problems := t.Set.Problems; len(problems) > 0 {
		b.WriteString("\n## Files not used\n\n")
		for _, p := range problems {
			fmt.Fprintf(b, "- %s: %s\n", page.Code(t.relative(p.Path)), page.Inline(p.Reason))
		}
	}
	_, err := b.WriteTo(w)
	return err
}

// writeLacking tells what is missing for a table that may be called publishable.
func (t *Table) writeLacking(b *bytes.Buffer) {
	lines := t.lacking()
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n## Not known\n\nA publication needs these facts as well:\n\n")
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", page.Inline(line))
	}
}

// columns lists the columns: exactly those of the contract first.
func (t *Table) columns() []column {
	if t.serves() {
		return t.servingColumns()
	}
	list := []column{
		{title: "N_tokens", right: true, cell: (*Row).tokens},
		{title: "N_atoms", right: true, optional: true, cell: func(r *Row) string { return size(r.Atoms) }},
		{title: "MSA_seq", right: true, optional: true, cell: func(r *Row) string { return size(r.MSA) }},
		{title: "CP config", cell: (*Row).config},
		{title: "peak_mem (GiB)", right: true, cell: (*Row).memory},
		{title: "walltime (ms)", right: true, cell: (*Row).walltime},
	}
	for i, title := range t.Columns {
		list = append(list, column{title: title, cell: func(r *Row) string { return user(r.User[i]) }})
	}
	for _, i := range t.Axes {
		list = append(list, column{title: t.Plan.Axes[i].Name, cell: func(r *Row) string { return r.Values[i] }})
	}
	if t.anyPadded() {
		list = append(list, column{title: "N padded", right: true, cell: func(r *Row) string { return size(r.Padded) }})
	}
	return append(list,
		column{title: "95 % interval (ms)", right: true, cell: (*Row).interval},
		column{title: "spread over repeats", right: true, optional: true, cell: (*Row).spread},
		column{title: "n", right: true, cell: (*Row).repeats},
		column{title: "notes", cell: (*Row).footnotes},
	)
}

// anyPadded reports whether a row ran with another N than was asked for.
func (t *Table) anyPadded() bool {
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Padded != nil && r.Tokens != nil && *r.Padded != *r.Tokens {
			return true
		}
	}
	return false
}

func (r *Row) footnotes() string {
	var marks []string
	for _, i := range r.Notes {
		marks = append(marks, fmt.Sprintf("[^%d]", i+1))
	}
	return strings.Join(marks, " ")
}

// writeTable writes the rows as a table.
func writeTable(b *bytes.Buffer, columns []column, rows []Row) {
	heads := make([]page.Column, len(columns))
	for i, c := range columns {
		heads[i] = page.Column{Title: c.title, Right: c.right}
	}
	grid := make([][]string, len(rows))
	for j := range rows {
		for _, c := range columns {
			grid[j] = append(grid[j], c.cell(&rows[j]))
		}
	}
	page.Grid(b, heads, grid)
}

func (t *Table) writeNotes(b *bytes.Buffer) {
	if t.has(KindWithin) {
		what := "the iterations of one process and describes that process"
		if t.Plan.Spec.Workload.Kind == "command" {
			what = "the runs of one task and describes that task"
		}
		fmt.Fprintf(b, "\n*within*: the interval is over %s, not what another execution would give; 6 repeats or more give one over repeats.\n", what)
	}
	if len(t.Notes) > 0 {
		b.WriteByte('\n')
	}
	for i, n := range t.Notes {
		fmt.Fprintf(b, "[^%d]: ", i+1)
		if n.Code != "" {
			fmt.Fprintf(b, "%s: ", page.Code(string(n.Code)))
		}
		b.WriteString(page.Inline(n.Text))
		if n.Hint != "" {
			fmt.Fprintf(b, " (%s)", page.Inline(n.Hint))
		}
		b.WriteByte('\n')
	}
}

func (t *Table) has(kind string) bool {
	for i := range t.Rows {
		if t.Rows[i].Case == "" && t.Rows[i].Interval.Kind == kind {
			return true
		}
	}
	return false
}

// maxNamed is how many points of one absence are named one by one.
const maxNamed = 12

func writeAbsences(b *bytes.Buffer, title string, list []Absence) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, a := range list {
		text := string(a.Outcome)
		if a.Reason != "" {
			text = fmt.Sprintf("%s, %s", a.Outcome, a.Reason)
		}
		named := a.Points[:min(len(a.Points), maxNamed)]
		fmt.Fprintf(b, "- %s: %s", page.Inline(text), page.Inline(strings.Join(named, "; ")))
		if more := len(a.Points) - len(named); more > 0 {
			fmt.Fprintf(b, "; and %d more points, all in raw.csv", more)
		}
		b.WriteByte('\n')
	}
}

// relative shortens a path below one of the runs: a page that is published names no home folder.
func (t *Table) relative(path string) string {
	for _, run := range t.Set.Runs {
		if rest, ok := strings.CutPrefix(path, run.Dir+"/"); ok {
			return run.Name() + "/" + rest
		}
	}
	return path
}
