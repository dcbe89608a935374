package plan

import (
	"math"
	"regexp"
	"slices"
	"strconv"

	"cpbench/plan/catalogue"
	"cpbench/plan/expr"
)

// axesOf lists the axes of a spec in the order in which they stand: matrix, zip, those in the workload, and that of the
// case points if it stands nowhere else. Each has one kind for the whole sweep, the narrowest that holds all of its values.
func axesOf(s *Spec) []Axis {
	var axes []Axis
	for _, a := range s.Matrix {
		axes = append(axes, Axis{Name: a.Name, Values: a.Values})
	}
	for _, group := range s.Zip {
		for _, a := range group {
			axes = append(axes, Axis{Name: a.Name, Values: a.Values})
		}
	}
	for _, a := range s.ownAxes() {
		axes = append(axes, Axis{Name: a.Name, Values: a.Values})
	}
	if name, _ := s.caseAxis(); name != "" && !slices.ContainsFunc(axes, func(a Axis) bool { return a.Name == name }) {
		axes = append(axes, Axis{Name: name, Kind: expr.Int})
	}
	for i := range axes {
		values := slices.Clone(axes[i].Values)
		for _, inc := range s.Include {
			for _, p := range inc {
				if p.Name == axes[i].Name {
					values = append(values, p.Value)
				}
			}
		}
		axes[i].Kind = kindOf(values)
	}
	return axes
}

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)

// kindOf is the narrowest kind that all values have. Text that is written like a number but differently from how a
// number prints, such as 007, stays text.
func kindOf(values []string) expr.Kind {
	all := func(ok func(string) bool) bool {
		return !slices.ContainsFunc(values, func(v string) bool { return !ok(v) })
	}
	switch {
	case all(wholeNumber.MatchString):
		return expr.Int
	case all(isNumber):
		return expr.Float
	case all(func(v string) bool { return v == "true" || v == "false" }):
		return expr.Bool
	}
	return expr.String
}

var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func isNumber(v string) bool {
	f, err := strconv.ParseFloat(v, 64)
	return number.MatchString(v) && err == nil && !math.IsInf(f, 0)
}

// value turns the user's text into a value of the axis' kind.
func (a Axis) value(text string) any {
	switch a.Kind {
	case expr.Int:
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case expr.Float:
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case expr.Bool:
		return text == "true"
	case expr.String:
	}
	return text
}

// checkAxes finds what is wrong with the axes themselves.
func (s *Spec) checkAxes(ps *problems) {
	names := definitions{ps, map[string]string{}}
	for _, a := range s.Matrix {
		names.axis(a, "matrix."+a.Name)
	}
	for i, group := range s.Zip {
		for _, a := range group {
			path := indexed("zip", i) + "." + a.Name
			names.axis(a, path)
			if len(a.Values) != len(group[0].Values) {
				ps.at(path, "zipped axes move together: give each the same number of values",
					"axis %q has %d values, but %q has %d", a.Name, len(a.Values), group[0].Name, len(group[0].Values))
			}
		}
	}
	if f := s.Workload.MaxFit; f != nil && f.Axis != "" && names.at[f.Axis] == "" {
		names.define(f.Axis, "workload.max_fit.axis")
	}
	for _, a := range s.ownAxes() {
		names.axis(a, "workload."+a.Name)
	}
	for _, d := range s.Derive {
		names.define(d.Name, "derive."+d.Name)
	}
	if s.Workload.Kind == "llm" {
		s.checkLLMAxes(ps, names.at)
	}
	s.checkIncludes(ps)
}

// definitions are the names that the spec has given so far, and where.
type definitions struct {
	*problems
	at map[string]string
}

func (d definitions) define(name, path string) {
	if err := expr.CheckName(name); err != nil {
		d.problems.at(path, "", "%v", err)
	}
	if _, ok := catalogue.MetricByName(name); ok || slices.Contains(reservedNames, name) {
		d.problems.at(path, "choose another name", "%q is a name of cpbench's own", name)
	}
	if first, ok := d.at[name]; ok {
		d.problems.at(path, "", "%q is defined twice: here and at %s", name, first)
	}
	d.at[name] = path
}

func (d definitions) axis(a AxisValues, path string) {
	d.define(a.Name, path)
	if len(a.Values) == 0 {
		d.problems.at(path, "give it at least one value", "axis %q has no values", a.Name)
	}
	have := make(map[string]bool, len(a.Values))
	for i, v := range a.Values {
		if have[v] {
			d.problems.at(indexed(path, i), "remove one of them", "axis %q has the value %q twice", a.Name, v)
		}
		have[v] = true
		checkText(d.problems, indexed(path, i), v)
	}
}

// reservedNames are the names that commands know beside those of the point.
var reservedNames = []string{"cpbench", "run"}

func (s *Spec) checkIncludes(ps *problems) {
	axes := axesOf(s)
	names := make([]string, len(axes))
	for i, a := range axes {
		names[i] = a.Name
	}
	for i, inc := range s.Include {
		path := indexed("include", i)
		for _, p := range inc {
			if !slices.Contains(names, p.Name) {
				ps.at(path+"."+p.Name, didYouMean(p.Name, names), "unknown axis %q", p.Name)
			}
			checkText(ps, path+"."+p.Name, p.Value)
		}
		for _, a := range axes {
			if !slices.ContainsFunc(inc, func(p Param) bool { return p.Name == a.Name }) {
				ps.at(path, "an included point names a value for every axis", "axis %q is missing", a.Name)
			}
		}
	}
	for i, name := range s.Pack {
		if !slices.Contains(names, name) {
			ps.at(indexed("pack", i), didYouMean(name, names), "unknown axis %q", name)
		}
	}
}
