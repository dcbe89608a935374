package worker

import (
	"fmt"
	"slices"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// aboveBracket decides a point that a search has shown not to fit. Where the fit is not monotone, sizes up to the
// largest that fitted are left to be tried.
func (w *worker) aboveBracket(pair plan.Pair, r *result.Result) bool {
	f := w.cfg.Run.Plan.Spec.Workload.MaxFit
	if f == nil || pair.Case != "" {
		return false
	}
	b := w.bracket(pair)
	if b == nil || b.OOM == nil {
		return false
	}
	setting, err := w.cfg.Run.Plan.At(pair.Point, 0)
	if err != nil {
		return false // its own execution says what is wrong
	}
	n, ok := setting.Values[f.Axis].(int)
	if !ok || int64(n) < *b.OOM || b.Above != nil && int64(n) <= *b.Above {
		return false
	}
	r.Outcome, r.Reason = catalogue.Skipped, "above_bracket"
	r.Evidence = fmt.Sprintf("the search ran out of memory at %s = %d", f.Axis, *b.OOM)
	return true
}

// bracket is what the search for a point has found, in this task or in the one that had the first repeat; nil if
// there is none.
func (w *worker) bracket(pair plan.Pair) *result.MaxFit {
	p := w.cfg.Run.Plan
	values := slices.Clone(pair.Values)
	for i, a := range p.Axes {
		if a.Name == p.Spec.Workload.MaxFit.Axis {
			values[i] = plan.CaseMaxFit
		}
	}
	search := plan.Pair{Point: plan.Point{ID: p.ID(values), Values: values, Case: plan.CaseMaxFit}, Repeat: 1}
	if w.brackets[search.ID] == nil {
		last, err := Last(w.cfg.Run, search)
		if err != nil || last == nil {
			return nil
		}
		w.brackets[search.ID] = last.MaxFit
	}
	return w.brackets[search.ID]
}
