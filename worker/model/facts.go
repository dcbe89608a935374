package model

import (
	"fmt"
	"slices"
	"strings"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/model/ranks"
	"cpbench/worker/result"
)

// introduce writes what the ranks said about themselves into the provenance. It overwrites no fact that is known
// from elsewhere.
func introduce(set *ranks.Set, r *result.Result) {
	first := set.Ranks[0].Hello
	add := func(key, value string) {
		if _, known := r.Provenance[key]; !known && value != "" {
			r.Provenance[key] = value
		}
	}
	for name, version := range first.Versions {
		if _, known := catalogue.FactByName(name); !known {
			name = "version " + name // such as that of another framework
		}
		add(name, version)
	}
	for name, value := range first.Settings {
		add("setting "+name, value)
	}
	var devices []string
	for _, rank := range set.Ranks {
		if name := rank.Hello.Device.Name; name != "" && !slices.Contains(devices, name) {
			devices = append(devices, name)
		}
	}
	add("device", strings.Join(devices, " + ")) // more than one is worth seeing
	if first.Device.UUID != "" {
		add("gpu", strings.Join(devices, " + ")) // the readings of the GPUs, if there are any, have told it
	}
	if _, ok := first.Versions["reference"]; ok {
		r.Warn(catalogue.ReferenceModel, "measured on the built-in reference model, which stands for no real one", "")
	}
}

// built adds the settings that only a built model shows. They replace what was told before it was built.
func built(set *ranks.Set, r *result.Result) {
	for name, value := range set.Ranks[0].Ready.Settings {
		r.Provenance["setting "+name] = value
	}
}

// compiled reports whether a rank's model is compiled for the sizes that it meets: torch.compile makes the program of
// the second size another one than that of the first.
func compiled(set *ranks.Set) bool {
	return slices.ContainsFunc(set.Ranks, func(r *ranks.Rank) bool { return r.Ready != nil && r.Ready.Compiled })
}

// coldPeaks writes the peaks since the start of the processes, which decide whether a size fits.
func coldPeaks(set *ranks.Set, r *result.Result) {
	r.Metrics[catalogue.PeakAllocatedBytes] = peak(set, true, allocated)
	r.Metrics[catalogue.PeakReservedBytes] = peak(set, true, reserved)
	r.Metrics[catalogue.PeakDeviceBytes] = peak(set, true, device)
}

// warmPeaks writes the peaks of the timed steps, which describe the running model.
func warmPeaks(set *ranks.Set, r *result.Result) {
	r.Metrics[catalogue.WarmAllocatedBytes] = peak(set, false, allocated)
}

// peak is the maximum over the ranks, nil where a rank did not measure it.
func peak(set *ranks.Set, cold bool, of func(protocol.Peak) *int64) *float64 {
	var most *float64
	for _, r := range set.Ranks {
		m := r.Memory
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

// capacity is the memory that the tensors of every rank may take, as told with the newest steps: the least over the
// ranks; nil if one did not say.
func capacity(set *ranks.Set) *float64 {
	var least *float64
	for _, r := range set.Ranks {
		var told *int64
		if r.Hello != nil {
			told = r.Hello.Device.TotalBytes
		}
		if r.Memory != nil && r.Memory.Usable != nil {
			told = r.Memory.Usable
		}
		if told == nil {
			return nil
		}
		if f := float64(*told); least == nil || f < *least {
			least = &f
		}
	}
	return least
}

// allocRetries is the figure by which a rank tells that its allocator ran into the limit and recovered.
const allocRetries = "alloc_retries"

// figures keeps the program's own figures, as last told: each from the lowest rank that told it, but an amount of memory,
// a name that ends in _bytes, from the rank that told the most.
func figures(set *ranks.Set, r *result.Result) {
	told := map[string]int{} // place in r.Extra
	for i, rank := range set.Ranks {
		for _, f := range rank.Figures {
			if f.Name == allocRetries && f.Value > 0 {
				r.Warn(catalogue.MemoryPressure, fmt.Sprintf("the allocator of rank %d had to free its cache and ask again %g times", i, f.Value),
					"the time is not that of a size with room to spare")
			}
			at, known := told[f.Name]
			switch {
			case !known:
				told[f.Name] = len(r.Extra)
				r.Extra = append(r.Extra, result.Figure{Name: f.Name, Value: f.Value, Unit: f.Unit})
			case strings.HasSuffix(f.Name, "_bytes") && f.Value > r.Extra[at].Value:
				r.Extra[at].Value = f.Value
			}
		}
	}
}
