package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// differences names the parts of two plans that differ among those that decide what is measured.
func differences(a, b *plan.Plan) []string {
	var list []string
	for _, part := range []struct {
		name string
		x, y any
	}{
		{"workload", a.Spec.Workload, b.Spec.Workload},
		{"setup", a.Spec.Setup, b.Spec.Setup},
		{"container", a.Spec.Container, b.Spec.Container},
		{"env", a.Spec.Env, b.Spec.Env},
		{"derive", a.Spec.Derive, b.Spec.Derive},
		{"workload.files (content)", a.Files, b.Files},
	} {
		list = append(list, diff(part.name, plain(part.x), plain(part.y))...)
	}
	return list
}

// plain turns a value into maps and lists, named as in the spec.
func plain(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	var p any
	if err := json.Unmarshal(data, &p); err != nil {
		return string(data)
	}
	return p
}

// diff names the fields below path in which x and y differ, with both values.
func diff(path string, x, y any) []string {
	mx, okx := x.(map[string]any)
	my, oky := y.(map[string]any)
	if !okx || !oky {
		a, b := short(x), short(y)
		if a == b {
			return nil
		}
		return []string{fmt.Sprintf("%s (%s, %s)", path, a, b)}
	}
	names := maps.Clone(mx)
	maps.Copy(names, my)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, diff(path+"."+name, mx[name], my[name])...)
	}
	return list
}

func short(v any) string {
	if v == nil {
		return "absent"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

func sortProblems(problems []Problem) {
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
}
