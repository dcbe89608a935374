package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/worker/llm/telemetry/reading"

	"github.com/google/go-cmp/cmp"
)

// rig is a watch on targets that a test makes up, in virtual time.
type rig struct {
	*Watch
	lines bytes.Buffer
	said  []string
}

func newRig(o Options) *rig {
	r := &rig{}
	o.Lines = &r.lines
	o.Failed = func(target, text string) { r.said = append(r.said, target+": "+text) }
	if o.MaxParallel == 0 {
		o.MaxParallel = 8
	}
	r.Watch = &Watch{o: o, began: time.Now(), slots: make(chan struct{}, o.MaxParallel), stop: make(chan struct{})}
	return r
}

// takes is a target whose samples take so long, one after the other and the last one for all further ones; those that
// take no time never end by themselves. A GPU of it draws watts.
func (r *rig) takes(name string, watts float64, durations ...time.Duration) {
	i := 0
	r.add(&target{host: name, close: func() {}, probe: func(ctx context.Context, s *Sample) {
		d := durations[min(i, len(durations)-1)]
		i++
		if d == 0 {
			d = 1000 * time.Hour
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.Reading = &reading.Reading{GPUs: []reading.GPU{{UUID: "GPU-" + name, Power: &watts}}}
		case <-ctx.Done():
			s.Errors = []string{context.Cause(ctx).Error()}
		}
	}})
}

// samples are the lines of a host, each as its begin, its duration and how late it was, in milliseconds.
func (r *rig) samples(t *testing.T, host string) []string {
	t.Helper()
	var list []string
	for line := range strings.Lines(r.lines.String()) {
		var s Sample
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.Host != host {
			continue
		}
		text := fmt.Sprintf("%.0f+%.0f late %.0f", s.Offset*1e3, s.Duration*1e3, s.Late*1e3)
		if s.Terminal {
			text += " terminal"
		}
		list = append(list, strings.Join(append([]string{text}, s.Errors...), ": "))
	}
	return list
}

// A slow sample is what it is, and holds up no other target.
func TestCadence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Interval: 2 * time.Second, Timeout: 5 * time.Second})
		r.takes("quick", 10, 100*time.Millisecond)
		r.takes("slow", 10, 100*time.Millisecond, 3500*time.Millisecond, 100*time.Millisecond)
		r.takes("hangs", 10, 0)
		r.start()
		time.Sleep(9 * time.Second)
		began := time.Now()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*mostGrace {
			t.Errorf("the end takes %v", took)
		}
		for host, want := range map[string][]string{
			"quick": {"0+100 late 0", "2000+100 late 0", "4000+100 late 0", "6000+100 late 0", "8000+100 late 0", "9000+100 late 0 terminal"},
			"slow":  {"0+100 late 0", "2000+3500 late 0", "5500+100 late 1500", "6000+100 late 0", "8000+100 late 0", "9000+100 late 0 terminal"},
			"hangs": {"0+5000 late 0: no answer within 5s", "5000+5000 late 3000: no answer within 5s", "10000+5000 late 0 terminal: no answer within 5s"},
		} {
			if d := cmp.Diff(want, r.samples(t, host)); d != "" {
				t.Errorf("%s (-want +got):\n%s", host, d)
			}
		}
		if want := []string{"hangs: no answer within 5s", "hangs: no answer within 5s", "hangs: no answer within 5s"}; !slices.Equal(want, r.said) {
			t.Errorf("%q", r.said)
		}
	})
}

// No more samples are under way than were allowed, and who waits for its turn says so.
func TestMaxParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Interval: time.Minute, Timeout: 5 * time.Second, MaxParallel: 2})
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			r.takes(name, 1, time.Second)
		}
		r.start()
		time.Sleep(10 * time.Second)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		count := map[string]int{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			count[r.samples(t, name)[0]]++
		}
		if d := cmp.Diff(map[string]int{"0+1000 late 0": 2, "1000+1000 late 1000": 2, "2000+1000 late 2000": 1}, count); d != "" {
			t.Error(d)
		}
	})
}

