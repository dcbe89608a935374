package search

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/plan/catalogue"
)

func TestVerification(t *testing.T) {
	t.Parallel()
	type outcomes = map[int64][]catalogue.Outcome
	n := func(v int64) *int64 { return &v }
	cfg := Config{From: 512, To: 16384, Step: 256, Tolerance: 0.01, Confirm: 1, Verify: 2}
	plain := []int64{512, 1024, 2048, 4096, -8192, -6144, 5120, 5632, 5888, 5888}
	tests := []struct {
		name     string
		top      int64
		at       outcomes
		want     Answer // without Reason
		sizes    []int64
		doubtful []int64
	}{
		{"both fit", 6000, nil, Answer{Fits: n(5888), OOM: n(6144), Ended: Closed, Verified: 2, Verifies: 2}, append(plain, 3840, 2304), nil},
		{
			"one runs out of memory twice", 6000,
			outcomes{3840: {oom}},
			Answer{Fits: n(3584), OOM: n(3840), Above: n(5888), NonMonotone: true, Ended: NonMonotone, Verified: 1, Verifies: 2},
			append(plain, -3840, -3840, 2816, 3328, 3584, 3584, 1536), nil,
		},
		{"one runs out of memory once", 6000, outcomes{3840: {oom, ok}}, Answer{Fits: n(5888), OOM: n(6144), Ended: Closed, Verified: 2, Verifies: 2}, append(plain, -3840, 3840, 2304), nil},
		{
			"a suspicion, then memory", 6000,
			outcomes{3840: {suspect, oom}},
			Answer{Fits: n(3584), OOM: n(3840), Above: n(5888), NonMonotone: true, Ended: NonMonotone, Verified: 1, Verifies: 2},
			append(plain, -3840, -3840, 2816, 3328, 3584, 3584, 1536), nil,
		},
		{"a suspicion twice", 6000, outcomes{3840: {suspect}}, Answer{Fits: n(5888), OOM: n(6144), Ended: Closed, Verified: 1, Verifies: 2}, append(plain, -3840, -3840, 2304), []int64{3840}},
		{"a failure that is not memory", 6000, outcomes{2304: {catalogue.WrongOutput}}, Answer{Fits: n(5888), OOM: n(6144), Ended: Closed, Verified: 1, Verifies: 2}, append(plain, 3840, -2304), []int64{2304}},
		{"a kernel limit", 6000, outcomes{3840: {catalogue.TooBig}, 2304: {catalogue.TooBig}}, Answer{Fits: n(5888), OOM: n(6144), Ended: Closed, Verifies: 2}, append(plain, -3840, -2304), []int64{3840, 2304}},
		{"a size that is illegal for the mesh", 6000, outcomes{3840: {catalogue.Skipped}}, Answer{Fits: n(5888), OOM: n(6144), Ended: Closed, Verified: 2, Verifies: 2}, append(plain, -3840, 4352, 2304), nil},
		{"only illegal sizes", 1400, outcomes{768: {catalogue.Skipped}, 1024: {ok}}, Answer{Fits: n(1280), OOM: n(1536), Ended: Closed}, []int64{512, 1024, -2048, -1536, 1280, 1280, -768}, nil},
		{"below the ceiling", 99999, nil, Answer{Fits: n(16384), Ended: Ceiling, Verified: 2, Verifies: 2}, []int64{512, 1024, 2048, 4096, 8192, 16384, 16384, 11008, 5632}, nil},
		{"nothing lies between", 800, nil, Answer{Fits: n(768), OOM: n(1024), Ended: Closed}, []int64{512, -1024, 768, 768}, nil},
		{"not below an answer that is unstable", 6000, outcomes{5888: {ok, oom}}, Answer{Fits: n(5888), OOM: n(6144), Ended: Unstable}, append(plain[:9:9], -5888), nil},
		{"not where time ran out", 99999, outcomes{8192: {catalogue.Slow}}, Answer{Fits: n(4096), Ended: TimeLimit, Cause: catalogue.Slow}, []int64{512, 1024, 2048, 4096, -8192, 4096}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, trials := world((&script{top: tt.top, at: tt.at}).try).search(t, cfg, 30)
			if d := cmp.Diff(tt.sizes, sizes(trials)); d != "" {
				t.Errorf("sizes tried (-want +got):\n%s", d)
			}
			var doubtful []int64
			for _, d := range got.Doubtful {
				doubtful = append(doubtful, d.N)
			}
			if !slices.Equal(doubtful, tt.doubtful) {
				t.Errorf("doubtful: %v, want %v", doubtful, tt.doubtful)
			}
			tt.want.Confirms, tt.want.Confirmed = 1, 1
			if tt.want.Ended == Unstable {
				tt.want.Confirmed = 0
			}
			got.Reason, got.Doubtful = "", nil
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
		})
	}
}

