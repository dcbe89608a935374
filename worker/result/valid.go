package result

import (
	"errors"
	"fmt"
	"math"
)

// Validate reports the first reason why r must not be written: another schema, no plan or point, an outcome that
// is not in the catalogue, or a number that is not finite.
func (r *Result) Validate() error {
	switch {
	case r.Schema != Schema:
		return fmt.Errorf("schema is %d, this version writes %d", r.Schema, Schema)
	case r.Plan == "":
		return errors.New("plan digest is empty")
	case !validID(r.Point):
		return fmt.Errorf("point id %q is not made of at least two letters and digits", r.Point)
	case !r.Outcome.Known():
		return fmt.Errorf("outcome %q is not in the catalogue", r.Outcome)
	}
	for name, v := range r.numbers() {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is %v: a value that was not measured is null", name, v)
		}
	}
	return nil
}

// numbers yields every floating-point number of r with a name for messages.
func (r *Result) numbers() func(yield func(string, float64) bool) {
	return func(yield func(string, float64) bool) {
		for name, v := range r.Metrics {
			if v != nil && !yield("metric "+name, *v) {
				return
			}
		}
		for _, f := range r.Extra {
			if !yield("figure "+f.Name, f.Value) {
				return
			}
		}
		if s := r.Steps; s != nil && !s.numbers(yield) {
			return
		}
		if g := r.Group; g != nil && !g.numbers(yield) {
			return
		}
		if m := r.MaxFit; m != nil {
			m.numbers(yield)
		}
	}
}

func (s *Summary) numbers(yield func(string, float64) bool) bool {
	for _, v := range s.Seconds {
		if !yield("an iteration's time", v) {
			return false
		}
	}
	for _, v := range []float64{s.Min, s.Q1, s.Median, s.Q3, s.Max, s.Mean, s.MAD} {
		if !yield("the summary of the iterations", v) {
			return false
		}
	}
	return s.SD == nil || yield("the standard deviation of the iterations", *s.SD)
}

func (g *Group) numbers(yield func(string, float64) bool) bool {
	for _, v := range g.PerPosition {
		if !yield("an acceptance by position", v) {
			return false
		}
	}
	return true
}

func (m *MaxFit) numbers(yield func(string, float64) bool) {
	for _, v := range []*float64{m.PeakBytes, m.Capacity} {
		if v != nil && !yield("the memory of the search", *v) {
			return
		}
	}
	for _, t := range m.Trials {
		if !yield(fmt.Sprintf("the time of trial %d", t.N), t.Seconds) {
			return
		}
		if t.Peak != nil && !yield(fmt.Sprintf("the peak of trial %d", t.N), *t.Peak) {
			return
		}
	}
}
