package search

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/plan/catalogue"
)

// script is a world that hands out prepared outcomes for a size, one after the other, the last one for ever;
// a size without any fits up to top.
type script struct {
	top    int64
	at     map[int64][]catalogue.Outcome
	served map[int64]int
}

func (s *script) try(step Step) Trial {
	out := s.at[step.N]
	if len(out) == 0 {
		if step.N <= s.top {
			return Trial{Outcome: catalogue.OK}
		}
		return Trial{Outcome: catalogue.OOMDevice}
	}
	if s.served == nil {
		s.served = map[int64]int{}
	}
	i := min(s.served[step.N], len(out)-1)
	s.served[step.N]++
	return Trial{Outcome: out[i]}
}

const (
	ok      = catalogue.OK
	oom     = catalogue.OOMDevice
	suspect = catalogue.OOMSuspect
)

func TestEndings(t *testing.T) {
	t.Parallel()
	type outcomes = map[int64][]catalogue.Outcome
	cfg := Config{From: 512, To: 4096, Step: 256, Tolerance: 0.01, Confirm: 1}
	three := cfg
	three.Confirm = 3
	n := func(v int64) *int64 { return &v }
	tests := []struct {
		name  string
		cfg   Config
		top   int64
		at    outcomes
		want  Answer // without Reason
		sizes []int64
	}{
		{"closed", cfg, 1300, nil, Answer{Fits: n(1280), OOM: n(1536), Ended: Closed, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, -1536, 1280, 1280}},
		{"ceiling", cfg, 9999, nil, Answer{Fits: n(4096), Ended: Ceiling, Confirmed: 1, Confirms: 1}, []int64{512, 1024, 2048, 4096, 4096}},
		{"floor", cfg, 511, nil, Answer{OOM: n(512), Ended: Floor, Confirms: 1}, []int64{-512}},
		{"communication", cfg, 1024, outcomes{2048: {catalogue.OOMComm}, 1536: {catalogue.OOMHost}, 1280: {catalogue.OOMHost}}, Answer{Fits: n(1024), OOM: n(1280), Ended: Closed, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, -1536, -1280, 1024}},
		{"limit that is not memory", cfg, 1024, outcomes{2048: {catalogue.TooBig}, 1536: {catalogue.TooBig}, 1280: {catalogue.TooBig}}, Answer{Fits: n(1024), Limit: n(1280), Ended: LimitOther, Cause: catalogue.TooBig, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, -1536, -1280, 1024}},
		{"limit at the smallest size", cfg, 1024, outcomes{512: {catalogue.TooBig}}, Answer{Limit: n(512), Ended: LimitOther, Cause: catalogue.TooBig, Confirms: 1}, []int64{-512}},
		{"memory below another limit", cfg, 1024, outcomes{2048: {catalogue.TooBig}}, Answer{Fits: n(1024), OOM: n(1280), Limit: n(2048), Ended: Closed, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, -1536, -1280, 1024}},
		{"slow", cfg, 9999, outcomes{2048: {catalogue.Slow}}, Answer{Fits: n(1024), Ended: TimeLimit, Cause: catalogue.Slow, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, 1024}},
		{"slow at once", cfg, 9999, outcomes{512: {catalogue.Slow}}, Answer{Ended: TimeLimit, Cause: catalogue.Slow, Confirms: 1}, []int64{-512}},
		{"slow inside a bracket", cfg, 1024, outcomes{1536: {catalogue.Slow}}, Answer{Fits: n(1024), OOM: n(2048), Ended: TimeLimit, Cause: catalogue.Slow, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, -1536, 1024}},
		{"suspect, then memory", cfg, 1024, outcomes{2048: {suspect, oom}}, Answer{Fits: n(1024), OOM: n(1280), Ended: Closed, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, -2048, -1536, -1280, 1024}},
		{"suspect, then fits", cfg, 9999, outcomes{2048: {suspect, ok}}, Answer{Fits: n(4096), Ended: Ceiling, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, 2048, 4096, 4096}},
		{"suspect twice", cfg, 9999, outcomes{2048: {suspect, suspect}}, Answer{Fits: n(1024), Ended: Aborted, Cause: suspect, Confirms: 1}, []int64{512, 1024, -2048, -2048}},
		{"suspect, then an error", cfg, 9999, outcomes{2048: {suspect, catalogue.Error}}, Answer{Fits: n(1024), Ended: Aborted, Cause: catalogue.Error, Confirms: 1}, []int64{512, 1024, -2048, -2048}},
		{"illegal starter", cfg, 9999, outcomes{1024: {catalogue.Skipped}}, Answer{Fits: n(4096), Ended: Ceiling, Confirmed: 1, Confirms: 1}, []int64{512, -1024, 768, 2048, 4096, 4096}},
		{"illegal first size", cfg, 800, outcomes{512: {catalogue.Skipped}}, Answer{Fits: n(768), OOM: n(1024), Ended: Closed, Confirmed: 1, Confirms: 1}, []int64{-512, 768, -2048, -1280, -1024, 768}},
		{"all legal sizes tried", cfg, 1024, outcomes{1280: {catalogue.Skipped}, 1536: {catalogue.Skipped}}, Answer{Fits: n(1024), OOM: n(1792), Ended: Closed, Confirmed: 1, Confirms: 1}, []int64{512, 1024, -2048, -1536, -1280, -1792, 1024}},
		{"illegal ceiling", cfg, 9999, outcomes{4096: {catalogue.Skipped}}, Answer{Fits: n(3840), Ended: Ceiling, Confirmed: 1, Confirms: 1}, []int64{512, 1024, 2048, -4096, 3840, 3840}},
		{"unstable", three, 1300, outcomes{1280: {ok, ok, oom, ok}}, Answer{Fits: n(1280), OOM: n(1536), Ended: Unstable, Confirmed: 2, Confirms: 3}, []int64{512, 1024, -2048, -1536, 1280, 1280, -1280, 1280}},
		{"unstable by a hang", cfg, 9999, outcomes{4096: {ok, catalogue.Hang}}, Answer{Fits: n(4096), Ended: Unstable, Confirms: 1}, []int64{512, 1024, 2048, 4096, -4096}},
		{"suspect confirmation", cfg, 9999, outcomes{4096: {ok, suspect, ok}}, Answer{Fits: n(4096), Ended: Ceiling, Confirmed: 1, Confirms: 1}, []int64{512, 1024, 2048, 4096, -4096, 4096}},
		{"confirmation lost with the node", three, 9999, outcomes{4096: {ok, ok, catalogue.Infra}}, Answer{Fits: n(4096), Ended: Aborted, Cause: catalogue.Infra, Confirmed: 1, Confirms: 3}, []int64{512, 1024, 2048, 4096, 4096, -4096}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, trials := world((&script{top: tt.top, at: tt.at}).try).search(t, tt.cfg, 20)
			if d := cmp.Diff(tt.sizes, sizes(trials)); d != "" {
				t.Errorf("sizes tried (-want +got):\n%s", d)
			}
			got.Reason = ""
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
		})
	}
}

