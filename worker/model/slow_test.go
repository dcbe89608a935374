package model

import (
	"strings"
	"testing"

	"cpbench/plan/catalogue"
)

// requests are the steps that rank 0 was asked for.
func (st *stage) requests() []string {
	var list []string
	for line := range strings.Lines(st.output(0)) {
		if phase, _, _ := strings.Cut(line, " "); phase == "warmup" || phase == "timed" || phase == "probe" {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// A step over workload.slow_after ends a point with what it has measured, but not its first step.
func TestSlowPoint(t *testing.T) {
	tests := []struct {
		name, text string
		outcome    catalogue.Outcome
		reason     string
		n          int     // timed steps that count
		seconds    float64 // ... and their time
		requests   int
	}{
		{
			"from the second step", play(2, "honest", "0", "slow_after: 450ms"), catalogue.Slow,
			"a step took 0.5 s, more than workload.slow_after (450ms)", 1, 0.5, 2,
		},
		{
			"in timed steps", play(2, "slow-timed", "1", "slow_after: 10s", "iterations: 10"), catalogue.Slow,
			"a step took 30 s, more than workload.slow_after (10s)", 2, 30, 8, // 7 steps until steady, and 2 in a second
		},
		{"only the first step", play(2, "slow-first", "1", "slow_after: 10s"), catalogue.OK, "", 5, 0.5, 10},
		{"no limit", play(2, "slow-timed", "1", "iterations: 5"), catalogue.OK, "", 5, 30, 0},
		{
			"a step that does not end, after a slow one", play(1, "slow-wait", "0", "slow_after: 25ms"), catalogue.Slow,
			"no step has ended for 500ms, which is far over workload.slow_after", 0, 0, 2,
		},
		{
			"a step that does not end, after good ones", play(1, "alive-wait", "0", "slow_after: 25ms", "heartbeat: 2s"), catalogue.Hang,
			"all ranks are alive, but no step has ended for 2s", 0, 0, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := newStage(t, tt.text)
			r, samples, _ := st.perform(t.Context(), 0)
			if r.Outcome != tt.outcome || r.Reason != tt.reason {
				t.Errorf("%s: %q", r.Outcome, r.Reason)
			}
			if len(samples) != tt.n || tt.n > 0 && (r.Steps == nil || r.Steps.N != tt.n || *r.Metrics[catalogue.StepSeconds] != tt.seconds) {
				t.Errorf("%d samples, %+v", len(samples), r.Steps)
			}
			if tt.outcome == catalogue.Slow && warned(r, catalogue.Interrupted) != (tt.n > 0) {
				t.Errorf("warnings %v", r.Warnings)
			}
			if got := st.requests(); tt.requests > 0 && len(got) != tt.requests {
				t.Errorf("requests %q, want %d", got, tt.requests)
			}
			if r.Metrics[catalogue.FirstStepSeconds] == nil || r.Steps != nil && r.Metrics[catalogue.PeakAllocatedBytes] == nil {
				t.Errorf("metrics %v", r.Metrics)
			}
		})
	}
}

// In a search a size over the budget does not fit, ends it upwards, and is told from one that only compiles.
func TestSlowSizes(t *testing.T) {
	const limit = "slow_after: 10s"
	for name, tt := range map[string]struct {
		text, bracket, reason string
		outcome               catalogue.Outcome
		requests              string
	}{
		"too slow": {
			play(1, "slow-above:30", "0", seek(", to: 640"), limit), "fits 20 oom - limit - above - time_limit confirmed 1/1",
			"steps at size 40 take longer than workload.slow_after", catalogue.OK, "probe 1 at 10, probe 1 at 20, probe 1 at 40, probe 1 at 40, probe 3 at 20",
		},
		"the smallest": {
			play(1, "slow-above:0", "0", seek(", to: 640"), limit), "fits - oom - limit - above - time_limit confirmed 0/1",
			"a step took 30 s, more than workload.slow_after (10s)", catalogue.Slow, "probe 1 at 10, probe 1 at 10",
		},
		"the first step of each": {
			play(1, "slow-first", "0", seek(", to: 20"), limit), "fits 20 oom - limit - above - ceiling confirmed 1/1",
			"", catalogue.OK, "probe 1 at 10, probe 1 at 10, probe 1 at 20, probe 1 at 20, probe 3 at 20",
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, r, _ := found(t.Context(), t, tt.text)
			if got := bracket(r.MaxFit); got != tt.bracket || r.Outcome != tt.outcome || r.Reason != tt.reason {
				t.Errorf("%s: %q\n got %s\nwant %s", r.Outcome, r.Reason, got, tt.bracket)
			}
			if got := strings.Join(st.requests(), ", "); got != tt.requests {
				t.Errorf("requests %s\nwant %s", got, tt.requests)
			}
		})
	}
}

// A model that is compiled for its sizes has new processes for each.
func TestCompiledModel(t *testing.T) {
	for behaviour, fresh := range map[string]bool{"compiled": true, "honest": false} {
		st, r, _ := found(t.Context(), t, play(2, behaviour, "1", seek(", to: 40, confirm: 0")))
		n, trials := len(st.events("launch")), len(r.MaxFit.Trials)
		if r.Outcome != catalogue.OK || trials < 3 || fresh && n != trials || !fresh && n != 1 {
			t.Errorf("%s: %s: %d launches for %d trials", behaviour, r.Outcome, n, trials)
		}
	}
}

// The size of a real input is the one that counts, not the one that was asked for.
func TestSizeOfARealInput(t *testing.T) {
	_, r, _ := only(t, play(2, "real", "all"))
	if s := r.Sizes; r.Outcome != catalogue.OK || *s.Tokens != 15 || *s.PaddedTokens != 20 {
		t.Errorf("%s, %+v", r.Outcome, s)
	}
}
