package telemetry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cpbench/worker/llm/telemetry/reading"
)

// Window is what the samples say about a group. Times are seconds on the watch's clock, the offset_s of samples.
type Window struct {
	Begin float64 `json:"begin_offset_s"`
	End   float64 `json:"end_offset_s"`
	// Samples were taken since the group before, so many Errors are in them, and that is the First.
	Samples int            `json:"samples"`
	Errors  int            `json:"errors"`
	First   string         `json:"first_error,omitempty"`
	Targets []TargetWindow `json:"targets"`
	Energy  Energy         `json:"energy"`

	firstAt float64 // begin of the sample of First
}

// HasHosts reports whether hosts were read, and not only addresses of metrics.
func (w *Window) HasHosts() bool {
	return slices.ContainsFunc(w.Targets, func(t TargetWindow) bool { return t.URL == "" })
}

// TargetWindow are the samples of a target around a group.
type TargetWindow struct {
	Host    string `json:"host,omitempty"`
	URL     string `json:"url,omitempty"`
	Samples int    `json:"samples"`
	Errors  int    `json:"errors"`
	// First is the offset of the last sample before the group, or of the first there is; Last that of the first sample
	// after it, or of the last there is. Null: there is none.
	First   *float64 `json:"first_sample_offset_s"`
	Last    *float64 `json:"last_sample_offset_s"`
	Slowest float64  `json:"sample_duration_max_s"`
	Power   []Power  `json:"power,omitempty"`
}

// Power are the readings of a GPU's power from First to Last, as they are.
type Power struct {
	UUID     string  `json:"uuid"`
	Readings []Watts `json:"readings"`
}

// Watts is one reading: the middle of its sample, on the watch's clock, and the power. Null: it was not told.
type Watts struct {
	Offset float64  `json:"offset_s"`
	Watts  *float64 `json:"watts"`
}

// seen is what a window needs of a sample.
type seen struct {
	begin, end float64
	errors     []string
	gpus       []reading.GPU
	read       bool // the host said something
	told       bool // in a window
}

// at is when the sample was taken, as far as is known.
func (s seen) at() float64 { return (s.begin + s.end) / 2 }

// keep keeps what windows need of a sample.
func (t *target) keep(s Sample) {
	k := seen{begin: s.Offset, end: s.Offset + s.Duration, errors: s.Errors, read: s.got()}
	if s.Reading != nil {
		k.gpus = s.GPUs
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, k)
	for _, g := range k.gpus {
		if !slices.Contains(t.gpus, g.UUID) {
			t.gpus = append(t.gpus, g.UUID)
		}
	}
	close(t.more)
	t.more = make(chan struct{})
}

// Over says what the samples say about a group that ran from begin to end; groups come in the order of time. For a
// sample after the group it waits no longer than the timeout, and not for a target whose last one has failed.
func (w *Watch) Over(ctx context.Context, begin, end time.Time) Window {
	win := Window{Begin: begin.Sub(w.began).Seconds(), End: end.Sub(w.began).Seconds(), Targets: []TargetWindow{}}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	for _, t := range w.targets {
		t.ask(win.End)
	}
	var sums []*sum
	for _, t := range w.targets {
		t.wait(ctx, win.End)
		tw, hosts := t.over(&win)
		win.Targets = append(win.Targets, tw)
		if t.url == "" {
			sums = append(sums, hosts)
		}
	}
	win.Energy = total(sums)
	return win
}

// ask asks for a sample now, unless one was begun after the end.
func (t *target) ask(end float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.kept); n > 0 && t.kept[n-1].begin >= end {
		return
	}
	select {
	case t.kick <- struct{}{}:
	default: // somebody has asked already
	}
}

// wait waits for a sample after the end, of a target that can be read.
func (t *target) wait(ctx context.Context, end float64) {
	for {
		t.mu.Lock()
		n := len(t.kept)
		ready := n == 0 || !t.kept[n-1].read || t.kept[n-1].at() >= end
		more := t.more
		t.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// over sums up the samples of a target, and forgets those that no later group needs.
func (t *target) over(win *Window) (TargetWindow, *sum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tw := TargetWindow{Host: t.host, URL: t.url}
	for i := range t.kept {
		s := &t.kept[i]
		if s.told {
			continue
		}
		s.told = true
		tw.Samples, tw.Errors, tw.Slowest = tw.Samples+1, tw.Errors+len(s.errors), max(tw.Slowest, s.end-s.begin)
		if len(s.errors) > 0 && (win.First == "" || s.begin < win.firstAt) {
			win.First, win.firstAt = t.name()+": "+s.errors[0], s.begin
		}
	}
	win.Samples, win.Errors = win.Samples+tw.Samples, win.Errors+tw.Errors
	if len(t.kept) == 0 {
		return tw, &sum{host: t.host, why: "it has not been read"}
	}
	first, last := 0, len(t.kept)-1
	for i, s := range slices.Backward(t.kept) {
		if s.at() <= win.Begin {
			first = i
			break
		}
	}
	for i, s := range t.kept {
		if s.at() >= win.End {
			last = i
			break
		}
	}
	from, to := t.kept[first].begin, t.kept[last].begin
	tw.First, tw.Last = &from, &to
	part := t.kept[first : max(first, last)+1]
	tw.Power = powers(part)
	s := t.energy(part, tw.Power, win.Begin, win.End)
	for i, k := range slices.Backward(t.kept) { // the next group may begin right after this one
		if k.at() <= win.End {
			t.kept = slices.Clone(t.kept[i:])
			break
		}
	}
	return tw, s
}

// powers are the readings of every GPU in some samples.
func powers(samples []seen) []Power {
	var list []Power
	for _, s := range samples {
		for _, g := range s.gpus {
			i := slices.IndexFunc(list, func(p Power) bool { return p.UUID == g.UUID })
			if i < 0 {
				i = len(list)
				list = append(list, Power{UUID: g.UUID})
			}
			list[i].Readings = append(list[i].Readings, Watts{s.at(), g.Power})
		}
	}
	return list
}

// energy is the energy of a host's GPUs. One that is shown no more may still take power.
func (t *target) energy(samples []seen, list []Power, begin, end float64) *sum {
	s := &sum{host: t.host}
	if len(list) == 0 && !slices.ContainsFunc(samples, func(k seen) bool { return k.gpus != nil }) {
		s.why = "its GPUs could not be read"
		return s
	}
	for _, id := range t.gpus {
		if !slices.ContainsFunc(list, func(p Power) bool { return p.UUID == id }) {
			s.why = fmt.Sprintf("GPU %s is shown no more", id)
			return s
		}
	}
	for _, p := range list {
		e, why := integrate(p.Readings, begin, end)
		if why != "" {
			s.why = fmt.Sprintf("GPU %s: %s", p.UUID, why)
			return s
		}
		s.add(e)
	}
	return s
}