// Nothing but memory may narrow the bracket: every other failure ends the search with what was known before it.
func TestOtherFailuresAbort(t *testing.T) {
	t.Parallel()
	var tried int
	for _, m := range append(catalogue.Outcomes(), catalogue.Meaning{Outcome: "invented later"}, catalogue.Meaning{Outcome: ""}, catalogue.Meaning{Outcome: catalogue.Running}) {
		o := m.Outcome
		if o.Fits() || o.OutOfMemory() || slices.Contains([]catalogue.Outcome{suspect, catalogue.TooBig, catalogue.Slow, catalogue.Skipped}, o) {
			continue
		}
		tried++
		t.Run(string(o), func(t *testing.T) {
			t.Parallel()
			cfg := Config{From: 512, To: 65536, Step: 64, Confirm: 2}
			w := &script{top: 2048, at: map[int64][]catalogue.Outcome{3072: {o}}}
			got, trials := world(w.try).search(t, cfg, 20)
			if d := cmp.Diff([]int64{512, 1024, 2048, -4096, -3072}, sizes(trials)); d != "" {
				t.Errorf("sizes tried (-want +got):\n%s", d)
			}
			if got.Ended != Aborted || got.Cause != o || *got.Fits != 2048 || *got.OOM != 4096 || got.Confirmed != 0 {
				t.Errorf("answer %+v, want aborted by %q with the bracket 2048 to 4096", got, o)
			}
		})
	}
	if tried < 12 {
		t.Errorf("%d outcomes tried, want all of the catalogue", tried)
	}
}

