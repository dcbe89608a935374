package source

import (
	"context"
	"slices"
	"sync"
	"time"

	"cpbench/worker/gpu"
)

// helperPace is the pace for the source NVML.
func helperPace(p gpu.Pace) (gpu.Kind, float64) {
	if p == gpu.Untimed {
		return gpu.Memory, gpu.MaxHZ
	}
	return gpu.Sample, 1
}

// smiPace is the pace for the source SMI.
func smiPace(p gpu.Pace) (gpu.Kind, time.Duration) {
	if p == gpu.Untimed {
		return gpu.Memory, time.Second
	}
	return gpu.Sample, 5 * time.Second
}

// Watcher is a watch under way.
type Watcher struct {
	s      *Sampler
	stop   func(context.Context) error // nil: there is nothing to stop
	once   sync.Once
	mu     sync.Mutex // guards what follows
	seen   gpu.Seen
	series gpu.Series
}

// Watch begins to look at the selected GPUs in the background. Stop has to be called; the end of ctx only ends the
// looking. There may be one watch at a time. A watch that could not begin has seen nothing and says why. With the
// source SMI a watch starts processes: end it before a process tree is killed.
func (s *Sampler) Watch(ctx context.Context, pace gpu.Pace) *Watcher {
	w := &Watcher{s: s, seen: gpu.Seen{Source: gpu.None, Pace: pace}}
	err := s.do(ctx, func(ctx context.Context, b backend) error {
		if s.watching {
			return refusal{"another watch is under way"}
		}
		only := slices.Clone(s.only)
		stop, err := b.watch(ctx, pace, func(r gpu.Reading) { w.add(r, only) })
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
func (w *Watcher) Stop() gpu.Seen {
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	seen.Readings, seen.GPUs = w.series.Readings(), w.series.GPUs()
	if seen.Reason == "" && seen.Readings == 0 {
		seen.Reason = "shorter than the time between two readings"
	}
	return seen
}

// add takes one reading.
func (w *Watcher) add(r gpu.Reading, only []string) {
	r.GPUs = slices.DeleteFunc(r.GPUs, func(g gpu.State) bool { return only != nil && !slices.Contains(only, g.UUID) })
	w.s.log(line{Reading: &r})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.series.Add(r)
}
