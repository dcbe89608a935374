package worker

import (
	"fmt"
	"strconv"
	"strings"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"golang.org/x/sys/unix"
)

// setupFailed leaves a result for every pair after a set-up line has failed: a failed set-up is an ending too.
// where is LINE:RC, as the script gives it.
func (w *worker) setupFailed(todo []plan.Pair, where string) error {
	line, code, ok := strings.Cut(where, ":")
	n, errLine := strconv.Atoi(line)
	rc, errCode := strconv.Atoi(code)
	if !ok || errLine != nil || errCode != nil {
		return fmt.Errorf("--setup-failed %q is not LINE:RC", where)
	}
	text := ""
	if setup := w.cfg.Run.Plan.Spec.Setup; n >= 1 && n <= len(setup) {
		text = setup[n-1]
	}
	for _, pair := range todo {
		r := w.blank(pair)
		r.Outcome = catalogue.Error
		r.Reason = fmt.Sprintf("set-up line %d ended with exit code %d", n, rc)
		r.Evidence = text
		if rc == 128+int(unix.SIGTERM) || rc == 128+int(unix.SIGUSR2) || rc == 128+int(unix.SIGINT) {
			r.Outcome, r.Reason = catalogue.Cancelled, fmt.Sprintf("stopped by a signal in set-up line %d", n)
		}
		if err := w.write(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// aboveBracket decides a point that the search of its task has shown not to fit.
func (w *worker) aboveBracket(pair plan.Pair, r *result.Result) bool {
	f := w.cfg.Run.Plan.Spec.Workload.MaxFit
	if f == nil || pair.Case != "" {
		return false
	}
	if w.bracket == nil {
		w.bracket = w.searchedBefore(pair)
	}
	if w.bracket == nil || w.bracket.OOM == nil {
		return false
	}
	for _, p := range r.Params {
		if p.Name != f.Axis {
			continue
		}
		n, err := strconv.ParseInt(p.Value, 10, 64)
		if err != nil || n < *w.bracket.OOM {
			return false
		}
		r.Outcome, r.Reason = catalogue.Skipped, "above_bracket"
		r.Evidence = fmt.Sprintf("the search ran out of memory at %s = %d", f.Axis, *w.bracket.OOM)
		return true
	}
	return false
}

// searchedBefore reads the bracket that another task, that of the first repeat, has found for this point.
func (w *worker) searchedBefore(pair plan.Pair) *result.MaxFit {
	p := w.cfg.Run.Plan
	values := make([]string, len(pair.Values))
	for i, a := range p.Axes {
		values[i] = pair.Values[i]
		if a.Name == p.Spec.Workload.MaxFit.Axis {
			values[i] = plan.CaseMaxFit
		}
	}
	search := plan.Pair{Point: plan.Point{ID: p.ID(values), Values: values, Case: plan.CaseMaxFit}, Repeat: 1}
	last, err := Last(w.cfg.Run, search)
	if err != nil || last == nil {
		return nil
	}
	return last.MaxFit
}
