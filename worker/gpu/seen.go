package gpu

import "slices"

// Pace says how closely to look in the background. Looking disturbs: use it only in points longer than some seconds.
type Pace string

// The paces.
const (
	// Timed is for what is timed: one reading a second, with nvidia-smi one in five seconds.
	Timed Pace = "timed"
	// Untimed is for trials in which only the memory matters: five readings of it a second, with nvidia-smi one.
	Untimed Pace = "untimed"
)

// Seen is what a watch saw. Figures of a watch that was cut short hold for its beginning alone.
type Seen struct {
	Source   Source    `json:"source"`
	Pace     Pace      `json:"pace"`
	Readings int       `json:"readings"`
	Reason   string    `json:"reason,omitempty"` // why readings are lacking; empty: none are
	GPUs     []SeenGPU `json:"gpus"`
}

// SeenGPU is what a watch saw of one GPU; nil is "not once".
type SeenGPU struct {
	UUID           string   `json:"uuid"`
	MemoryUsedMax  *float64 `json:"memory_used_max_bytes,omitempty"`
	SMClockMin     *float64 `json:"sm_clock_min_hertz,omitempty"`
	SMClockMedian  *float64 `json:"sm_clock_median_hertz,omitempty"`
	SMClockMax     *float64 `json:"sm_clock_max_hertz,omitempty"`
	PowerMedian    *float64 `json:"power_median_watts,omitempty"`
	TemperatureMax *float64 `json:"temperature_max_celsius,omitempty"`
	Reasons        []string `json:"clock_reasons,omitempty"` // every reason that was seen
}

// Series gathers the readings of a watch. The zero value is ready for use; it is not safe for several goroutines.
type Series struct {
	readings int
	uuids    []string
	values   map[string]*series
}

// series are the values of one GPU.
type series struct {
	memory, clock, power, temperature []float64
	reasons                           []string
}

// Add takes one reading.
func (s *Series) Add(r Reading) {
	s.readings++
	for _, g := range r.GPUs {
		v := s.values[g.UUID]
		if v == nil {
			v = &series{}
			if s.values == nil {
				s.values = map[string]*series{}
			}
			s.values[g.UUID] = v
			s.uuids = append(s.uuids, g.UUID)
		}
		keep := func(to *[]float64, f *float64) {
			if f != nil {
				*to = append(*to, *f)
			}
		}
		keep(&v.memory, g.MemoryUsed)
		keep(&v.clock, g.SMClock)
		keep(&v.power, g.Power)
		keep(&v.temperature, g.Temperature)
		for _, reason := range g.Reasons {
			if !slices.Contains(v.reasons, reason) {
				v.reasons = append(v.reasons, reason)
			}
		}
	}
}

// Readings is the number of readings so far.
func (s *Series) Readings() int { return s.readings }

// GPUs sums up what was seen of each GPU, in the order of their UUIDs.
func (s *Series) GPUs() []SeenGPU {
	var list []SeenGPU
	for _, uuid := range slices.Sorted(slices.Values(s.uuids)) {
		v := s.values[uuid]
		clocks := slices.Sorted(slices.Values(v.clock))
		g := SeenGPU{
			UUID: uuid, MemoryUsedMax: largest(v.memory...), SMClockMedian: median(clocks), PowerMedian: median(v.power),
			TemperatureMax: largest(v.temperature...), Reasons: slices.Clone(v.reasons),
		}
		if n := len(clocks); n > 0 {
			g.SMClockMin, g.SMClockMax = &clocks[0], &clocks[n-1]
		}
		list = append(list, g)
	}
	return list
}

// largest is the largest value, nil of none.
func largest(values ...float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	v := slices.Max(values)
	return &v
}

// median is the middle value, nil of none.
func median(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	i := len(sorted) / 2
	m := sorted[i]
	if len(sorted)%2 == 0 {
		m = (sorted[i-1] + m) / 2
	}
	return &m
}
