package table

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/expr"
	"cpbench/worker/result"
)

// sizes fills what the plan says about a point; what really ran takes precedence.
func (t *Table) sizes(r *Row) {
	pair := r.source()
	p := pair.Run.Plan
	var n int64
	known := pair.Point.Case == "" // of a search, only if something fits
	if r.Search != nil && r.Search.Fits != nil {
		n, known = *r.Search.Fits, true
	}
	r.size = sizeOf(p, pair.Point)
	r.User = make([]any, len(t.Columns))
	st, err := p.At(pair.Point, max(n, 1))
	if err == nil {
		r.Ranks, r.Topology = st.Ranks, st.Topology
	}
	if err == nil && known {
		r.Tokens, r.Atoms, r.MSA = whole(st.Point["tokens"]), whole(st.Point["atoms"]), whole(st.Point["msa"])
		for i := range t.Columns {
			v, err := t.Plan.Column(i, st, r.Metrics)
			if f, ok := v.(float64); err == nil && !(ok && (math.IsNaN(f) || math.IsInf(f, 0))) {
				r.User[i] = v // what was not measured, or divided by zero, leaves the cell empty
			}
		}
	}
	if pair.Result != nil {
		r.ran(&pair.Result.Sizes)
	}
}

// source is the execution whose sizes are shown: one that is good, else one that left a result.
func (r *Row) source() *collect.Pair {
	best := r.pairs[0]
	for _, p := range r.pairs {
		if p.Result != nil && (best.Result == nil || p.Outcome.Fits() && !best.Outcome.Fits()) {
			best = p
		}
	}
	return best
}

// ran takes over the sizes that really ran.
func (r *Row) ran(s *result.Sizes) {
	if s.Ranks > 0 {
		r.Ranks, r.Topology = s.Ranks, cmp.Or(s.Topology, r.Topology)
	}
	if r.Case != "" {
		return // those of a search are the sizes of its last trial
	}
	r.Tokens, r.Atoms, r.MSA, r.Padded = or(s.Tokens, r.Tokens), or(s.Atoms, r.Atoms), or(s.MSA, r.MSA), s.PaddedTokens
}

// sizeOf tells the tokens of a search at a value of its axis, or that value itself where the program gets no tokens.
func sizeOf(p *plan.Plan, pt plan.Point) func(int64) int64 {
	return func(n int64) int64 {
		if st, err := p.At(pt, n); err == nil {
			if tokens := whole(st.Point["tokens"]); tokens != nil {
				return *tokens
			}
		}
		return n
	}
}

func or(a, b *int64) *int64 {
	if a != nil {
		return a
	}
	return b
}

// whole returns a whole number that an expression gave, or nil.
func whole(v any) *int64 {
	switch v := v.(type) {
	case int:
		n := int64(v)
		return &n
	case int64:
		return &v
	case float64:
		if n := int64(v); float64(n) == v {
			return &n
		}
	}
	return nil
}

// axesOf names the axes that give one of the sizes as they are, directly or through derived names: those need no
// column of their own.
func axesOf(s *plan.Spec, sizes ...string) map[string]bool {
	derived := map[string]string{}
	for _, d := range s.Derive {
		derived[d.Name] = strings.TrimSpace(d.Expr)
	}
	give := map[string]string{"ranks": strings.TrimSpace(s.Workload.Ranks)}
	for _, x := range s.Workload.Point {
		give[x.Name] = strings.TrimSpace(x.Expr)
	}
	names := map[string]bool{}
	for _, size := range sizes {
		text := give[size]
		for range len(derived) + 1 { // a derived name uses only those above it: no chain is longer
			names[text] = true
			text = derived[text]
		}
	}
	return names
}

// sort orders the rows.
func (t *Table) sort() {
	inner := axesOf(t.Plan.Spec, "ranks", "tokens") // compared as numbers, outside and inside the groups
	if f := t.Plan.Spec.Workload.MaxFit; f != nil {
		inner[f.Axis] = true
	}
	rank := make([]func(a, b string) int, len(t.Plan.Axes))
	for i, axis := range t.Plan.Axes {
		rank[i] = valueOrder(axis)
	}
	slices.SortStableFunc(t.Rows, func(a, b Row) int {
		c := cmp.Or(cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Topology, b.Topology))
		for i, axis := range t.Plan.Axes {
			if c == 0 && !inner[axis.Name] {
				c = rank[i](a.Values[i], b.Values[i])
			}
		}
		return cmp.Or(c, cmp.Compare(len(a.Case), len(b.Case)), compareSizes(a.Tokens, b.Tokens), compareSizes(a.Atoms, b.Atoms),
			compareSizes(a.MSA, b.MSA), cmp.Compare(a.Point, b.Point))
	})
}

// group tells apart the rows between which only the size differs.
func (t *Table) group(r *Row) string {
	inner := axesOf(t.Plan.Spec, "ranks", "tokens", "atoms", "msa")
	if f := t.Plan.Spec.Workload.MaxFit; f != nil {
		inner[f.Axis] = true
	}
	var parts []string
	for i, axis := range t.Plan.Axes {
		if !inner[axis.Name] {
			parts = append(parts, axis.Name+"="+r.Values[i])
		}
	}
	return strings.Join(parts, " ")
}

// valueOrder compares values of an axis: numbers by size, words as the spec lists them.
func valueOrder(axis plan.Axis) func(a, b string) int {
	if axis.Kind == expr.Int || axis.Kind == expr.Float {
		return func(a, b string) int {
			x, errX := strconv.ParseFloat(a, 64)
			y, errY := strconv.ParseFloat(b, 64)
			if errX != nil || errY != nil {
				return strings.Compare(a, b)
			}
			return cmp.Compare(x, y)
		}
	}
	at := map[string]int{}
	for i, v := range axis.Values {
		at[v] = i
	}
	return func(a, b string) int {
		i, okA := at[a]
		j, okB := at[b]
		if okA && okB {
			return cmp.Compare(i, j)
		}
		return strings.Compare(a, b) // values of another run
	}
}

func compareSizes(a, b *int64) int {
	if a == nil || b == nil {
		return cmp.Compare(btoi(a != nil), btoi(b != nil))
	}
	return cmp.Compare(*a, *b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
