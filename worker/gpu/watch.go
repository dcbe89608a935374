package gpu

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Pace says how closely to look in the background. Looking disturbs: use it only in points longer than some seconds.
type Pace string

// The paces.
const (
	// Timed is for what is timed: one reading a second, with nvidia-smi one in five seconds.
	Timed Pace = "timed"
	// Untimed is for trials in which only the memory matters: five readings of it a second, with nvidia-smi one.
	Untimed Pace = "untimed"
)

// helper is the pace for the source NVML.
func (p Pace) helper() (Kind, float64) {
	if p == Untimed {
		return Memory, MaxHZ
	}
	return Sample, 1
}

// smi is the pace for the source SMI.
func (p Pace) smi() (Kind, time.Duration) {
	if p == Untimed {
		return Memory, time.Second
	}
	return Sample, 5 * time.Second
}

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

// Watcher is a watch under way.
type Watcher struct {
	s      *Sampler
	stop   func(context.Context) error // nil: there is nothing to stop
	once   sync.Once
	mu     sync.Mutex // guards what follows
	seen   Seen
	series map[string]*series
}

// series are the values of one GPU.
type series struct {
	memory, clock, power, temperature []float64
	reasons                           []string
}

// Watch begins to look at the selected GPUs in the background. Stop has to be called; the end of ctx only ends the
// looking. There may be one watch at a time. A watch that could not begin has seen nothing and says why. With the
// source SMI a watch starts processes: end it before a process tree is killed.
func (s *Sampler) Watch(ctx context.Context, pace Pace) *Watcher {
	w := &Watcher{s: s, seen: Seen{Source: None, Pace: pace}, series: map[string]*series{}}
	err := s.do(ctx, func(ctx context.Context, b backend) error {
		if s.watching {
			return refusal{"another watch is under way"}
		}
		only := slices.Clone(s.only)
		stop, err := b.watch(ctx, pace, func(r Reading) { w.add(r, only) })
		if err != nil {
			return err
		}
		w.stop, s.watching = stop, true
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen.Source = b.source()
		return nil
	})
	if err != nil {
		w.seen.Reason = err.Error()
		return w
	}
	context.AfterFunc(ctx, w.end)
	return w
}

// end stops the looking.
func (w *Watcher) end() {
	w.once.Do(func() {
		if w.stop == nil {
			return
		}
		ctx, cancel := limited(context.Background(), w.s.opts.Limit)
		defer cancel()
		err := w.stop(ctx)
		w.s.mu.Lock()
		w.s.watching = false
		w.s.mu.Unlock()
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.seen.Reason = err.Error()
		}
	})
}

// Stop ends the watch and returns what it saw.
func (w *Watcher) Stop() Seen {
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	if seen.Reason == "" && seen.Readings == 0 {
		seen.Reason = "shorter than the time between two readings"
	}
	for uuid, v := range w.series {
		clocks := slices.Sorted(slices.Values(v.clock))
		g := SeenGPU{
			UUID: uuid, MemoryUsedMax: largest(v.memory...), SMClockMedian: median(clocks), PowerMedian: median(v.power),
			TemperatureMax: largest(v.temperature...), Reasons: slices.Clone(v.reasons),
		}
		if n := len(clocks); n > 0 {
			g.SMClockMin, g.SMClockMax = &clocks[0], &clocks[n-1]
		}
		seen.GPUs = append(seen.GPUs, g)
	}
	slices.SortFunc(seen.GPUs, func(a, b SeenGPU) int { return strings.Compare(a.UUID, b.UUID) })
	return seen
}

// add takes one reading.
func (w *Watcher) add(r Reading, only []string) {
	r.GPUs = slices.DeleteFunc(r.GPUs, func(g State) bool { return only != nil && !slices.Contains(only, g.UUID) })
	w.s.log(line{Reading: &r})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Readings++
	for _, g := range r.GPUs {
		v := w.series[g.UUID]
		if v == nil {
			v = &series{}
			w.series[g.UUID] = v
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
