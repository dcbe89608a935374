package model

import (
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/worker/model/protocol"
	"cpbench/worker/model/ranks"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

func TestSteady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		seen []float64
		want string
	}{
		{nil, "unknown"},
		{[]float64{9, 9, 1, 1, 1, 1}, "unknown"},
		{[]float64{9, 5, 1, 1, 1, 1, 1}, "yes"}, // the cold steps do not count
		{[]float64{9, 5, 2, 1, 1.01, 1, 1.04, 1}, "yes"},
		{[]float64{9, 5, 1, 1, 1.06, 1, 1}, "no"},
		{[]float64{9, 5, 1.04, 1.03, 1.02, 1.01, 1}, "no"}, // still falls
		{[]float64{9, 5, 1, 1.01, 1.02, 1.03, 1.04}, "no"}, // still rises
	} {
		if got := steady(tt.seen); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.seen, got, tt.want)
		}
	}
}

// The figure of any rank, not only of the lowest, tells that memory was short.
func TestAllocatorRetries(t *testing.T) {
	figure := func(v float64) []protocol.Figure { return []protocol.Figure{{Name: "alloc_retries", Value: v}} }
	for name, tt := range map[string]struct {
		values []float64
		want   int
	}{"none": {[]float64{0, 0}, 0}, "second rank": {[]float64{0, 3}, 1}, "both": {[]float64{1, 1}, 2}} {
		r := &result.Result{}
		set := &ranks.Set{Ranks: []*ranks.Rank{{Figures: figure(tt.values[0])}, {Figures: figure(tt.values[1])}}}
		figures(set, r)
		if len(r.Warnings) != tt.want || len(r.Extra) != 1 {
			t.Errorf("%s: %v, %v", name, r.Warnings, r.Extra)
		}
	}
}

// Of an amount of memory the rank with the most counts, of anything else the lowest.
func TestFiguresOfSeveralRanks(t *testing.T) {
	t.Parallel()
	var set ranks.Set
	for _, v := range []float64{2, 3, 1} {
		set.Ranks = append(set.Ranks, &ranks.Rank{Figures: []protocol.Figure{{Name: "loss", Value: v}, {Name: "host_peak_rss_bytes", Value: v, Unit: "bytes"}}})
	}
	r := &result.Result{}
	figures(&set, r)
	want := []result.Figure{{Name: "loss", Value: 2}, {Name: "host_peak_rss_bytes", Value: 3, Unit: "bytes"}}
	if d := cmp.Diff(want, r.Extra); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What a search may fill is what the fullest device leaves to tensors, not what the device has.
func TestCapacity(t *testing.T) {
	t.Parallel()
	rank := func(total, usable int64) *ranks.Rank {
		r := &ranks.Rank{Hello: &protocol.Hello{}, Memory: &protocol.Memory{}}
		if total > 0 {
			r.Hello.Device.TotalBytes = &total
		}
		if usable > 0 {
			r.Memory.Usable = &usable
		}
		return r
	}
	for name, tt := range map[string]struct {
		ranks []*ranks.Rank
		want  float64 // 0: unknown
	}{
		"totals":             {[]*ranks.Rank{rank(80, 0), rank(70, 0)}, 70},
		"beside libraries":   {[]*ranks.Rank{rank(80, 79), rank(80, 76)}, 76},
		"only one tells":     {[]*ranks.Rank{rank(80, 0), rank(80, 76)}, 76},
		"one says nothing":   {[]*ranks.Rank{rank(80, 76), rank(0, 0)}, 0},
		"before its hello":   {[]*ranks.Rank{rank(80, 76), {}}, 0},
		"no total, but this": {[]*ranks.Rank{rank(0, 76)}, 76},
	} {
		got := capacity(&ranks.Set{Ranks: tt.ranks})
		if (got == nil) != (tt.want == 0) || got != nil && *got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// When a step that does not end is given up, and as what.
func TestPatience(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		beat, slow time.Duration
		seen       []float64
		timed      int
		want       ranks.Patience
	}{
		"the first step":                    {2 * time.Minute, time.Second, nil, 0, ranks.Patience{}},
		"the second after a good one":       {2 * time.Minute, time.Second, []float64{1}, 0, ranks.Patience{}},
		"the second after a slow one":       {2 * time.Minute, time.Second, []float64{9}, 0, ranks.Patience{Slow: 20 * time.Second}},
		"the third after a slow first":      {2 * time.Minute, time.Second, []float64{9, 1}, 0, ranks.Patience{}},
		"a budget beyond the timeout":       {2 * time.Minute, time.Hour, []float64{9999}, 0, ranks.Patience{}},
		"short timed steps":                 {2 * time.Minute, 0, []float64{99, 1, 0.5}, 2, ranks.Patience{Stall: 2 * time.Minute}},
		"long timed steps":                  {2 * time.Minute, 0, []float64{99, 10, 8}, 1, ranks.Patience{Stall: 200 * time.Second}},
		"one cold step only":                {2 * time.Minute, 0, []float64{10}, 1, ranks.Patience{Stall: 200 * time.Second}},
		"a batch":                           {2 * time.Minute, 0, []float64{99, 1, 1}, 10, ranks.Patience{Stall: 200 * time.Second}},
		"so long that the timeout ends it":  {2 * time.Minute, 0, []float64{99, 60}, 1, ranks.Patience{}},
		"a time that no rank can have told": {2 * time.Minute, 0, []float64{1, 1e300}, 1, ranks.Patience{}},
		"never":                             {0, time.Second, []float64{1, 1}, 1, ranks.Patience{}},
	} {
		s := &session{spec: plan.Workload{Heartbeat: plan.Duration(tt.beat), SlowAfter: plan.Duration(tt.slow), Timeout: plan.Duration(20 * time.Minute)}}
		if got := s.patience(tt.seen, tt.timed); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
