package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxPoints bounds a sweep; a larger one is almost always a mistake in the matrix.
const MaxPoints = 1_000_000

// expanded is a point with what decides its place in a task.
type expanded struct {
	Point
	shape   Shape
	seconds int64
	hint    int64  // of a search
	server  string // of `kind: llm`: Target.Key of the server
	model   string // of `kind: llm`: its name there
}

// expander turns the axes into points and tells the mistakes that show only at a point.
type expander struct {
	spec     *Spec
	eval     *evaluator
	where    func(values map[string]any) (bool, error) // of `plan --where`; nil selects all
	searched int                                       // index of the axis of the case points, or -1
	word     string                                    // that stands for its value in a case point
	tainted  map[string]bool                           // the searched axis and the derived names that depend on it
	order    []int
	seen     map[string]bool
	groups   []string // combinations of the other axes that have points, in order
	inGroup  map[string][]string
	points   []expanded
	failed   map[string]bool
	ps       *problems
}

// expand lists the points of a sweep in the order of the spec: matrix and zip with the last axis fastest, then the
// included points, then one case point for each combination of the axes beside that of the case points.
func expand(s *Spec, e *evaluator, where func(map[string]any) (bool, error), ps *problems) []expanded {
	x := &expander{
		spec: s, eval: e, where: where, searched: -1, order: byName(e.axes), ps: ps,
		seen: map[string]bool{}, inGroup: map[string][]string{}, failed: map[string]bool{},
	}
	if name, word := s.caseAxis(); name != "" {
		x.searched, x.word = slices.IndexFunc(e.axes, func(a Axis) bool { return a.Name == name }), word
	}
	x.tainted = e.dependents(s.searchedAxis())
	x.product()
	for i, inc := range s.Include {
		values := make([]string, len(e.axes))
		for j, a := range e.axes {
			k := slices.IndexFunc(inc, func(p Param) bool { return p.Name == a.Name })
			values[j] = inc[k].Value
		}
		x.add(values, indexed("include", i))
	}
	x.cases()
	return x.points
}

// product walks the matrix and the zipped groups like an odometer.
func (x *expander) product() {
	dims := x.dims()
	total := 1
	for _, d := range dims {
		total *= d.n
		if total > MaxPoints {
			x.ps.at("matrix", "take values out, or split the sweep", "the sweep has more than %d points", MaxPoints)
			return
		}
	}
	if len(dims) == 0 {
		total = 0
	}
	digits := make([]int, len(dims))
	for range total {
		values := make([]string, len(x.eval.axes))
		for i, d := range dims {
			for _, axis := range d.axes {
				if d.empty {
					values[axis] = x.word
					continue
				}
				values[axis] = x.eval.axes[axis].Values[digits[i]]
			}
		}
		x.add(values, "")
		for i := len(digits) - 1; i >= 0; i-- {
			if digits[i]++; digits[i] < dims[i].n {
				break
			}
			digits[i] = 0
		}
	}
}

// dim is an axis of the product: one axis of the matrix, or a zipped group.
type dim struct {
	axes  []int
	n     int
	empty bool // the searched axis without values of its own
}

func (x *expander) dims() []dim {
	var dims []dim
	next := 0
	for range x.spec.Matrix {
		dims = append(dims, dim{axes: []int{next}, n: len(x.eval.axes[next].Values)})
		next++
	}
	for _, group := range x.spec.Zip {
		d := dim{}
		for range group {
			d.axes = append(d.axes, next)
			d.n = len(x.eval.axes[next].Values)
			next++
		}
		dims = append(dims, d)
	}
	for range x.spec.ownAxes() {
		dims = append(dims, dim{axes: []int{next}, n: len(x.eval.axes[next].Values)})
		next++
	}
	if next < len(x.eval.axes) {
		dims = append(dims, dim{axes: []int{next}, n: 1, empty: true})
	}
	return dims
}

