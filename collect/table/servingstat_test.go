package table

import (
	"encoding/csv"
	"math"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// TestBounds: the interval is mean ± t(n-1, 0.975) * SD / sqrt(n), by the t of a printed table.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		lo, hi float64
	}{
		{[]float64{10, 12, 14}, 12 - 4.302653*2/math.Sqrt(3), 12 + 4.302653*2/math.Sqrt(3)},
		{[]float64{10, 11}, 10.5 - 12.706205*math.Sqrt(0.5)/math.Sqrt(2), 10.5 + 12.706205*math.Sqrt(0.5)/math.Sqrt(2)},
		{[]float64{1, 9}, 0, 5 + 12.706205*math.Sqrt(32)/math.Sqrt(2)}, // no time is below 0
		{[]float64{3, 3, 3}, 3, 3},
	} {
		r := &Row{Serving: &Serving{values: map[string][]float64{"x": tt.values}}}
		lo, hi, ok := r.bounds("x")
		if !ok || math.Abs(lo-tt.lo) > 1e-4 || math.Abs(hi-tt.hi) > 1e-4 {
			t.Errorf("%v: %v to %v (%t), want %v to %v", tt.values, lo, hi, ok, tt.lo, tt.hi)
		}
	}
	share := &Row{Serving: &Serving{values: map[string][]float64{catalogue.CachedFraction: {0.9, 0.98}}}}
	if lo, hi, ok := share.bounds(catalogue.CachedFraction); !ok || lo <= 0 || hi != 1 {
		t.Errorf("a share lies from %v to %v", lo, hi)
	}
	r := &Row{Serving: &Serving{values: map[string][]float64{"x": {3}}}}
	if lo, hi, ok := r.bounds("x"); ok {
		t.Errorf("one value has an interval from %v to %v", lo, hi)
	}
}

const warming = `version: 1
name: s
repeats: 4
order: as-written
workload: {kind: llm, label: A, cache: CACHE, data: synth, ctx: [0, 100], concurrency: 2, max_tokens: 5, server: {url: "http://a:1"}}
`

// TestWarmth: what the cache brings is said only where the repeats can tell it, and by the cold point rather than by the
// single repeat that fills the cache.
func TestWarmth(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cache string
		ttft  func(ctx int, warm bool, nth int) float64
		want  string
	}{
		"shown at one of two": {"[cold, warm]", func(ctx int, warm bool, nth int) float64 {
			if ctx == 0 || !warm {
				return 0.100 + 0.002*float64(nth) // the same with and without the cache
			}
			return 0.010 + 0.0002*float64(nth)
		}, "A warm cache takes TTFT from 105.0 to 10.60 ms (A, synth, ctx 100, streams 2; 0.101x, 95 % interval 0.0968–0.105). " +
			"Cold and warm are no further apart than the repeats at 1 of 2 points, or have too few of them."},
		"slower": {"[cold, warm]", func(_ int, warm bool, nth int) float64 {
			return 0.1 + 0.1*float64(btoi(warm)) + 0.001*float64(nth)
		}, "A warm cache takes TTFT from 102.5 to 203.0 ms (A, synth, ctx 0, streams 2; 1.98x, 95 % interval 1.94–2.02), " +
			"from 102.5 to 203.0 ms (A, synth, ctx 100, streams 2; 1.98x, 95 % interval 1.94–2.02)."},
		"one filling repeat is no evidence": {
			"warm", func(_ int, _ bool, nth int) float64 { return 1 / float64(nth) },
			"Cold and warm are no further apart than the repeats at 2 of 2 points, or have too few of them.",
		},
		"no warm row": {"cold", func(_ int, _ bool, nth int) float64 { return float64(nth) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, strings.Replace(warming, "CACHE", tt.cache, 1))
			measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
				g := st.Serving.Group
				serve(pair, g, r, tt.ttft(g.Ctx, g.Cache == "warm" && pair.Nth() > 1, pair.Nth()))
				return true
			})
			if got := build(t, run).warmth(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestServingEndsInCSV: the ends stand beside the mean in base units, and are empty where there is one value.
func TestServingEndsInCSV(t *testing.T) {
	t.Parallel()
	table := fillServing(t)
	var b strings.Builder
	if err := table.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, title := range lines[0] {
		at[title] = i
	}
	for i, line := range lines[1:] {
		lo, hi, ok := table.Rows[i].bounds(catalogue.TTFTSeconds)
		if _, there := at["lo ttft_seconds"]; !there || (line[at["lo ttft_seconds"]] != "") != ok || (line[at["hi ttft_seconds"]] != "") != ok || ok && hi <= lo {
			t.Errorf("line %d: %q to %q, want %v to %v (%t)", i+2, line[at["lo ttft_seconds"]], line[at["hi ttft_seconds"]], lo, hi, ok)
		}
	}
}

// TestHides: where no text but the answer came, first visible is TTFT and has no column.
func TestHides(t *testing.T) {
	t.Parallel()
	run := newRun(t, strings.Replace(warming, "CACHE", "cold", 1))
	measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
		serve(pair, st.Serving.Group, r, 0.1)
		r.Set(catalogue.FirstVisibleSeconds, 0.1)
		return true
	})
	var plain, thinking strings.Builder
	if err := build(t, run).WriteMarkdown(&plain); err != nil {
		t.Fatal(err)
	}
	if err := fillServing(t).WriteMarkdown(&thinking); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "first visible") || !strings.Contains(thinking.String(), "first visible (ms)") {
		t.Errorf("%s\n%s", plain.String(), thinking.String())
	}
}
