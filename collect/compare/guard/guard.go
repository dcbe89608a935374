// Package guard keeps unlike rows from being compared: Guard.Check names the conditions in which two sides of a row differ
// although they are neither under test nor accepted. Use one Guard for all rows of a comparison, since it gathers the
// differences that were declared.
package guard

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// Label is the axis that names variants. What stands behind a label, the server, is under test with it.
const Label = "label"

// Difference is a condition that differs: its key, and the values on both sides.
type Difference struct {
	Key string   `json:"key"`
	A   []string `json:"a"`
	B   []string `json:"b"`
}

// Member is a good execution of a row, with the set that holds it.
type Member struct {
	Pair *collect.Pair
	Set  *collect.Set
}

// Guard compares the conditions of rows.
type Guard struct {
	keys, accept []string
	axes         []string                          // under test
	goodput      bool                              // its limits decide what is compared
	plans        map[*folder.Run]map[string]string // conditions of the plans
	tasks        map[string]*result.Facts          // by the log folder
	differ       [3]map[string]*Difference         // under test, accepted, and beside
	unknown      map[string]int                    // core facts that nobody tells, with the rows
	unread       []string                          // tasks whose facts cannot be read
	fileless     int                               // rows of which no task of a side has such a file
}

// New makes a guard. keys are under test, and accept are taken as they are; each is a part of the spec such as
// `workload.env`, a fact of the provenance, or Label. axes are those under test, by which no rows are told apart.
func New(keys, accept, axes []string) *Guard {
	g := &Guard{keys: keys, accept: accept, axes: axes, plans: map[*folder.Run]map[string]string{}, tasks: map[string]*result.Facts{}, unknown: map[string]int{}}
	for i := range g.differ {
		g.differ[i] = map[string]*Difference{}
	}
	return g
}

// HoldGoodput makes the limits of goodput a condition, as they are where its metrics are compared.
func (g *Guard) HoldGoodput() { g.goodput = true }

// plan are the conditions that a plan tells.
func (g *Guard) plan(run *folder.Run) map[string]string {
	if g.plans[run] == nil {
		g.plans[run] = collect.Conditions(run.Plan)
	}
	return g.plans[run]
}

// taskFacts reads the provenance of a task once.
func (g *Guard) taskFacts(m Member) *result.Facts {
	p, x := m.Pair, m.Pair.Result
	dir := p.Run.LogDir(p.Array, p.Task, x.Attempt, x.Restart)
	f, ok := g.tasks[dir]
	if !ok {
		var err error
		if f, err = collect.TaskFacts(p.Run, p.Array, p.Task, x.Attempt, x.Restart); err != nil {
			g.unread = append(g.unread, filepath.Base(dir))
		}
		g.tasks[dir] = f
	}
	return f
}

// values of a key on both sides; each sorted and once.
type values [2][]string

func (v *values) add(side int, value string) {
	if i, ok := slices.BinarySearch(v[side], value); !ok {
		v[side] = slices.Insert(v[side], i, value)
	}
}

// Check lists why a row of a case must not be compared, and keeps the differences that are under test, accepted or only
// told. paired says that the units of the sides share their conditions pair by pair: then each side may have several
// values.
func (g *Guard) Check(rowCase string, sides [2][]Member, paired bool) []Difference {
	told := map[string]*values{}
	add := func(side int, facts map[string]string) {
		for key, v := range facts {
			if told[key] == nil {
				told[key] = &values{}
			}
			told[key].add(side, v)
		}
	}
	var runs [2][]*folder.Run
	whole := [2]bool{} // a task has said everything it knows
	for side, members := range sides {
		for _, m := range members {
			if !slices.Contains(runs[side], m.Pair.Run) {
				runs[side] = append(runs[side], m.Pair.Run)
				add(side, g.plan(m.Pair.Run))
			}
			whole[side] = whole[side] || g.taskFacts(m) != nil
			add(side, g.conditions(m))
		}
	}
	if !whole[0] || !whole[1] {
		g.fileless++
	}
	refused := g.prompts(rowCase, sides)
	for _, key := range slices.Sorted(maps.Keys(told)) {
		v := told[key]
		g.lacking(key, v, whole)
		if d := (Difference{key, v[0], v[1]}); !same(v, paired) && g.refuses(rowCase, d) {
			refused = append(refused, d)
		}
	}
	g.doubt(told)
	return refused
}

