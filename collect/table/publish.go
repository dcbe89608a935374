package table

import (
	"fmt"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/plan/catalogue"
)

// publishable says whether the conditions of the table are known well enough for its numbers to be published, and if
// not, how many facts are missing. What is not known costs the word, never a row.
func (t *Table) publishable() string {
	if t.madeUp() {
		return "no (the reference model stands for no real one)"
	}
	if !slices.ContainsFunc(t.Set.Pairs, claims) {
		return "no (nothing measured)"
	}
	switch n := len(names(t.Set.Lacking())); n {
	case 0:
		return "yes"
	case 1:
		return "no (1 fact is missing, see the end)"
	default:
		return fmt.Sprintf("no (%d facts are missing, see the end)", n)
	}
}

// lacking says, for a table that could be published if more were known, which facts are missing, by the reason. The
// reasons say what to do, if anything can be done.
func (t *Table) lacking() []string {
	if t.madeUp() {
		return nil
	}
	claiming := 0
	for _, p := range t.Set.Pairs {
		if claims(p) {
			claiming++
		}
	}
	by := map[string][]string{} // names by reason
	var order []string
	for _, l := range t.Set.Lacking() {
		if by[l.Reason] == nil {
			order = append(order, l.Reason)
		}
		name := names([]collect.Lack{l})[0]
		if l.N < claiming {
			name += fmt.Sprintf(" (of %s)", results(l.N))
		}
		by[l.Reason] = append(by[l.Reason], name)
	}
	lines := make([]string, len(order))
	for i, reason := range order {
		lines[i] = strings.Join(by[reason], ", ") + ": " + reason
	}
	return lines
}

// names are those of the missing facts, each once.
func names(list []collect.Lack) []string {
	var all []string
	for _, l := range list {
		if name := strings.TrimPrefix(l.Fact.Name, "setting "); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// madeUp reports whether the reference model was measured.
func (t *Table) madeUp() bool {
	values, _ := t.Set.Facts("reference")
	return len(values) > 0 && values[0] != catalogue.NotApplicable
}

// claims reports whether an execution says something that could be published.
func claims(p collect.Pair) bool {
	return p.Result != nil && (p.Result.Outcome.Fits() || p.Result.Outcome.OutOfMemory())
}