func TestGridsThatDoNotMatchTheMeshEndTheSearch(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 500, To: 65536, Step: 1}
	a, trials := world(func(s Step) Trial {
		if s.N%64 != 0 {
			return Trial{Outcome: catalogue.Skipped}
		}
		return Trial{Outcome: ok}
	}).search(t, cfg, maxSkips)
	if a.Ended != Aborted || a.Cause != catalogue.Skipped || len(trials) != maxSkips {
		t.Errorf("answer %+v after %d trials, want aborted after %d", a, len(trials), maxSkips)
	}
	all := Config{From: 1, To: 3, Step: 1}
	a, _ = world(func(Step) Trial { return Trial{Outcome: catalogue.Skipped} }).search(t, all, 3)
	if a.Ended != Aborted || a.Fits != nil || a.OOM != nil {
		t.Errorf("answer %+v, want aborted without a bracket", a)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	tests := []struct {
		name string
		cfg  Config
		want grid // zero: refused
	}{
		{"ends on the grid", Config{From: 512, To: 1024, Step: 64}, grid{64, 512, 1024}},
		{"ends off the grid", Config{From: 500, To: 1000, Step: 96}, grid{96, 576, 960}},
		{"step above from", Config{From: 5, To: 1000, Step: 300}, grid{300, 300, 900}},
		{"one size", Config{From: 7, To: 7, Step: 1}, grid{1, 7, 7}},
		{"from above to", Config{From: 1025, To: 1024, Step: 1}, grid{}},
		{"no size on the grid", Config{From: 65, To: 127, Step: 64}, grid{}},
		{"step above to", Config{From: 1, To: 63, Step: 64}, grid{}},
		{"huge step", Config{From: 1, To: 63, Step: math.MaxInt64}, grid{}},
		{"huge ceiling", Config{From: 1, To: math.MaxInt64, Step: 1}, grid{}},
		{"no step", Config{From: 1, To: 2}, grid{}},
		{"from zero", Config{To: 2, Step: 1}, grid{}},
		{"negative tolerance", Config{From: 1, To: 2, Step: 1, Tolerance: -0.1}, grid{}},
		{"tolerance of everything", Config{From: 1, To: 2, Step: 1, Tolerance: 1}, grid{}},
		{"tolerance not a number", Config{From: 1, To: 2, Step: 1, Tolerance: nan}, grid{}},
		{"negative confirm", Config{From: 1, To: 2, Step: 1, Confirm: -1}, grid{}},
		{"budget not a number", Config{From: 1, To: 2, Step: 1, Budget: nan}, grid{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.cfg.grid()
			if got != tt.want || (err != nil) != (tt.want == grid{}) {
				t.Errorf("grid %+v, %v; want %+v", got, err, tt.want)
			}
			if _, nextErr := Next(tt.cfg, nil); (nextErr != nil) != (err != nil) {
				t.Errorf("Next: %v, want %v", nextErr, err)
			}
		})
	}
}

// The example of the method: the fit walks by doubling, jumps to the answer and closes the bracket with one failure.
func TestGuidedPath(t *testing.T) {
	t.Parallel()
	capacity := 80.0 * gib
	peak := func(n int64) *float64 { return new(capacity * (0.1 + 0.9*square(n, 26970))) }
	cfg := Config{From: 512, To: 65536, Step: 64, Confirm: 1}
	a, trials := edge(26944, oom, peak, &capacity).search(t, cfg, 9)
	want := []int64{512, 1024, 2048, 4096, 8192, 16384, 26944, -27008, 26944}
	if d := cmp.Diff(want, sizes(trials)); d != "" {
		t.Errorf("sizes tried (-want +got):\n%s", d)
	}
	if *a.PeakBytes != *peak(26944) || *a.CapacityBytes != capacity {
		t.Errorf("peak %v of %v, want those measured at 26944", *a.PeakBytes, *a.CapacityBytes)
	}
	cfg.Confirm = 0
	_, trials = edge(26944, oom, laws(26944)["unknown"], &capacity).search(t, cfg, 15)
	want = []int64{512, 1024, 2048, 4096, 8192, 16384, -32768, 24576, -28672, 26624, -27648, -27136, 26880, -27008, 26944}
	if d := cmp.Diff(want, sizes(trials)); d != "" {
		t.Errorf("sizes tried without peaks (-want +got):\n%s", d)
	}
}