// add checks one combination and keeps it unless a rule removes it. included is its path if the user named it.
func (x *expander) add(values []string, included string) {
	pt := Point{Values: values}
	onlyCase := x.searched >= 0 && values[x.searched] == x.word
	if onlyCase {
		pt.Case = x.word
	}
	vals, bad := x.eval.evaluate(pt, x.spec.searchedAxis(), x.spec.searchFrom())
	if bad != nil {
		x.tell(bad, pt)
		return
	}
	if included == "" && x.excluded(vals, pt, onlyCase) {
		return
	}
	if x.where != nil {
		if ok, err := x.where(vals); err != nil || !ok {
			return
		}
	}
	if x.searched >= 0 {
		key := x.groupKey(values)
		if _, ok := x.inGroup[key]; !ok {
			x.groups = append(x.groups, key)
			x.inGroup[key] = values
		}
	}
	if onlyCase {
		return
	}
	pt.ID = id(x.eval.axes, x.order, values)
	if x.seen[pt.ID] {
		if included != "" {
			x.ps.at(included, "remove it", "the point %s stands in the sweep already", x.describe(pt))
		}
		return
	}
	x.keep(pt, vals)
}

func (x *expander) excluded(vals map[string]any, pt Point, onlyCase bool) bool {
	for i, p := range x.eval.exclude {
		if onlyCase && slices.ContainsFunc(p.Names, func(n string) bool { return x.tainted[n] }) {
			continue // the rule speaks of single sizes; a search has its own bounds
		}
		hit, err := p.EvalBool(vals)
		if err != nil {
			x.tell(&evalError{indexed("exclude", i) + ".where", err}, pt)
			return true
		}
		if hit {
			return true
		}
	}
	return false
}

func (x *expander) keep(pt Point, vals map[string]any) {
	st, bad := x.eval.setting(x.spec, vals)
	if bad == nil && x.spec.Workload.Kind == "llm" {
		bad = x.spec.Workload.together(x.eval.group(&x.spec.Workload.LLM, pt))
	}
	if bad != nil {
		x.tell(bad, pt)
		return
	}
	x.seen[pt.ID] = true
	x.points = append(x.points, expanded{Point: pt, shape: st.Resources, seconds: st.Seconds, server: x.eval.targetKey(vals), model: x.eval.llm.model.fill(vals)})
}

// cases adds the case points.
func (x *expander) cases() {
	for _, key := range x.groups {
		values := slices.Clone(x.inGroup[key])
		values[x.searched] = x.word
		pt := Point{ID: id(x.eval.axes, x.order, values), Values: values, Case: x.word}
		vals, bad := x.eval.evaluate(pt, x.spec.searchedAxis(), x.spec.searchFrom())
		if bad != nil {
			x.tell(bad, pt)
			continue
		}
		x.keep(pt, vals)
	}
}

func (x *expander) groupKey(values []string) string {
	var b strings.Builder
	for i, v := range values {
		if i != x.searched {
			b.WriteString(v)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// tell reports a mistake that shows at a point, once for each place in the spec.
func (x *expander) tell(bad *evalError, pt Point) {
	if x.failed[bad.path] {
		return
	}
	x.failed[bad.path] = true
	hint := "change the expression, or remove the point with exclude"
	var own *advised
	if errors.As(bad.err, &own) {
		hint = own.hint
	}
	x.ps.at(bad.path, hint, "%s: %v (at %s)", bad.path, bad.err, x.describe(pt))
}

func (x *expander) describe(pt Point) string {
	parts := make([]string, len(pt.Values))
	for i, v := range pt.Values {
		parts[i] = fmt.Sprintf("%s=%s", x.eval.axes[i].Name, v)
	}
	return strings.Join(parts, ",")
}

func (s *Spec) searchedAxis() string { axis, _ := s.caseAxis(); return axis }

// searchFrom is the value of the axis of the case points with which they are looked at before they run.
func (s *Spec) searchFrom() int64 {
	switch w := &s.Workload; {
	case w.MaxFit != nil:
		return w.MaxFit.From
	case w.Mixed != nil:
		return mixedStreams
	}
	return 0
}
