package plan

import (
	"fmt"
	"math"
	"slices"

	"cpbench/plan/expr"
)

// Found is the largest size that an earlier search found at a point.
type Found struct {
	Params []Param // of the point
	Ranks  int
	Size   int64
}

const hintPath = "workload.max_fit.hint"

// withoutHint is the search without what only says where it looks first.
func (f *MaxFit) withoutHint() *MaxFit {
	if f == nil || f.Hint == "" {
		return f
	}
	plain := *f
	plain.Hint = ""
	return &plain
}

// checkHint finds what is wrong with the hint of a search on axis.
func (e *evaluator) checkHint(ps *problems, axis string) {
	if e.hint == nil {
		return
	}
	if k := e.hint.Kind; k != expr.Int && k != expr.Float {
		ps.at(hintPath, "write for example `9000 * sqrt(cp)`", "%s: gives a %s, but a size is needed", hintPath, k)
	}
	tainted := e.dependents(axis)
	for _, name := range e.hint.Names {
		if tainted[name] {
			ps.at(hintPath, "use the other axes", "%s: uses %q, which is what the search is for", hintPath, name)
		}
	}
}

// hints gives every search its hint: what an earlier one found, or else what the spec says.
func (e *evaluator) hints(s *Spec, points []expanded, found []Found, sum *Summary, ps *problems) {
	if e.hint == nil && len(found) == 0 {
		return
	}
	deciders := e.deciders(s)
	for i := range points {
		pt := &points[i]
		if pt.Case == "" {
			continue
		}
		values, bad := e.evaluate(pt.Point, s.searchedAxis(), s.searchFrom())
		if bad != nil {
			continue // told by expand
		}
		st, bad := e.setting(s, values)
		if bad != nil {
			continue
		}
		at := Found{Ranks: st.Ranks}
		for j, a := range e.axes {
			at.Params = append(at.Params, Param{a.Name, pt.Values[j]})
		}
		size, scaled := closest(found, at, s.searchedAxis(), deciders)
		switch {
		case size > 0:
			pt.hint = size
			sum.Hinted++
			if scaled {
				sum.Scaled++
			}
		case e.hint != nil:
			var err error
			if pt.hint, err = hintOf(e.hint, values); err != nil {
				ps.at(hintPath, "", "%s: %v", hintPath, err)
				return
			}
		}
	}
}

// hintOf evaluates a hint. Sizes too large for any search are cut, as the search cuts them at its ceiling.
func hintOf(p *expr.Program, values map[string]any) (int64, error) {
	v, err := p.Eval(values)
	if err != nil {
		return 0, err
	}
	f, ok := v.(float64)
	if n, whole := v.(int); whole {
		f, ok = float64(n), true
	}
	if !ok || f < 1 {
		return 0, fmt.Errorf("%q gives %v here, but a size of at least 1 is needed", p.Source, v)
	}
	return int64(math.Min(f, 1<<53)), nil
}

// deciders are the axes on which the number of ranks depends.
func (e *evaluator) deciders(s *Spec) map[string]bool {
	axes := map[string]bool{}
	for _, a := range e.axes {
		if a.Name != s.searchedAxis() && e.users(a.Name)["workload.ranks"] {
			axes[a.Name] = true
		}
	}
	return axes
}

// closest is the size found at the point at, or else the one found at the nearest other number of ranks, scaled: the
// memory of a pair tensor is N²/P, so the largest N grows with the square root of the ranks. 0: none is like it.
func closest(found []Found, at Found, searched string, deciders map[string]bool) (size int64, scaled bool) {
	least := math.Inf(1)
	for _, f := range found {
		if f.Ranks < 1 || f.Size < 1 || !alike(f.Params, at.Params, func(name string) bool { return name == searched || deciders[name] }) {
			continue
		}
		if f.Ranks == at.Ranks && alike(f.Params, at.Params, func(name string) bool { return name == searched }) {
			return f.Size, false
		}
		ratio := float64(at.Ranks) / float64(f.Ranks)
		if far := math.Abs(math.Log(ratio)); far < least {
			least = far
			size = int64(math.Min(float64(f.Size)*math.Sqrt(ratio), 1<<53))
		}
	}
	return size, size > 0
}

// alike reports whether two points have the same axes and values, those aside that skip names.
func alike(a, b []Param, skip func(name string) bool) bool {
	rest := func(list []Param) []Param {
		return slices.DeleteFunc(slices.Clone(list), func(p Param) bool { return skip(p.Name) })
	}
	a, b = rest(a), rest(b)
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p Param) bool { return !slices.Contains(b, p) })
}
