package command

import (
	"context"
	"strings"
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// A run over workload.slow_after ends a point with the time that it took.
func TestSlowRun(t *testing.T) {
	for name, tt := range map[string]struct {
		text    string
		outcome catalogue.Outcome
		reason  string
		timed   int
	}{
		"a timed run":     {spec("nap", "slow_after: 200ms", "iterations: 3"), catalogue.Slow, " s, more than workload.slow_after (200ms)", 1},
		"the first run":   {spec("nap", "slow_after: 200ms", "warmup: 1", "iterations: 3"), catalogue.Slow, " s, more than workload.slow_after (200ms)", 1},
		"within":          {spec("good", "slow_after: 15s", "iterations: 3"), catalogue.OK, "", 3},
		"does not end":    {spec("hang", "slow_after: 20ms"), catalogue.Slow, "the run took longer than 20 times workload.slow_after (20ms)", 0},
		"nor in its time": {spec("hang", "slow_after: 10s", "timeout: 300ms"), catalogue.Timeout, "one run took longer than workload.timeout (300ms)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t, tt.text)
			r, samples, _ := st.perform(t.Context(), 0)
			if r.Outcome != tt.outcome || !strings.HasSuffix(r.Reason, tt.reason) {
				t.Errorf("%s: %q", r.Outcome, r.Reason)
			}
			if v := r.Metrics[catalogue.StepSeconds]; len(samples) != tt.timed || (v != nil) != (tt.timed > 0) {
				t.Errorf("%d samples, time %v", len(samples), v)
			}
			if n := len(st.logs()); tt.outcome == catalogue.Slow && n != 1 {
				t.Errorf("%d runs, want 1", n)
			}
		})
	}
}

// In a search a size over the budget does not fit and ends it upwards.
func TestSlowSize(t *testing.T) {
	_, r, _ := only(t, spec("nap-above, '{tokens}', '30'", "slow_after: 1s", "max_fit: {axis: tokens, from: 10, to: 640, step: 10, confirm: 0}"))
	m := r.MaxFit
	if r.Outcome != catalogue.OK || m == nil || m.Fits == nil || *m.Fits != 20 || m.OOM != nil || m.Ended != "time_limit" {
		t.Errorf("%s: %q, %+v", r.Outcome, r.Reason, m)
	}
}

// A budget that workload.timeout ends before needs no limit of its own, however long it is.
func TestBudgetBeyondTheTimeout(t *testing.T) {
	t.Parallel()
	for limit, bounded := range map[time.Duration]bool{0: false, time.Second: true, 4 * time.Second: false, 366 * 24 * time.Hour: false} {
		s := &session{spec: plan.Workload{Timeout: plan.Duration(time.Minute), SlowAfter: plan.Duration(limit)}}
		ctx, cancel := s.budget(context.Background())
		if at, ok := ctx.Deadline(); ok != bounded || ok && time.Until(at) > farOver*limit {
			t.Errorf("%v: deadline %v in %v", limit, ok, time.Until(at))
		}
		cancel()
	}
}
