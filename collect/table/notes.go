package table

import (
	"fmt"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/plan/catalogue"
)

// note gives a row its footnotes: the warnings of its results, and the doubts that only the set shows.
func (t *Table) note(r *Row) {
	outcomes := map[catalogue.Outcome]bool{}
	for _, p := range r.pairs {
		outcomes[p.Outcome] = true
		if p.Result != nil {
			for _, w := range p.Result.Warnings {
				t.addNote(r, Note{w.Code, w.Text, w.Hint})
			}
		}
		if p.Outcome.Fits() && p.Reason != "" && p.Reason != p.Result.Reason {
			t.addNote(r, Note{Code: catalogue.Interrupted, Text: p.Reason})
		}
	}
	if r.Good > 0 && r.Good < r.Judged {
		t.addNote(r, Note{Code: catalogue.RepeatsDiffer, Text: "the repeats ended differently: " + endings(r.pairs)})
	}
}

// endings counts the outcomes of some executions, in the order in which they come.
func endings(pairs []*collect.Pair) string {
	count := map[catalogue.Outcome]int{}
	var order []catalogue.Outcome
	for _, p := range pairs {
		if count[p.Outcome]++; count[p.Outcome] == 1 {
			order = append(order, p.Outcome)
		}
	}
	parts := make([]string, len(order))
	for i, o := range order {
		parts[i] = fmt.Sprintf("%d %s", count[o], o)
	}
	return strings.Join(parts, ", ")
}

func (t *Table) addNote(r *Row, n Note) {
	i := slices.Index(t.Notes, n)
	if i < 0 {
		i = len(t.Notes)
		t.Notes = append(t.Notes, n)
	}
	if !slices.Contains(r.Notes, i) {
		r.Notes = append(r.Notes, i)
	}
}

// Absence is a set of executions that have no good result for one reason.
type Absence struct {
	Outcome catalogue.Outcome
	Reason  string
	Points  []string // each with its repeats, such as "cp=4 tokens=2048 r1 r2"
	N       int      // executions
}

// Absences lists what has no good result, grouped by outcome and reason, in the order of the rows. measured says
// whether a result is there: an out-of-memory is one, a task that never started has none.
func (t *Table) Absences(measured bool) []Absence {
	type key struct {
		outcome catalogue.Outcome
		reason  string
	}
	at := map[key]int{}
	var list []Absence
	var last []string // id of the last point of each absence
	for i := range t.Rows {
		for _, p := range t.Rows[i].pairs {
			if p.Outcome.Fits() || (p.Result != nil && p.Outcome.Done()) != measured {
				continue
			}
			k := key{p.Outcome, p.Reason}
			j, ok := at[k]
			if !ok {
				j = len(list)
				at[k] = j
				list, last = append(list, Absence{Outcome: p.Outcome, Reason: p.Reason}), append(last, "")
			}
			a := &list[j]
			if a.N++; last[j] != p.Point.ID {
				last[j] = p.Point.ID
				a.Points = append(a.Points, t.label(p.Point.Values))
			}
			a.Points[len(a.Points)-1] += fmt.Sprintf(" r%d", p.Repeat)
		}
	}
	return list
}

// label names a point by its axis values.
func (t *Table) label(values []string) string {
	parts := make([]string, len(values))
	for i, axis := range t.Plan.Axes {
		parts[i] = axis.Name + "=" + values[i]
	}
	return strings.Join(parts, " ")
}
