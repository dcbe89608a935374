// Package sheet writes a comparison as a page of Markdown. Use Write.
package sheet

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"cpbench/collect/compare"
	"cpbench/collect/compare/guard"
	"cpbench/collect/page"
	"cpbench/plan/catalogue"
)

// sheet is a report that is written.
type sheet struct {
	*compare.Report
}

// Write writes the report as a page: what was compared and under which conditions, a table for each metric, what was
// refused and why, and a footnote for every doubt.
func Write(w io.Writer, report *compare.Report) error {
	r := sheet{report}
	b := new(bytes.Buffer)
	if r.B == nil {
		fmt.Fprintf(b, "# Measured: %s\n\n", page.Inline(r.A.Name))
	} else {
		fmt.Fprintf(b, "# Comparison: %s against %s\n\n", page.Inline(r.B.Name), page.Inline(r.A.Name))
	}
	r.head(b)
	r.conditions(b)
	shown := r.columns()
	if r.B == nil {
		r.single(b, shown)
	} else {
		for i := range r.Metrics {
			r.metric(b, &r.Metrics[i], shown)
		}
	}
	r.refused(b)
	r.failed(b)
	r.lonely(b)
	r.footnotes(b)
	_, err := b.WriteTo(w)
	return err
}

// marked tells the notes to which a row of a table refers. A page shows no footnote to which nothing does.
func (r sheet) marked() map[int]bool {
	marked := map[int]bool{}
	for i := range r.Rows {
		if len(r.Rows[i].Cells) > 0 {
			for _, n := range r.Rows[i].Notes {
				marked[n] = true
			}
		}
	}
	return marked
}

func (r sheet) footnotes(b *bytes.Buffer) {
	gap, marked := "\n", r.marked()
	for i, n := range r.Notes {
		if marked[i] {
			fmt.Fprintf(b, "%s[^%d]: %s\n", gap, i+1, words(n))
			gap = ""
		}
	}
}

// general tells the doubts that are about no row of a table.
func (r sheet) general(b *bytes.Buffer) {
	marked := r.marked()
	for i, n := range r.Notes {
		if !marked[i] && n.Code != catalogue.NotInterleaved { // the order tells it
			fmt.Fprintf(b, "- Doubt: %s\n", words(n))
		}
	}
}

func words(n compare.Note) string {
	if n.Code == "" {
		return page.Inline(n.Text)
	}
	return page.Code(string(n.Code)) + ": " + page.Inline(n.Text)
}

// head is the table of both sides.
func (r sheet) head(b *bytes.Buffer) {
	columns := []page.Column{{Title: ""}, {Title: r.A.Name}}
	sides := []*compare.Side{r.A}
	if r.B != nil {
		columns[1].Title += " (base)"
		columns = append(columns, page.Column{Title: r.B.Name})
		sides = append(sides, r.B)
	}
	var rows [][]string
	line := func(title string, cell func(s *compare.Side) string) {
		row := []string{title}
		empty := true
		for _, s := range sides {
			text := cell(s)
			empty = empty && text == ""
			if text == "" {
				text = page.None
			}
			row = append(row, text)
		}
		if !empty {
			rows = append(rows, row)
		}
	}
	line("variant", func(s *compare.Side) string { return strings.Join(s.What, ", ") })
	line("runs", func(s *compare.Side) string { return strings.Join(s.Runs, ", ") })
	line("measured", when)
	line("good", func(s *compare.Side) string { return fmt.Sprintf("%d of %d executions", s.Good, s.Executions) })
	for _, key := range compare.HeadFacts {
		line(key, func(s *compare.Side) string { return strings.Join(s.Facts[key], ", ") })
	}
	page.Grid(b, columns, rows)
}

func when(s *compare.Side) string {
	if s.Began.IsZero() {
		return ""
	}
	const form = "2006-01-02 15:04 UTC"
	from, to := s.Began.UTC().Format(form), s.Ended.UTC().Format(form)
	if from == to {
		return from
	}
	return from + " to " + to
}

