package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shortest is the shortest time in seconds over which the energy counter, which moves some ten times a second, says
// something.
const shortest = 2

// Usage is what happened to the GPUs between two readings. The figures of the whole are nil if they are for one GPU;
// Missing says for which, by the field's name in JSON.
type Usage struct {
	Seconds float64       `json:"seconds"`
	GPUs    []DeviceUsage `json:"gpus"`

	Energy            *float64 `json:"energy_joules,omitempty"`           // of all GPUs
	PowerMedian       *float64 `json:"power_median_watts,omitempty"`      // of all GPUs: the sum of their medians
	ThrottledFraction *float64 `json:"throttled_fraction,omitempty"`      // of the worst GPU
	SMClockMedian     *float64 `json:"sm_clock_median_hertz,omitempty"`   // of the slowest GPU
	MemoryPeak        *float64 `json:"memory_used_peak_bytes,omitempty"`  // of the fullest GPU; what was in use before counts
	TemperatureMax    *float64 `json:"temperature_max_celsius,omitempty"` // of the hottest GPU
	Missing           Missing  `json:"missing,omitempty"`
}

// DeviceUsage is what happened to one GPU. Nil is not known; Missing has the reason.
type DeviceUsage struct {
	UUID     string             `json:"uuid"`
	Energy   *float64           `json:"energy_joules,omitempty"`
	Throttle map[string]float64 `json:"throttle_seconds,omitempty"` // by reason
	// ThrottledFraction is the sum over all reasons by the time between the readings. Reasons may hold at once, so it
	// may exceed 1.
	ThrottledFraction *float64 `json:"throttled_fraction,omitempty"`
	SMClockMin        *float64 `json:"sm_clock_min_hertz,omitempty"` // while watched
	SMClockMedian     *float64 `json:"sm_clock_median_hertz,omitempty"`
	SMClockMax        *float64 `json:"sm_clock_max_hertz,omitempty"`
	PowerMedian       *float64 `json:"power_median_watts,omitempty"` // while watched
	PowerMean         *float64 `json:"power_mean_watts,omitempty"`   // energy by time
	MemoryPeak        *float64 `json:"memory_used_peak_bytes,omitempty"`
	TemperatureMax    *float64 `json:"temperature_max_celsius,omitempty"`
	Reasons           []string `json:"clock_reasons,omitempty"` // every reason that was seen while watched
	ECCUncorrected    *float64 `json:"ecc_uncorrected,omitempty"`
	Missing           Missing  `json:"missing,omitempty"`
}

