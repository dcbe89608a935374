package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/collect/contrast"
	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// This file folds the rows of `kind: llm`: a row is a point under one label of the cache, and its numbers are means of
// the repeats, each of which is itself a mean over streams. Streams are no repeats.

// The labels of the cache that a plan expects. A result may say something else, such as evicted.
const (
	cold       = "cold"
	warmRepeat = "warm_repeat"
)

// servingAxes are the axes of `kind: llm` with columns of their own.
var servingAxes = []string{"label", "data", "ctx", "concurrency", "cache"}

// Serving is what a row of `kind: llm` has beside the rest.
type Serving struct {
	Cache     string // label of what the cache did: cold, warm_repeat or evicted
	Streams   int    // requests that were sent, over all repeats that left a result
	Succeeded int
	Truncated int
	Failed    int
	Length    int // successes whose budget ran out
	// Units is the number of independent values behind each mean: starts of the server where the run starts it more than
	// once, else repeats. Count and SD are by metric; SD has no entry below two values.
	Units int
	Count map[string]int
	SD    map[string]float64

	values map[string][]float64 // behind each mean
	drafts [][]float64          // accepted per round: behind the mean at each position of a draft
}

// serves reports whether the table is one of `kind: llm`.
func (t *Table) serves() bool { return t.Plan.Spec.Workload.Kind == "llm" }

// row is what the executions of one row have in common.
func (t *Table) row(p *collect.Pair) string {
	if !t.serves() {
		return p.Point.ID
	}
	return p.Point.ID + " " + p.CacheLabel()
}

// byStart reports whether the unit of a claim is the start of a server.
func (t *Table) byStart() bool {
	w := t.Plan.Spec.Workload
	return len(w.Server.Command) > 0 && w.Starts > 1
}

// serve computes a row of `kind: llm`; Good, Judged and Asked are known.
func (t *Table) serve(r *Row, good []*collect.Pair) {
	s := &Serving{Cache: r.pairs[0].CacheLabel(), Count: map[string]int{}, SD: map[string]float64{}, values: map[string][]float64{}}
	r.Serving = s
	for _, p := range r.pairs {
		if p.Result != nil && p.Result.Group != nil {
			g := p.Result.Group
			s.Streams, s.Succeeded, s.Truncated = s.Streams+g.Streams, s.Succeeded+g.Succeeded, s.Truncated+g.Truncated
			s.Failed, s.Length = s.Failed+g.Failed, s.Length+g.Length
		}
	}
	units := t.units(good)
	s.Units, s.drafts = len(units), draftsOf(units)
	r.Metrics = map[string]float64{}
	for _, m := range catalogue.ServingMetrics() {
		var values []float64
		for _, unit := range units {
			if v, ok := meanOf(unit, m.Name); ok {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			continue
		}
		mean, sd := contrast.MeanSD(values)
		r.Metrics[m.Name], s.Count[m.Name], s.values[m.Name] = mean, len(values), values
		if len(values) > 1 {
			s.SD[m.Name] = sd
		}
	}
	if r.Good > 0 && r.Good < r.Judged {
		r.Outcome = fmt.Sprintf("ok %d/%d", r.Good, r.Judged)
	}
	t.userColumns(r)
}

// units puts the good repeats into independent groups: those of one start, or each by itself.
func (t *Table) units(good []*collect.Pair) [][]*collect.Pair {
	type key struct {
		run string
		n   int
	}
	at := map[key]int{}
	var units [][]*collect.Pair
	for _, p := range good {
		k := key{p.Run.Name(), p.Repeat}
		if t.byStart() {
			k.n = (p.Repeat - 1) / plan.StartStride
		}
		i, ok := at[k]
		if !ok {
			i = len(units)
			at[k] = i
			units = append(units, nil)
		}
		units[i] = append(units[i], p)
	}
	return units
}

// meanOf is the mean of a metric over some repeats; false: none of them has it.
func meanOf(pairs []*collect.Pair, metric string) (float64, bool) {
	var values []float64
	for _, p := range pairs {
		if v, ok := p.Result.Metric(metric); ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	mean, _ := contrast.MeanSD(values)
	return mean, true
}

// userColumns evaluates the user's columns over the means.
func (t *Table) userColumns(r *Row) {
	r.User = make([]any, len(t.Columns))
	p := r.source()
	st, err := p.Run.Plan.At(p.Point, 0)
	if err != nil {
		return
	}
	for i := range t.Columns {
		v, err := t.Plan.Column(i, st, r.Metrics)
		if f, ok := v.(float64); err == nil && !(ok && (math.IsNaN(f) || math.IsInf(f, 0))) {
			r.User[i] = v
		}
	}
}

// axis is the value of an axis of a row; empty without the axis.
func (t *Table) axis(r *Row, name string) string {
	for i, a := range t.Plan.Axes {
		if a.Name == name {
			return r.Values[i]
		}
	}
	return ""
}

// sortServing orders the rows so that variants stand side by side: by the label of the cache, the data, the size and the
// streams, then by the variant and the other axes.
func (t *Table) sortServing() {
	var order []int
	for _, name := range []string{"data", "ctx", "concurrency", "label"} {
		order = append(order, slices.IndexFunc(t.Plan.Axes, func(a plan.Axis) bool { return a.Name == name }))
	}
	order = append(order, t.Axes...)
	rank := map[string]int{cold: 0, warmRepeat: 1}
	place := func(label string) int {
		if n, ok := rank[label]; ok {
			return n
		}
		return len(rank)
	}
	slices.SortStableFunc(t.Rows, func(a, b Row) int {
		c := cmp.Or(cmp.Compare(place(a.Serving.Cache), place(b.Serving.Cache)), strings.Compare(a.Serving.Cache, b.Serving.Cache))
		for _, i := range order {
			if c == 0 && i >= 0 {
				c = valueOrder(t.Plan.Axes[i])(a.Values[i], b.Values[i])
			}
		}
		return cmp.Or(c, strings.Compare(t.axis(&a, "cache"), t.axis(&b, "cache")), cmp.Compare(a.Point, b.Point))
	})
}
