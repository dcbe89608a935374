package telemetry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/gpu"
	"cpbench/worker/node"
	"cpbench/worker/result"
)

// WatchFrom is how long timed work has to take before the GPUs are looked at meanwhile: looking disturbs, and the
// counters at the edges need none.
const WatchFrom = 3 * time.Second

// Work says what is read during some work.
type Work struct {
	Nodes    int           // that it runs on, this one first
	Pace     gpu.Pace      // of the background
	Expected time.Duration // of timed work; 0: not known
}

// Span is what happened to the GPUs of some nodes during some work. The zero value is nothing.
type Span struct {
	usage   []gpu.Usage          // by node
	idle    []map[string]float64 // by node: bytes in use on each GPU before
	lacking []string             // nodes without, and why
}

// During carries out work and tells what happened to the GPUs meanwhile. Timed work is watched if it takes more than 3
// seconds: from its start if that was expected, else from then on.
func (t *Telemetry) During(ctx context.Context, w Work, work func()) Span {
	if !t.readable(w.Nodes) {
		work()
		return Span{}
	}
	span := Span{lacking: t.lacking(w.Nodes)}
	span.miss(t.nodes.Ask(ctx, w.Nodes, node.Request{Do: node.Before}), t, "before")
	stop := t.background(ctx, w)
	work()
	stop()
	after := t.nodes.Ask(context.WithoutCancel(ctx), w.Nodes, node.Request{Do: node.After}) // what was done until then counts
	span.miss(after, t, "after")
	for i, r := range after {
		if r.Err == nil && r.Usage != nil && i < len(t.seen) {
			span.usage, span.idle = append(span.usage, *r.Usage), append(span.idle, t.seen[i].idle)
		}
	}
	return span
}

// miss notes the nodes that did not answer, once each.
func (s *Span) miss(replies []node.Reply, t *Telemetry, when string) {
	for i, r := range replies {
		known := slices.ContainsFunc(s.lacking, func(text string) bool { return strings.HasPrefix(text, r.Node+": ") })
		if r.Err != nil && !known && t.member(i) != nil {
			s.lacking = append(s.lacking, fmt.Sprintf("%s: no reading %s: %v", r.Node, when, r.Err))
		}
	}
}

// background begins to look at the GPUs, now or in a while. The function that it returns has to be called: afterwards
// nothing is begun any more.
func (t *Telemetry) background(ctx context.Context, w Work) (stop func()) {
	watch := func() { t.nodes.Ask(ctx, w.Nodes, node.Request{Do: node.Watch, Pace: w.Pace}) } // After tells what is missing
	switch {
	case w.Pace == gpu.Untimed, w.Expected > WatchFrom:
		watch()
		return func() {}
	case w.Expected > 0:
		return func() {}
	}
	begun := make(chan struct{})
	timer := time.AfterFunc(WatchFrom, func() {
		defer close(begun)
		watch()
	})
	return func() {
		if !timer.Stop() {
			<-begun
		}
	}
}

// Sum is what happened in several spans of the same nodes, one after the other. A node that lacks in one lacks in all.
func Sum(spans []Span) Span {
	var s Span
	for _, part := range spans {
		for _, text := range part.lacking {
			if !slices.Contains(s.lacking, text) {
				s.lacking = append(s.lacking, text)
			}
		}
	}
	if len(spans) == 0 || len(s.lacking) > 0 {
		return s
	}
	for i := range spans[0].usage {
		var runs []gpu.Usage
		for _, part := range spans {
			if i < len(part.usage) {
				runs = append(runs, part.usage[i])
			}
		}
		s.usage, s.idle = append(s.usage, gpu.Sum(runs...)), append(s.idle, spans[0].idle[i])
	}
	return s
}

// Peak is the most memory in bytes that was in use on one GPU beyond what was in use before the execution; nil where it
// was not watched, or not on every GPU.
func (s Span) Peak() *float64 {
	if len(s.lacking) > 0 {
		return nil
	}
	var most *float64
	for i, u := range s.usage {
		for _, g := range u.GPUs {
			idle, ok := s.idle[i][g.UUID]
			if g.MemoryPeak == nil || !ok {
				return nil
			}
			if rise := max(*g.MemoryPeak-idle, 0); most == nil || rise > *most {
				most = &rise
			}
		}
	}
	return most
}

// Into writes the figures of the whole job and the doubts into a result.
func (s Span) Into(r *result.Result) {
	if len(s.usage) == 0 && len(s.lacking) == 0 {
		return
	}
	if r.Metrics == nil {
		r.Metrics = map[string]*float64{}
	}
	u := gpu.Join(s.usage...)
	if len(s.lacking) > 0 {
		u = gpu.Usage{GPUs: u.GPUs, Seconds: u.Seconds} // what others have is not the whole
		lack(r, s.lacking)
	}
	for name, v := range map[string]*float64{
		catalogue.EnergyJoules: u.Energy, catalogue.PowerMedianWatts: u.PowerMedian, catalogue.ThrottledFraction: u.ThrottledFraction,
		catalogue.SMClockMedianHertz: u.SMClockMedian, catalogue.TemperatureMax: u.TemperatureMax,
	} {
		if r.Metrics[name] == nil { // a program may have told it itself
			r.Metrics[name] = v
		}
	}
	if r.Metrics[catalogue.PeakDeviceBytes] == nil {
		r.Metrics[catalogue.PeakDeviceBytes] = s.Peak()
	}
	if len(u.Missing) > 0 {
		var why []string
		for _, name := range slices.Sorted(maps.Keys(u.Missing)) {
			why = append(why, name+" ("+u.Missing[name]+")")
		}
		r.Warn(catalogue.NoTelemetry, "not known of the GPUs: "+strings.Join(why, ", "), "")
	}
	codes := map[gpu.DoubtKind]catalogue.Code{gpu.PowerCapped: catalogue.PowerCapped, gpu.Throttled: catalogue.Throttled, gpu.ECCErrors: catalogue.ECCErrors}
	for _, d := range u.Doubts() {
		r.Warn(codes[d.Kind], d.Text, "")
	}
	s.clocks(r)
}

// clocks notes the SM clocks that were seen.
func (s Span) clocks(r *result.Result) {
	var low, high *float64
	for _, u := range s.usage {
		for _, g := range u.GPUs {
			if g.SMClockMin != nil && (low == nil || *g.SMClockMin < *low) {
				low = g.SMClockMin
			}
			if g.SMClockMax != nil && (high == nil || *g.SMClockMax > *high) {
				high = g.SMClockMax
			}
		}
	}
	if low != nil && high != nil && r.Provenance != nil {
		r.Provenance["sm_clock_observed"] = fmt.Sprintf("%.0f to %.0f MHz", *low/1e6, *high/1e6)
	}
}