// Delta tells what happened between two readings, with what a watch saw meanwhile; the zero Seen is no watch.
func Delta(before, after Reading, seen Seen) Usage {
	u := Usage{Seconds: after.Time.Sub(before.Time).Seconds(), Missing: Missing{}}
	uuids := map[string]bool{}
	for _, r := range []Reading{before, after} {
		for _, g := range r.GPUs {
			uuids[g.UUID] = true
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(uuids)) {
		u.GPUs = append(u.GPUs, u.one(uuid, before, after, seen))
	}
	u.total()
	return u
}

// Join tells what happened to the GPUs of several nodes at the same time.
func Join(nodes ...Usage) Usage {
	u := Usage{Missing: Missing{}}
	for _, n := range nodes {
		u.Seconds = max(u.Seconds, n.Seconds)
		u.GPUs = append(u.GPUs, n.GPUs...)
	}
	u.total()
	return u
}

// total makes the figures of the whole out of those of the GPUs.
func (u *Usage) total() {
	sum := func(v []float64) float64 {
		var s float64
		for _, f := range v {
			s += f
		}
		return s
	}
	u.Energy = u.whole("energy_joules", sum, func(g DeviceUsage) *float64 { return g.Energy })
	u.PowerMedian = u.whole("power_median_watts", sum, func(g DeviceUsage) *float64 { return g.PowerMedian })
	u.ThrottledFraction = u.whole("throttled_fraction", slices.Max[[]float64], func(g DeviceUsage) *float64 { return g.ThrottledFraction })
	u.SMClockMedian = u.whole("sm_clock_median_hertz", slices.Min[[]float64], func(g DeviceUsage) *float64 { return g.SMClockMedian })
	u.MemoryPeak = u.whole("memory_used_peak_bytes", slices.Max[[]float64], func(g DeviceUsage) *float64 { return g.MemoryPeak })
	u.TemperatureMax = u.whole("temperature_max_celsius", slices.Max[[]float64], func(g DeviceUsage) *float64 { return g.TemperatureMax })
}

// whole joins the values of all GPUs, unless one lacks its own.
func (u *Usage) whole(name string, join func([]float64) float64, of func(DeviceUsage) *float64) *float64 {
	var values []float64
	for _, g := range u.GPUs {
		v := of(g)
		if v == nil {
			u.Missing[name] = fmt.Sprintf("%s: %s", g.UUID, g.Missing[name])
			return nil
		}
		values = append(values, *v)
	}
	if len(values) == 0 {
		u.Missing[name] = "no GPU"
		return nil
	}
	v := join(values)
	return &v
}

// one is the usage of one GPU.
func (u *Usage) one(uuid string, before, after Reading, seen Seen) DeviceUsage {
	g := DeviceUsage{UUID: uuid, Missing: Missing{}}
	b, a := before.state(uuid), after.state(uuid)
	why := ""
	switch {
	case b == nil:
		why = "not in the first reading"
	case a == nil:
		why = "not in the last reading"
	case before.Source != after.Source:
		why = fmt.Sprintf("the source changed from %s to %s", before.Source, after.Source)
	case u.Seconds <= 0:
		why = "no time between the readings"
	}
	if why != "" {
		for _, name := range []string{"energy_joules", "power_mean_watts", "throttle_seconds", "throttled_fraction", "ecc_uncorrected"} {
			g.Missing[name] = why
		}
	} else {
		g.counters(b, a, u.Seconds)
	}
	g.levels(b, a, seen)
	return g
}

// counters fills in the differences of the counters.
func (g *DeviceUsage) counters(b, a *State, seconds float64) {
	g.Energy = g.difference("energy_joules", b.Energy, a.Energy, b.Missing, a.Missing)
	switch {
	case g.Energy == nil:
	case seconds < shortest:
		g.Energy, g.Missing["energy_joules"] = nil, fmt.Sprintf("%.1f s are too short for the counter, which needs %d s", seconds, shortest)
	case *g.Energy == 0:
		g.Energy, g.Missing["energy_joules"] = nil, "the counter did not move"
	}
	if g.Energy != nil {
		mean := *g.Energy / seconds
		g.PowerMean = &mean
	} else {
		g.Missing["power_mean_watts"] = g.Missing["energy_joules"]
	}
	g.ECCUncorrected = g.difference("ecc_uncorrected", b.ECCUncorrected, a.ECCUncorrected, b.Missing, a.Missing)
	g.Throttle = map[string]float64{}
	var total float64
	var lacking []string
	for _, reason := range ThrottleReasons() {
		name := "throttle_seconds." + reason
		d := g.difference(name, at(b.Throttle, reason), at(a.Throttle, reason), b.Missing, a.Missing)
		if d == nil {
			lacking = append(lacking, reason+": "+g.Missing[name])
			continue
		}
		g.Throttle[reason] = *d
		total += *d
	}
	if len(lacking) > 0 {
		g.Missing["throttled_fraction"] = strings.Join(lacking, ", ")
		return
	}
	total /= seconds
	g.ThrottledFraction = &total
}

func at(m map[string]float64, key string) *float64 {
	if v, ok := m[key]; ok {
		return &v
	}
	return nil
}

// difference is how far a counter went. One that went backwards was reset or has wrapped, and says nothing.
func (g *DeviceUsage) difference(name string, b, a *float64, missing ...Missing) *float64 {
	if b != nil && a != nil {
		if *a < *b {
			g.Missing[name] = "the counter went backwards"
			return nil
		}
		d := *a - *b
		return &d
	}
	g.Missing[name] = "not read"
	for _, m := range missing {
		for _, key := range []string{name, "other"} {
			if why := m[key]; why != "" {
				g.Missing[name] = why
			}
		}
	}
	return nil
}

// levels fills in what is no counter: from the readings at both ends and from the watch.
func (g *DeviceUsage) levels(b, a *State, seen Seen) {
	var memory, heat []float64
	keep := func(to *[]float64, f *float64) {
		if f != nil {
			*to = append(*to, *f)
		}
	}
	for _, s := range []*State{b, a} {
		if s != nil {
			keep(&memory, s.MemoryUsed)
			keep(&heat, s.Temperature)
		}
	}
	why := seen.Reason
	if why == "" {
		why = "not watched"
	}
	if i := slices.IndexFunc(seen.GPUs, func(s SeenGPU) bool { return s.UUID == g.UUID }); i >= 0 && seen.Reason == "" {
		s := seen.GPUs[i]
		keep(&memory, s.MemoryUsedMax)
		keep(&heat, s.TemperatureMax)
		g.Reasons = s.Reasons
		g.SMClockMin, g.SMClockMedian, g.SMClockMax, g.PowerMedian = s.SMClockMin, s.SMClockMedian, s.SMClockMax, s.PowerMedian
		why = "not read while watched"
	}
	g.MemoryPeak, g.TemperatureMax = largest(memory...), largest(heat...)
	if g.MemoryPeak != nil && (seen.Reason != "" || seen.Readings == 0) {
		// Memory in use before and after says nothing about the time between.
		g.MemoryPeak = nil
	}
	for name, v := range map[string]*float64{
		"sm_clock_median_hertz": g.SMClockMedian, "power_median_watts": g.PowerMedian,
		"memory_used_peak_bytes": g.MemoryPeak, "temperature_max_celsius": g.TemperatureMax,
	} {
		if v == nil {
			g.Missing[name] = why
		}
	}
}