// conditions say what differs, in which order it was measured, and by which statistics it was judged.
func (r sheet) conditions(b *bytes.Buffer) {
	b.WriteByte('\n')
	if r.B == nil {
		fmt.Fprintf(b, "- Unit: %s. Values are means ± the sample standard deviation between units. A single unit (n=1) is no evidence of repeatability.\n", r.unit())
		r.general(b)
		r.problems(b)
		return
	}
	under := "nothing: the sides should be alike"
	if len(r.Under) > 0 {
		under = codes(r.Under)
	}
	fmt.Fprintf(b, "- Under test: %s\n", under)
	for _, part := range []struct {
		title string
		list  []guard.Difference
	}{{"Differs, as it is under test", r.Differs}, {"Differs, and was accepted", r.Accepted}, {"Differs beside", r.Beside}} {
		for _, d := range part.list {
			fmt.Fprintf(b, "- %s: %s\n", part.title, r.difference(d))
		}
	}
	code := ""
	if r.Order.Doubtful() {
		code = page.Code(string(catalogue.NotInterleaved)) + ", "
	}
	fmt.Fprintf(b, "- Order: %s%s\n", code, page.Inline(r.Order.Text))
	fmt.Fprintf(b, "- Unit: %s. A cell is the mean ± the sample standard deviation between units; streams and iterations are no units. A single unit (n=1) is no evidence of repeatability.\n", r.unit())
	fmt.Fprintf(b, "- Difference: %s over %s, with its 95 %% interval by Student's t on the logarithms of the units: of pairs where most units share a task, a turn or prompts, else Welch's. A number with a sign is the difference %s less %s, where a value is not above 0.\n",
		page.Inline(r.B.Name), page.Inline(r.A.Name), page.Inline(r.B.Name), page.Inline(r.A.Name))
	fmt.Fprintf(b, "- Verdicts: a difference is claimed if the interval excludes none, and with 4 units or more a side without pairs the Mann-Whitney test agrees. `small`: by less than %s %%. `equivalent`: the whole interval is within that. `~`: neither is shown.\n",
		strconv.FormatFloat(100*r.Threshold, 'g', 3, 64))
	b.WriteString("- Sees: the smallest difference that as many units with the same spread show with 80 % probability; in brackets how many more units a side show 2 %.\n")
	r.multiplicity(b)
	r.general(b)
	r.problems(b)
}

// multiplicity says how many tests were made, and how many verdicts hold in spite of that.
func (r sheet) multiplicity(b *bytes.Buffer) {
	if r.Tested == 0 {
		return
	}
	fmt.Fprintf(b, "- Multiplicity: %s; if nothing differed, about %s would be called different by chance. Called different: %d, of which %d stay below 0.05 after Holm's correction (column p).\n",
		page.Count(r.Tested, "test"), page.Significant(r.ByChance, 2), r.Claimed, r.Survive)
}

func (r sheet) problems(b *bytes.Buffer) {
	if r.Problems > 0 {
		fmt.Fprintf(b, "- Files that could not be used: %d; `cpbench collect` names them\n", r.Problems)
	}
}

// unit names the units of all rows.
func (r sheet) unit() string {
	var list []string
	for i := range r.Rows {
		for _, h := range []*compare.Half{&r.Rows[i].A, r.Rows[i].B} {
			if h != nil && h.Units > 0 && !slices.Contains(list, h.UnitOf) {
				list = append(list, h.UnitOf)
			}
		}
	}
	slices.Sort(list)
	switch strings.Join(list, " ") {
	case "":
		return "none, as nothing was measured"
	case guard.ByStart:
		return "the start of a server, which is the mean over its repeats"
	case guard.ByRepeat:
		return "the repeat"
	}
	return "the start of a server where a run starts it, else the repeat"
}

func codes(list []string) string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = page.Code(text)
	}
	return strings.Join(out, ", ")
}

// difference writes a key with the values on both sides.
func (r sheet) difference(d guard.Difference) string {
	return fmt.Sprintf("%s (%s; %s)", page.Code(d.Key), page.Inline(guard.Short(d.A)), page.Inline(guard.Short(d.B)))
}
