package collect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cpbench/plan"
	"cpbench/plan/folder"
)

// sameMeasure reports why results of the runs must not stand in one table: their measurement keys differ, or their
// axes differ.
func sameMeasure(runs []*folder.Run) error {
	if len(runs) == 0 {
		return errors.New("no run given")
	}
	first := runs[0]
	for _, run := range runs[1:] {
		a, b := first.Plan, run.Plan
		if a.Key != b.Key || a.CaseKey != b.CaseKey && hasCases(a) && hasCases(b) {
			what := differences(a, b)
			if len(what) == 0 {
				what = []string{"the measurement key alone, which another version of cpbench may have made"}
			}
			return fmt.Errorf("runs %s and %s do not measure the same, so they are not merged: %s differ", first.Name(), run.Name(), strings.Join(what, "; "))
		}
		if x, y := axisNames(a), axisNames(b); !slices.Equal(x, y) {
			return fmt.Errorf("runs %s and %s have different axes, or the same in another order: %s and %s",
				first.Name(), run.Name(), strings.Join(x, ", "), strings.Join(y, ", "))
		}
	}
	return nil
}

func hasCases(p *plan.Plan) bool { return p.Spec.HasCases() }

func axisNames(p *plan.Plan) []string {
	var names []string
	for _, a := range p.Axes {
		names = append(names, a.Name)
	}
	return names
}

// differences names the conditions in which two plans differ, with both values.
func differences(a, b *plan.Plan) []string {
	x, y := measured(a), measured(b)
	var list []string
	for _, name := range names(x, y) {
		if x[name] != y[name] {
			list = append(list, fmt.Sprintf("%s (%s, %s)", name, cmp.Or(x[name], "absent"), cmp.Or(y[name], "absent")))
		}
	}
	return list
}

func sortProblems(problems []Problem) {
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
}