// Fits that mislead: what follows a miss is steps down that grow threefold, then plain bisection; what follows a
// success beyond the fit is steps up that double.
func TestMisguidedPaths(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01}
	tests := map[string][]int64{
		"twice too low":  {512, 1024, 2048, 4096, 8192, 16384, -28224, -27712, -26112, -21440, -21440, 18880, -20160, 19520, 19840, 19968},
		"twice too high": {512, 1024, 2048, 4096, 8192, 14080, 14208, 14336, 14592, 15104, 16128, 18176, -22272, -20224, 19200, 19712, 19968, -20096},
		"unknown":        {512, 1024, 2048, 4096, 8192, 16384, -32768, -24576, -20480, 18432, 19456, 19968, -20224, -20096},
	}
	for name, want := range tests {
		_, trials := edge(20000, oom, laws(20000)[name], new(1e9)).search(t, cfg, 20)
		if d := cmp.Diff(want, sizes(trials)); d != "" {
			t.Errorf("%s: sizes tried (-want +got):\n%s", name, d)
		}
	}
}

// An out-of-memory far below the predicted edge is believed when it happens again, and only then.
func TestDoubtfulOutOfMemory(t *testing.T) {
	t.Parallel()
	capacity := 1e9
	peak := func(n int64) *float64 { return new(1e9 * square(n, 20000)) }
	cfg := Config{From: 512, To: 65536, Step: 64}
	for _, again := range []catalogue.Outcome{ok, oom} {
		var met int
		a, trials := world(func(s Step) Trial {
			if s.N == 4096 {
				if met++; met == 1 || again == oom {
					return Trial{Outcome: oom}
				}
			}
			return edge(19968, oom, peak, &capacity)(s)
		}).search(t, cfg, 20)
		if met != 2 || !trials[4].Fresh || trials[4].N != 4096 {
			t.Errorf("then %s: size 4096 tried %d times: %v", again, met, sizes(trials))
		}
		if fits := *a.Fits; (again == ok) != (fits == 19968) || again == oom && *a.OOM > 4096 {
			t.Errorf("then %s: answer fits %d", again, fits)
		}
	}
}

// After a failure and a success the fit is left alone, although it has something to say.
func TestBisectionTakesOver(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64}
	capacity, peak := 1e9, laws(7500)["mixed"]
	var known []Trial
	for _, n := range []int64{512, 1024, 2048, 4096, -8192, 6144} {
		tr := Trial{N: max(n, -n), Outcome: ok, PeakBytes: peak(n), CapacityBytes: &capacity}
		if n < 0 {
			tr.Outcome = oom
		}
		known = append(known, tr)
	}
	if s, err := Next(cfg, known); err != nil || s.N != 7168 {
		t.Errorf("step %+v, %v; want the middle, 7168", s, err)
	}
	if s, err := Next(cfg, known[:5]); err != nil || s.N != 7488 {
		t.Errorf("before the success: step %+v, %v; want the prediction, 7488", s, err)
	}
}

// Once an out-of-memory that the fit did not expect has happened again, the fit is not asked any more.
func TestOnlyTheFirstDoubtCostsATrial(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64}
	_, trials := edge(2500, oom, laws(20000)["quadratic"], new(1e9)).search(t, cfg, 20)
	times := map[int64]int{}
	for _, tr := range trials {
		times[tr.N]++
	}
	delete(times, 4096)
	for n, k := range times {
		if k > 1 {
			t.Errorf("size %d tried %d times: %v", n, k, sizes(trials))
		}
	}
}

