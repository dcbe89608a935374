package collect

import (
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// pool keeps one copy of what thousands of results repeat: names of metrics and facts of their provenance.
type pool struct {
	texts map[string]string
	names map[string][]string // sets of metrics that were measured together
	ids   map[fact]int32
	facts []fact
	lacks map[string][]int32 // sets of facts that are missing together
}

type fact struct{ key, value string }

func (p *pool) text(s string) string {
	if t, ok := p.texts[s]; ok {
		return t
	}
	if p.texts == nil {
		p.texts = map[string]string{}
	}
	p.texts[s] = s
	return s
}

func (p *pool) fact(key, value string) int32 {
	f := fact{key, value}
	if id, ok := p.ids[f]; ok {
		return id
	}
	if p.ids == nil {
		p.ids = map[fact]int32{}
	}
	id := int32(len(p.facts)) //nolint:gosec // fewer facts than results
	p.ids[f] = id
	p.facts = append(p.facts, f)
	return id
}

// compact takes from a result what a table needs.
func (p *pool) compact(r *result.Result) *Execution {
	x := &Execution{
		Outcome: r.Outcome, Reason: p.text(because(r)), Attempt: r.Attempt, Restart: r.Restart,
		Extra: slices.Clone(r.Extra), Steps: r.Steps, Search: r.MaxFit, Group: r.Group, Start: r.Start, Sizes: r.Sizes, Warnings: slices.Clone(r.Warnings),
		Host: p.text(r.Provenance["host"]), Started: r.Started, Ended: r.Ended,
	}
	if r.Outcome.Fits() {
		x.Reason = p.text(r.Reason)
	}
	if x.Search != nil {
		x.killed = slices.ContainsFunc(x.Search.Trials, func(t result.Trial) bool { return t.Outcome == catalogue.OOMHost })
		x.Search.Trials = nil
	}
	if x.Steps != nil {
		x.Steps.Seconds = slices.Clone(x.Steps.Seconds) // the decoder leaves room for more
		x.Steps.Steady = p.text(x.Steps.Steady)
	}
	for i := range x.Warnings {
		w := &x.Warnings[i]
		w.Code, w.Text, w.Hint = catalogue.Code(p.text(string(w.Code))), p.text(w.Text), p.text(w.Hint)
	}
	x.Outcome = catalogue.Outcome(p.text(string(x.Outcome)))
	x.Sizes.Topology = p.text(x.Sizes.Topology)
	x.names = p.measured(r.Metrics)
	x.values = make([]float64, len(x.names))
	for i, name := range x.names {
		x.values[i] = *r.Metrics[name]
	}
	x.facts = make([]int32, 0, len(r.Provenance))
	for k, v := range r.Provenance {
		x.facts = append(x.facts, p.fact(k, v))
	}
	x.lacks = p.lacking(r.Missing)
	return x
}

// measured lists the names of the metrics that have a value, sorted; one list for all results with the same ones.
func (p *pool) measured(metrics map[string]*float64) []string {
	names := make([]string, 0, len(metrics))
	for name, v := range metrics {
		if v != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	key := strings.Join(names, "\x00")
	if list, ok := p.names[key]; ok {
		return list
	}
	if p.names == nil {
		p.names = map[string][]string{}
	}
	p.names[key] = names
	return names
}

// Metric returns a measured metric in its base unit; false: not measured.
func (x *Execution) Metric(name string) (float64, bool) {
	if i, ok := slices.BinarySearch(x.names, name); ok {
		return x.values[i], true
	}
	return 0, false
}

// Metrics yields every measured metric in its base unit, by name.
func (x *Execution) Metrics() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for i, name := range x.names {
			if !yield(name, x.values[i]) {
				return
			}
		}
	}
}

// Path is the result's file, below the run folder.
func (p *Pair) Path() string {
	if p.Result == nil {
		return ""
	}
	r := result.Result{Point: p.Point.ID, Repeat: p.Repeat, Attempt: p.Result.Attempt, Restart: p.Result.Restart}
	path, err := r.Path(filepath.Base(p.Run.ResultsDir()))
	if err != nil {
		return "" // no result has such an id
	}
	return path
}

// brief is the part of the result that a verdict looks at.
func (x *Execution) brief() *result.Result {
	if x == nil {
		return nil
	}
	return &result.Result{Outcome: x.Outcome, Reason: x.Reason, Attempt: x.Attempt, Restart: x.Restart}
}