// The verification goes on in the process that confirms, and is left out where there is no time.
func TestVerificationIsCheap(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01, Confirm: 1, Verify: 2}
	w := func(s Step) Trial {
		tr := edge(20000, oom, laws(20000)["mixed"], new(1e9))(s)
		tr.Seconds = 100
		return tr
	}
	a, trials := world(w).search(t, cfg, 20)
	last := trials[len(trials)-3:]
	if !last[0].Confirm || last[1].Fresh || last[2].Fresh || !last[1].Verify || !last[2].Verify || a.Reason != "" {
		t.Errorf("last trials %+v, %q; want a confirmation, and two sizes in its process", last, a.Reason)
	}
	cfg.Budget = 100*float64(len(trials)-1) + 1
	a, trials = world(w).search(t, cfg, 20)
	if a.Verifies != 1 || a.Ended != Closed || !strings.Contains(a.Reason, "no time for 1 of 2 sizes below") {
		t.Errorf("with time for one: %d verified of %v: %s, %q", a.Verifies, sizes(trials), a.Ended, a.Reason)
	}
}

func TestReserve(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64, Tolerance: 0.01, Verify: 2}
	capacity := 1e9
	tests := []struct {
		name string
		law  string
		hint int64
		at   float64 // size at which the law takes 95 % of the capacity; 0: not known
	}{
		{"quadratic", "quadratic", 0, 20000 * math.Sqrt(0.95)},
		{"linear", "linear", 0, 19000},
		{"by a hint and what is verified", "mixed", 19968, 19152},
		{"memory that does not grow leaves all of it", "constant", 0, 19968},
		{"no peaks", "unknown", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			cfg.Hint = tt.hint
			a, _ := edge(20000, oom, laws(20000)[tt.law], &capacity).search(t, cfg, 30)
			switch {
			case tt.at == 0 && a.Reserve != nil, tt.at != 0 && a.Reserve == nil:
				t.Errorf("reserve %s", show(a.Reserve))
			case tt.at != 0 && math.Abs(float64(*a.Reserve)-tt.at) > 130:
				t.Errorf("reserve %d, want about %.0f", *a.Reserve, tt.at)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	const most = 20 * time.Minute
	for _, tt := range []struct {
		expect, steps float64
		want          time.Duration
	}{
		{0, 1, most},
		{10, 1, 170 * time.Second},
		{10, 3, 270 * time.Second},
		{215.9, 1, most - 500*time.Millisecond},
		{1e6, 1, most},
		{math.Inf(1), 1, most},
	} {
		if got := (Step{Expect: tt.expect}).Deadline(most, tt.steps); got != tt.want {
			t.Errorf("expected %v s: deadline %v, want %v", tt.expect, got, tt.want)
		}
	}
}

// What a trial may take follows from the largest success, with the start that new processes need.
func TestExpect(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 65536, Step: 64}
	trial := func(n int64, o catalogue.Outcome, seconds float64, fresh bool) Trial {
		return Trial{N: n, Outcome: o, Seconds: seconds, Fresh: fresh}
	}
	for _, tt := range []struct {
		name   string
		trials []Trial
		n      int64
		want   float64
	}{
		{"nothing", nil, 512, 0},
		{"only a failure", []Trial{trial(512, catalogue.Skipped, 30, true)}, 576, 0},
		{"the first", []Trial{trial(512, ok, 30, true)}, 1024, 240},
		{"the same processes", []Trial{trial(512, ok, 30, true), trial(1024, ok, 2, false)}, 2048, 16},
		{"new processes", []Trial{trial(512, ok, 30, true), trial(1024, ok, 2, false), trial(2048, oom, 9, false)}, 1536, 30 + 2*3.375},
		{"a time that is none", []Trial{trial(512, ok, math.Inf(1), true)}, 1024, 0},
	} {
		s, err := Next(cfg, tt.trials)
		if err != nil || s.N != tt.n || math.Abs(s.Expect-tt.want) > 1e-9 {
			t.Errorf("%s: size %d, %v s, %v; want %d, %v s", tt.name, s.N, s.Expect, err, tt.n, tt.want)
		}
	}
}

// Sizes above an out-of-memory take no part in the reserve.
func TestReserveBelowAnOutOfMemory(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 512, To: 4096, Step: 512}
	fits := func(n int64, peak float64) Trial {
		return Trial{N: n, Outcome: ok, PeakBytes: &peak, CapacityBytes: new(100.0)}
	}
	s, err := Next(cfg, []Trial{{N: 1536, Outcome: oom}, fits(512, 49), fits(1024, 98), fits(2048, 20)})
	if err != nil || s.Answer == nil || s.Answer.Reserve == nil || *s.Answer.Reserve != 512 {
		t.Errorf("step %+v, %v; want an answer with the reserve 512", s, err)
	}
}