// refuses reports whether a row must not be compared for a difference, and else keeps it as what it is.
func (g *Guard) refuses(rowCase string, d Difference) bool {
	w := weigh(d.Key, rowCase)
	if g.goodput && within(d.Key, goodput) {
		w = strict
	}
	switch {
	case w == free:
	case covered(d.Key, g.keys), g.shaped(d.Key):
		g.keep(0, d)
	case covered(d.Key, g.accept):
		g.keep(1, d)
	case w == beside:
		g.keep(2, d)
	default:
		return true
	}
	return false
}

// lacking completes the values of a key that one side alone tells. Facts that stand in the files of tasks say nothing
// where a side has no such file.
func (g *Guard) lacking(key string, v *values, whole [2]bool) {
	f, isFact := catalogue.FactByName(key)
	for side := range v {
		if len(v[side]) > 0 {
			continue
		}
		switch {
		case isFact && !f.Brief && (!whole[0] || !whole[1]):
			v[side] = v[1-side]
		case isFact:
			v[side] = []string{notKnown}
		default:
			v[side] = []string{"absent"}
		}
	}
}

// same reports whether both sides have one value of a key, or pair by pair the same ones.
func same(v *values, paired bool) bool {
	return slices.Equal(v[0], v[1]) && (len(v[0]) == 1 || paired)
}

// keep merges a difference into those of other rows.
func (g *Guard) keep(kind int, d Difference) {
	old := g.differ[kind][d.Key]
	if old == nil {
		g.differ[kind][d.Key] = &d
		return
	}
	*old = old.With(d)
}

// With is d with the values that another difference in the same key has beside its own.
func (d Difference) With(other Difference) Difference {
	v := values{slices.Clone(d.A), slices.Clone(d.B)}
	for side, list := range [2][]string{other.A, other.B} {
		for _, value := range list {
			v.add(side, value)
		}
	}
	d.A, d.B = v[0], v[1]
	return d
}

// doubt counts what should be alike and is known on neither side.
func (g *Guard) doubt(told map[string]*values) {
	for _, key := range core {
		if v := told[key]; v != nil && slices.Equal(v[0], []string{notKnown}) && slices.Equal(v[1], v[0]) {
			g.unknown[key]++
		}
	}
}

// Told are the differences that were met and kept no row from being compared: under test, accepted, and beside both.
func (g *Guard) Told() (under, accepted, beside []Difference) {
	lists := [3][]Difference{{}, {}, {}}
	for i := range lists {
		for _, key := range slices.Sorted(maps.Keys(g.differ[i])) {
			lists[i] = append(lists[i], *g.differ[i][key])
		}
	}
	return lists[0], lists[1], lists[2]
}

// Doubts says in words what could not be compared, and which of the names that were declared or accepted met nothing.
func (g *Guard) Doubts() []string {
	var list []string
	for _, name := range append(slices.Clone(g.keys), g.accept...) {
		met := name == Label || slices.Contains(g.axes, name)
		for _, differ := range g.differ[:2] {
			for key := range differ {
				met = met || covered(key, []string{name})
			}
		}
		if !met {
			list = append(list, fmt.Sprintf("nothing called %q differs", name))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(g.unknown)) {
		list = append(list, fmt.Sprintf("%s is known on neither side (rows: %d), so nobody can say that it is the same", key, g.unknown[key]))
	}
	if n := g.fileless; n > 0 {
		list = append(list, fmt.Sprintf("no task of a side has left its provenance.json (rows: %d), so nobody has compared what it alone tells, such as the power limit and the environment", n))
	}
	if n := len(g.unread); n > 0 {
		list = append(list, fmt.Sprintf("the provenance of tasks cannot be read: %s (%d in all)", strings.Join(g.unread[:min(n, 4)], ", "), n))
	}
	return list
}

// Text writes a difference in words.
func (d Difference) Text() string { return fmt.Sprintf("%s (%s; %s)", d.Key, Short(d.A), Short(d.B)) }

// Short lists values, the first of them if there are many.
func Short(list []string) string {
	const most, longest = 4, 80
	parts := make([]string, 0, most)
	for _, v := range list[:min(len(list), most)] {
		if r := []rune(v); len(r) > longest {
			v = string(r[:longest]) + "…"
		}
		parts = append(parts, v)
	}
	text := strings.Join(parts, ", ")
	if n := len(list) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
