package table

import (
	"slices"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

func TestFullness(t *testing.T) {
	t.Parallel()
	fits := ptr[int64](352)
	for _, tt := range []struct {
		name string
		m    *result.MaxFit
		want string
	}{
		{"no search", nil, ""},
		{"nothing fits", &result.MaxFit{PeakBytes: ptr(1.0), Capacity: ptr(2.0)}, ""},
		{"peak unknown", &result.MaxFit{Fits: fits, Capacity: ptr(8e6)}, ""},
		{"capacity unknown", &result.MaxFit{Fits: fits, PeakBytes: ptr(8e6)}, ""},
		{"a capacity of nothing", &result.MaxFit{Fits: fits, PeakBytes: ptr(8e6), Capacity: ptr(0.0)}, ""},
		{"no fit was had", &result.MaxFit{Fits: fits, PeakBytes: ptr(7.9e6), Capacity: ptr(8e6)}, "98.8 %"},
		{"with a reserve", &result.MaxFit{Fits: fits, PeakBytes: ptr(7.9e6), Capacity: ptr(8e6), Reserve: ptr[int64](336)}, "98.8 % (by the fit 672 leaves 5 % free)"},
		{"the answer leaves it", &result.MaxFit{Fits: fits, PeakBytes: ptr(1e6), Capacity: ptr(8e6), Reserve: fits}, "12.5 %"},
	} {
		if got := fullness(tt.m, func(n int64) int64 { return 2 * n }); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestReadoutTellsTheHeadroom(t *testing.T) {
	t.Parallel()
	run := newRun(t, full)
	measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
		if pair.Case == "" || pair.Values[2] != "a|b" {
			return false
		}
		r.MaxFit = &result.MaxFit{Axis: "tokens", Fits: ptr(int64(352 * st.Ranks)), Ended: "closed", PeakBytes: ptr(99.0), Capacity: ptr(100.0)}
		if st.Ranks == 4 {
			r.MaxFit.Reserve = ptr[int64](1344)
		}
		return true
	})
	const want = "Memory of a rank in use at that size: 2d cp=1 99.0 %, 2d cp=4 99.0 % (by the fit 1344 leaves 5 % free)."
	if got := build(t, run).Readout(); !strings.Contains(got, want) {
		t.Errorf("readout lacks %q:\n%s", want, got)
	}
}

// A wall budget is a bound on the answer and no statement on memory, in the cell and in the readout.
func TestSlowSearch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		m           *result.MaxFit
		outcome     catalogue.Outcome
		cell, peak  string
		readout     string
		notExpected string
	}{
		{"above a size", &result.MaxFit{Fits: ptr[int64](352), Ended: "time_limit", PeakBytes: ptr(7.6 * (1 << 30))}, catalogue.OK, "max-fit >=352 (time limit)", "7.60", ">=352 (time limit) at 2d cp=1", "OOM"},
		{"from the first size on", &result.MaxFit{Ended: "time_limit"}, catalogue.Slow, "max-fit none (time limit)", "—", "Nothing in this table fits", "OOM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, full)
			measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
				tt.m.Axis = "tokens"
				r.MaxFit, r.Outcome, r.Reason = tt.m, tt.outcome, "steps at size 368 take longer than workload.slow_after"
				return pair.Case != "" && st.Ranks == 1
			})
			table := build(t, run)
			for i := range table.Rows {
				r := &table.Rows[i]
				if r.Case == "" || r.Ranks != 1 {
					continue
				}
				if r.tokens() != tt.cell || r.memory() != tt.peak {
					t.Errorf("cells %q and %q, want %q and %q", r.tokens(), r.memory(), tt.cell, tt.peak)
				}
			}
			told := slices.ContainsFunc(table.Notes, func(n Note) bool { return strings.Contains(n.Text, "workload.slow_after") })
			if told != tt.outcome.Fits() { // else it stands beside the absence
				t.Errorf("a note tells why it is a bound: %v", told)
			}
			if got := table.Readout(); !strings.Contains(got, tt.readout) || strings.Contains(got, tt.notExpected) {
				t.Errorf("readout lacks %q:\n%s", tt.readout, got)
			}
		})
	}
}
