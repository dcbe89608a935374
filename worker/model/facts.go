package model

import (
	"fmt"
	"slices"
	"strings"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
)

// fill writes down what is asked of the execution.
func (e *execution) fill(r *result.Result) {
	size := func(name string) *int64 {
		if n, ok := e.setting.Point[name].(int); ok {
			v := int64(n)
			return &v
		}
		return nil
	}
	r.Sizes = result.Sizes{Tokens: size("tokens"), Atoms: size("atoms"), MSA: size("msa"), Ranks: e.setting.Ranks, Topology: e.setting.Topology}
}

// introduce writes what the ranks said about themselves into the provenance. It overwrites no fact that is known
// from elsewhere.
func (e *execution) introduce(r *result.Result) {
	first := e.ranks[0].hello
	set := func(key, value string) {
		if _, known := r.Provenance[key]; !known && value != "" {
			r.Provenance[key] = value
		}
	}
	for name, version := range first.Versions {
		set(name, version)
	}
	for name, value := range first.Settings {
		set("setting "+name, value)
	}
	var devices []string
	for _, rank := range e.ranks {
		if name := rank.hello.Device.Name; name != "" && !slices.Contains(devices, name) {
			devices = append(devices, name)
		}
	}
	set("device", strings.Join(devices, " + ")) // more than one is worth seeing
	if _, ok := first.Versions["reference"]; ok {
		r.Warn(catalogue.ReferenceModel, "measured on the built-in reference model, which stands for no real one", "")
	}
}

// coldPeaks writes the peaks since the start of the processes, which decide whether a size fits.
func (e *execution) coldPeaks(r *result.Result) {
	r.Metrics[catalogue.PeakAllocatedBytes] = e.peak(true, allocated)
	r.Metrics[catalogue.PeakReservedBytes] = e.peak(true, reserved)
	r.Metrics[catalogue.PeakDeviceBytes] = e.peak(true, device)
}

// warmPeaks writes the peaks of the timed steps, which describe the running model.
func (e *execution) warmPeaks(r *result.Result) {
	r.Metrics[catalogue.WarmAllocatedBytes] = e.peak(false, allocated)
}

// peak is the maximum over the ranks, nil where a rank did not measure it.
func (e *execution) peak(cold bool, of func(protocol.Peak) *int64) *float64 {
	var most *float64
	for _, r := range e.ranks {
		m := r.memory
		if m == nil {
			return nil
		}
		p := m.Warm
		if cold {
			p = m.Cold
		}
		v := of(p)
		if v == nil {
			return nil
		}
		if f := float64(*v); most == nil || f > *most {
			most = &f
		}
	}
	return most
}

func allocated(p protocol.Peak) *int64 { return p.Allocated }
func reserved(p protocol.Peak) *int64  { return p.Reserved }
func device(p protocol.Peak) *int64    { return p.Device }

// capacity is the memory that every rank may use: the least over the ranks; nil if one did not say.
func (e *execution) capacity() *float64 {
	var least *float64
	for _, r := range e.ranks {
		h := r.hello
		if h == nil || h.Device.TotalBytes == nil {
			return nil
		}
		if f := float64(*h.Device.TotalBytes); least == nil || f < *least {
			least = &f
		}
	}
	return least
}

// allocRetries is the figure by which a rank tells that its allocator ran into the limit and recovered.
const allocRetries = "alloc_retries"

// figures keeps the program's own figures, each from the lowest rank that told it, as last told.
func (e *execution) figures(r *result.Result) {
	told := map[string]bool{}
	for i, rank := range e.ranks {
		for _, f := range rank.own {
			if f.Name == allocRetries && f.Value > 0 {
				r.Warn(catalogue.MemoryPressure, fmt.Sprintf("the allocator of rank %d had to free its cache and ask again %g times", i, f.Value),
					"the time is not that of a size with room to spare")
			}
			if !told[f.Name] {
				told[f.Name] = true
				r.Extra = append(r.Extra, result.Figure{Name: f.Name, Value: f.Value, Unit: f.Unit})
			}
		}
	}
}
