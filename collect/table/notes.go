package table

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
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
				t.addNote(r, Note{Code: w.Code, Text: w.Text, Hint: w.Hint})
			}
			if m := r.Search; m != nil && bound(m) && p.Outcome.Fits() && p.Result.Reason != "" {
				t.addNote(r, Note{Text: p.Result.Reason})
			}
		}
		if p.Outcome.Fits() && p.Reason != "" && p.Reason != p.Result.Reason {
			t.addNote(r, Note{Code: catalogue.Interrupted, Text: p.Reason})
		}
	}
	if r.Good > 0 && r.Good < r.Judged {
		t.addNote(r, Note{Code: catalogue.RepeatsDiffer, Text: "the repeats ended differently: " + endings(r.pairs)})
	}
	if n := t.servers(r.pairs); n > 1 && !t.byStart() {
		t.addNote(r, Note{
			Code: catalogue.ServerRestarted, Text: fmt.Sprintf("the repeats were measured on %d processes of the server, which differ by chance as well", n),
			Hint: "let it run until the end, or have the tasks start it: workload.starts",
		})
	}
}

// servers counts the processes of a server on which good executions were measured, as far as it tells them.
func (t *Table) servers(pairs []*collect.Pair) int {
	begun := map[string]bool{}
	for _, p := range pairs {
		if !t.serves() || !p.Outcome.Fits() {
			continue
		}
		if at := t.Set.Provenance(p, nil)["server_started"]; at != "" {
			begun[at] = true
		}
	}
	return len(begun)
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

// addNote gives a row a note. Rows of sizes share one where no more than one number in it differs, such as the drift: a
// page with a footnote for every row is not read. Of a search every number counts.
func (t *Table) addNote(r *Row, n Note) {
	n.shape, n.least = number.ReplaceAllString(n.Text, gap), number.FindAllString(n.Text, -1)
	n.most = slices.Clone(n.least)
	i := slices.IndexFunc(t.Notes, func(o Note) bool {
		return o.Code == n.Code && o.Hint == n.Hint && o.shape == n.shape && (o.Text == n.Text || r.Case == "" && o.apart(n) <= 1)
	})
	if i < 0 {
		i = len(t.Notes)
		t.Notes = append(t.Notes, n)
	}
	t.Notes[i].widen(n)
	if !slices.Contains(r.Notes, i) {
		r.Notes = append(r.Notes, i)
	}
}

var number = regexp.MustCompile(`[-+]?[0-9]+(\.[0-9]+)?`)

// gap stands for a number; no text has it.
const gap = "\x00"

// apart counts the numbers that would have a range if n, of the same shape, were the same note as o.
func (o Note) apart(n Note) int {
	differ := 0
	for i := range o.least {
		if o.least[i] != o.most[i] || o.least[i] != n.least[i] {
			differ++
		}
	}
	return differ
}

// widen takes the numbers of n into the ranges of o, and writes them into its text.
func (o *Note) widen(n Note) {
	parts := strings.Split(o.shape, gap)
	o.Text = parts[0]
	for i, v := range n.least {
		if value(v) < value(o.least[i]) {
			o.least[i] = v
		}
		if value(v) > value(o.most[i]) {
			o.most[i] = v
		}
		if o.Text += o.least[i]; o.least[i] != o.most[i] {
			o.Text += " to " + o.most[i]
		}
		o.Text += parts[i+1]
	}
}

// value is a number that was found as one.
func value(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64)
	return v
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
