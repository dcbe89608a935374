package gpu

import (
	"maps"
	"slices"
)

// Sum tells what happened to the same GPUs in several runs one after the other, without the time between them: counters
// add up, of levels the largest counts, and of medians the median. What is missing of one run is missing of all.
func Sum(runs ...Usage) Usage {
	if len(runs) == 1 {
		return runs[0]
	}
	u := Usage{Missing: Missing{}}
	parts := map[string][]DeviceUsage{}
	for _, r := range runs {
		u.Seconds += r.Seconds
		for _, g := range r.GPUs {
			if parts[g.UUID] == nil {
				u.GPUs = append(u.GPUs, DeviceUsage{UUID: g.UUID})
			}
			parts[g.UUID] = append(parts[g.UUID], g)
		}
	}
	for i := range u.GPUs {
		u.GPUs[i].sum(parts[u.GPUs[i].UUID], len(runs), u.Seconds)
	}
	u.total()
	return u
}

// sum makes one usage of the runs of one GPU.
func (g *DeviceUsage) sum(list []DeviceUsage, runs int, seconds float64) {
	g.Missing = Missing{}
	for _, p := range list {
		maps.Copy(g.Missing, p.Missing)
		g.Reasons = append(g.Reasons, p.Reasons...)
	}
	slices.Sort(g.Reasons)
	g.Reasons = slices.Compact(g.Reasons)
	all := func(name string, join func([]float64) *float64, of func(DeviceUsage) *float64) *float64 {
		var values []float64
		for _, p := range list {
			if v := of(p); v != nil {
				values = append(values, *v)
			}
		}
		if len(values) < runs {
			if g.Missing[name] == "" {
				g.Missing[name] = "not read in every run"
			}
			return nil
		}
		delete(g.Missing, name)
		return join(values)
	}
	g.Energy = all("energy_joules", added, func(p DeviceUsage) *float64 { return p.Energy })
	if g.Energy != nil && seconds > 0 {
		mean := *g.Energy / seconds
		g.PowerMean = &mean
		delete(g.Missing, "power_mean_watts")
	}
	g.Throttle = map[string]float64{}
	for _, reason := range ThrottleReasons() {
		v := all("throttle_seconds."+reason, added, func(p DeviceUsage) *float64 { return at(p.Throttle, reason) })
		if v != nil {
			g.Throttle[reason] = *v
		}
	}
	g.ThrottledFraction = all("throttled_fraction", added, func(p DeviceUsage) *float64 { return p.ThrottledFraction })
	if g.ThrottledFraction != nil && seconds > 0 {
		var total float64
		for _, s := range g.Throttle {
			total += s
		}
		total /= seconds
		g.ThrottledFraction = &total
	}
	largestOf := func(v []float64) *float64 { return largest(v...) }
	g.SMClockMin = all("sm_clock_min_hertz", smallest, func(p DeviceUsage) *float64 { return p.SMClockMin })
	g.SMClockMedian = all("sm_clock_median_hertz", median, func(p DeviceUsage) *float64 { return p.SMClockMedian })
	g.SMClockMax = all("sm_clock_max_hertz", largestOf, func(p DeviceUsage) *float64 { return p.SMClockMax })
	g.PowerMedian = all("power_median_watts", median, func(p DeviceUsage) *float64 { return p.PowerMedian })
	g.MemoryPeak = all("memory_used_peak_bytes", largestOf, func(p DeviceUsage) *float64 { return p.MemoryPeak })
	g.TemperatureMax = all("temperature_max_celsius", largestOf, func(p DeviceUsage) *float64 { return p.TemperatureMax })
	g.ECCUncorrected = all("ecc_uncorrected", added, func(p DeviceUsage) *float64 { return p.ECCUncorrected })
}

// added is the sum of values.
func added(values []float64) *float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return &sum
}

// smallest is the smallest of values, of which there is at least one.
func smallest(values []float64) *float64 {
	least := values[0]
	for _, v := range values {
		least = min(least, v)
	}
	return &least
}