// A group gets the samples around it. One after it is asked for at once, and a target in trouble is not waited for.
func TestOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Interval: 2 * time.Second, Timeout: 30 * time.Second})
		r.takes("good", 100, 200*time.Millisecond)
		r.takes("other", 50, 200*time.Millisecond)
		r.start()
		time.Sleep(2500 * time.Millisecond)
		begin := time.Now()
		time.Sleep(5 * time.Second)
		end := time.Now()
		win := r.Over(t.Context(), begin, end)
		if took := time.Since(end); took != 200*time.Millisecond {
			t.Errorf("the sample after the group took %v", took)
		}
		if win.Begin != 2.5 || win.End != 7.5 || win.Samples != 10 || win.Errors != 0 || len(win.Targets) != 2 || !win.HasHosts() {
			t.Errorf("%+v", win)
		}
		tw := win.Targets[0]
		var at []float64
		for _, p := range tw.Power[0].Readings {
			at = append(at, p.Offset)
		}
		if d := cmp.Diff([]float64{2.1, 4.1, 6.1, 7.6}, at); d != "" || *tw.First != 2 || *tw.Last != 7.5 || tw.Slowest < 0.199 {
			t.Errorf("%+v\n%s", tw, d)
		}
		if e := win.Energy; e.Joules == nil || *e.Joules < 749.999 || *e.Joules > 750.001 || e.GPUs != 2 || e.Readings != 2 || *e.Gap < 1.999 || *e.Gap > 2.001 {
			t.Errorf("%+v", e)
		}
		// The next group begins at once: it has a sample before it.
		begin = time.Now()
		time.Sleep(time.Second)
		if e := r.Over(t.Context(), begin, time.Now()).Energy; e.Joules == nil || *e.Joules < 149.999 || *e.Joules > 150.001 {
			t.Errorf("%+v", e)
		}
		if n := len(r.targets[0].kept); n > 2 {
			t.Errorf("%d samples are kept for good", n)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A host that hangs delays the first group after it by the timeout at most, and those after its failure not at all. Its
// error is told with the group in which it fell, and with no other.
func TestOverTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Interval: 2 * time.Second, Timeout: 10 * time.Second})
		r.takes("good", 100, 200*time.Millisecond)
		r.takes("bad", 50, 200*time.Millisecond, 0)
		r.start()
		group := func() (Window, time.Duration) {
			begin := time.Now()
			time.Sleep(3 * time.Second)
			end := time.Now()
			w := r.Over(t.Context(), begin, end)
			return w, time.Since(end)
		}
		time.Sleep(time.Second)
		for i, want := range []struct {
			errors int
			took   time.Duration
			why    string
		}{
			{1, 8 * time.Second, "bad: GPU GPU-bad: no power was read after the group, for the last time 3.9 s before its end"}, // its sample began at 2 s, and the group ended at 4 s
			{0, 200 * time.Millisecond, "bad: its GPUs could not be read"},
			{0, 200 * time.Millisecond, "bad: its GPUs could not be read"},
			{0, 200 * time.Millisecond, "bad: its GPUs could not be read"},
			{1, 200 * time.Millisecond, "bad: its GPUs could not be read"},
		} {
			w, took := group()
			if w.Errors != want.errors || took > want.took || w.Energy.Joules != nil || w.Energy.Why != want.why {
				t.Errorf("group %d: %d errors, %v, %+v", i+1, w.Errors, took, w.Energy)
			}
			if want.errors > 0 && w.First != "bad: no answer within 10s" {
				t.Errorf("group %d: %q", i+1, w.First)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The energy of the GPUs that are left is not that of the host.
func TestOverLostGPU(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Interval: time.Second, Timeout: time.Second})
		watts := 100.0
		var lost atomic.Bool
		r.add(&target{host: "a", close: func() {}, probe: func(_ context.Context, s *Sample) {
			s.Reading = &reading.Reading{GPUs: []reading.GPU{{UUID: "GPU-1", Power: &watts}}}
			if !lost.Load() {
				s.GPUs = append(s.GPUs, reading.GPU{UUID: "GPU-2", Power: &watts})
			}
		}})
		r.start()
		for i, want := range []Energy{{GPUs: 2}, {Why: "a: GPU GPU-2: no power was read after the group, for the last time 4.6 s before its end"}, {Why: "a: GPU GPU-2 is shown no more"}} {
			time.Sleep(2300 * time.Millisecond)
			lost.Store(i > 0)
			begin := time.Now()
			time.Sleep(4 * time.Second)
			got := r.Over(t.Context(), begin, time.Now()).Energy
			if got.Why != want.Why || got.GPUs != want.GPUs || (got.Joules == nil) != (want.Why != "") {
				t.Errorf("group %d: %+v", i+1, got)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Of the errors of several targets the first one by time is told.
func TestOverFirstError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Interval: 2 * time.Second, Timeout: time.Second})
		r.takes("later", 1, 100*time.Millisecond, 0)
		r.takes("first", 1, 0)
		r.start()
		begin := time.Now()
		time.Sleep(7500 * time.Millisecond)
		if w := r.Over(t.Context(), begin, time.Now()); w.First != "first: no answer within 1s" || w.Errors != 7 || w.Targets[0].Errors != 3 {
			t.Errorf("%q, %d errors, %+v", w.First, w.Errors, w.Targets)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A group before the first sample, and one whose sample is not waited for because the task is told to end.
func TestOverEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Interval: 2 * time.Second, Timeout: 5 * time.Second})
		r.takes("slow", 100, 4*time.Second)
		r.start()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		w := r.Over(ctx, begin, begin)
		if w.Samples != 0 || w.Targets[0].First != nil || w.Energy.Why != "slow: it has not been read" || !time.Now().Equal(begin) {
			t.Errorf("%+v", w)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// full is a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A sample that could not be written is an error of the whole, and is said once.
func TestLinesLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Interval: time.Second, Timeout: time.Second})
		r.o.Lines = full{}
		r.takes("a", 1, time.Millisecond)
		r.start()
		time.Sleep(5 * time.Second)
		const want = "a sample of a: no space left on device"
		if err := r.Close(); err == nil || err.Error() != want {
			t.Error(err)
		}
		if d := cmp.Diff([]string{"a: " + want}, r.said); d != "" {
			t.Error(d)
		}
	})
}