func TestNonMonotone(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 4096, Step: 512}
	known := []Trial{{N: 4096, Outcome: ok}, {N: 1536, Outcome: oom}, {N: 1024, Outcome: ok}}
	s, err := Next(cfg, known)
	if err != nil {
		t.Fatal(err)
	}
	want := &Answer{Fits: new(int64(1024)), OOM: new(int64(1536)), Above: new(int64(4096)), NonMonotone: true, Ended: NonMonotone, Reason: "size 4096 fitted although 1536 did not"}
	if d := cmp.Diff(want, s.Answer); d != "" {
		t.Errorf("answer (-want +got):\n%s", d)
	}
	verify(t, cfg, known, *s.Answer)
	// The same size with both outcomes does not count as fitting.
	known = []Trial{{N: 512, Outcome: ok}, {N: 1024, Outcome: ok}, {N: 1024, Outcome: oom}}
	if s, err = Next(cfg, known); err != nil || s.Answer == nil || *s.Answer.Fits != 512 || !s.Answer.NonMonotone {
		t.Errorf("step %+v, %v; want an answer of 512 that is not monotone", s, err)
	}
}

// resumable is a search in a plain world, made once from its beginning.
func resumable(t *testing.T) (Config, world, Answer, []Trial) {
	t.Helper()
	cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01, Confirm: 2}
	w := edge(9999, oom, laws(9999)["mixed"], new(1e9))
	a, trials := w.search(t, cfg, 15)
	return cfg, w, a, trials
}

func TestRunTakesUpASearch(t *testing.T) {
	t.Parallel()
	cfg, w, full, trials := resumable(t)
	for k := range trials {
		// The same trials are made, the first of them in a new process.
		var first *Step
		got, again, err := Run(t.Context(), cfg, trials[:k], func(_ context.Context, s Step) (Trial, error) {
			if first == nil {
				first = &s
			}
			return w(s), nil
		})
		if err != nil || !first.Fresh || first.First != (k == 0) {
			t.Errorf("taken up after %d trials: %v, first step %+v, want a new process", k, err, *first)
		}
		if d := cmp.Diff(full, got); d != "" {
			t.Errorf("taken up after %d trials: answer (-want +got):\n%s", k, d)
		}
		if d := cmp.Diff(sizes(trials), sizes(again)); d != "" {
			t.Errorf("taken up after %d trials: sizes (-want +got):\n%s", k, d)
		}
	}
}

// What the machine did to the last trial is forgotten; what a trial says about the program is not.
func TestRunAfterAnAbort(t *testing.T) {
	t.Parallel()
	cfg, w, full, trials := resumable(t)
	try := func(_ context.Context, s Step) (Trial, error) { return w(s), nil }
	lost := append(slices.Clone(trials[:4]), Trial{N: 8192, Outcome: catalogue.Cancelled}, Trial{N: 8192, Outcome: catalogue.Infra})
	got, _, err := Run(t.Context(), cfg, lost, try)
	if d := cmp.Diff(full, got); d != "" || err != nil {
		t.Errorf("taken up after a lost node: %v, answer (-want +got):\n%s", err, d)
	}
	lost[len(lost)-1].Outcome = catalogue.Error
	if got, _, err = Run(t.Context(), cfg, lost, try); got.Ended != Aborted || err != nil {
		t.Errorf("taken up after an error: %+v, %v; want aborted", got, err)
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	cfg, w, _, trials := resumable(t)
	broken := errors.New("broken")
	_, some, err := Run(t.Context(), cfg, trials[:2], func(context.Context, Step) (Trial, error) { return Trial{}, broken })
	if !errors.Is(err, broken) || len(some) != 2 {
		t.Errorf("error of try: %v with %d trials, want it with the 2 that were known", err, len(some))
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, some, err = Run(ctx, cfg, nil, func(_ context.Context, s Step) (Trial, error) { cancel(); return w(s), nil })
	if !errors.Is(err, context.Canceled) || len(some) != 1 {
		t.Errorf("cancelled: %v with %d trials, want the one that was made", err, len(some))
	}
	if _, _, err = Run(t.Context(), Config{}, nil, nil); err == nil {
		t.Error("empty config: no error")
	}
}
