package trail

import (
	"fmt"
	"slices"
	"strings"

	"cpbench/plan"
	"cpbench/plan/folder"
)

// Execution is a point and a repeat of a run's plan, with its task.
type Execution struct {
	plan.Pair
	Array, Task int
}

// NotOne says that a text names no point, or several.
type NotOne struct{ Text, Hint string }

func (e *NotOne) Error() string { return e.Text }

// Choose finds the one point that text names: an id, a beginning of one that no other has, or axis values such as
// cp=4,tokens=2048, of which as many have to be given as tell the points apart. It returns the point's executions, one
// for each repeat. A text that names no point, or several, is a *NotOne with the choices.
func Choose(run *folder.Run, text string) ([]Execution, error) {
	var all []Execution
	for _, a := range run.Plan.Arrays {
		tasks, err := run.Tasks(a.Index)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			for _, pair := range t.Pairs {
				all = append(all, Execution{pair, t.Array, t.Index})
			}
		}
	}
	matches := func(e Execution) bool { return strings.HasPrefix(e.ID, text) }
	given, err := assignments(run.Plan, text)
	if err != nil {
		return nil, err
	}
	if given != nil {
		matches = func(e Execution) bool { return agreement(e, given) == len(given) }
	}
	found := slices.DeleteFunc(slices.Clone(all), func(e Execution) bool { return !matches(e) })
	points := distinct(found)
	switch len(points) {
	case 1:
		slices.SortFunc(found, func(a, b Execution) int { return a.Repeat - b.Repeat })
		return found, nil
	case 0:
		return nil, &NotOne{fmt.Sprintf("no point of run %s is %q", run.Name(), text), "choose one: " + choices(run.Plan, nearest(all, given))}
	}
	return nil, &NotOne{fmt.Sprintf("%d points are %q", len(points), text), "choose one: " + choices(run.Plan, points)}
}

// assignments reads axis values of the form axis=value, separated by commas; a value may hold commas itself. It returns
// nil for a text that is none.
func assignments(p *plan.Plan, text string) (map[int]string, error) {
	if !strings.Contains(text, "=") {
		return nil, nil
	}
	given := map[int]string{}
	at := -1
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		axis := slices.IndexFunc(p.Axes, func(a plan.Axis) bool { return a.Name == name })
		switch {
		case ok && axis >= 0:
			if _, twice := given[axis]; twice {
				return nil, &NotOne{fmt.Sprintf("%q gives %s twice", text, name), "give each axis once"}
			}
			given[axis], at = strings.TrimSpace(value), axis
		case at >= 0 && slices.ContainsFunc(p.Axes[at].Values, func(v string) bool { return strings.HasPrefix(v, given[at]+","+part) }):
			given[at] += "," + part // the value goes on
		case axis >= 0:
			return nil, &NotOne{fmt.Sprintf("axis %q has no value in %q", name, text), fmt.Sprintf("give %s=VALUE, with one of %s", name, strings.Join(p.Axes[axis].Values, ", "))}
		default:
			return nil, &NotOne{fmt.Sprintf("unknown axis %q", name), "the axes are " + axisNames(p)}
		}
	}
	for axis, value := range given {
		if value != plan.CaseMaxFit && value != plan.CaseMixed && !slices.Contains(p.Axes[axis].Values, value) {
			return nil, &NotOne{fmt.Sprintf("%s has no value %q", p.Axes[axis].Name, value), "choose from " + strings.Join(p.Axes[axis].Values, ", ")}
		}
	}
	return given, nil
}

func axisNames(p *plan.Plan) string {
	names := make([]string, len(p.Axes))
	for i, a := range p.Axes {
		names[i] = a.Name
	}
	return strings.Join(names, ", ")
}

// agreement counts the axis values that a point shares with those given.
func agreement(e Execution, given map[int]string) int {
	n := 0
	for axis, value := range given {
		if e.Values[axis] == value {
			n++
		}
	}
	return n
}

// nearest lists the points that share most values with those given; without any, all.
func nearest(all []Execution, given map[int]string) []Execution {
	best := 0
	for _, e := range all {
		best = max(best, agreement(e, given))
	}
	return distinct(slices.DeleteFunc(slices.Clone(all), func(e Execution) bool { return agreement(e, given) < best }))
}

// distinct keeps one execution of each point.
func distinct(all []Execution) []Execution {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(e Execution) bool {
		again := seen[e.ID]
		seen[e.ID] = true
		return again
	})
}

// choices names the first of some points.
func choices(p *plan.Plan, points []Execution) string {
	const most = 5
	var names []string
	for _, e := range points[:min(most, len(points))] {
		names = append(names, fmt.Sprintf("%s (%s)", p.PointName(e.Point), e.ID))
	}
	if more := len(points) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
