package worker

import (
	"strings"
	"testing"

	"cpbench/plan/catalogue"
)

// Slurm starts a task again as often as nodes fail; retry.max bounds that.
func TestRestartsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, retry string
		restart     int
		givenUp     bool
	}{
		{"first run", "retry: {max: 1, on: [node_fail]}\n", 0, false},
		{"as often as allowed", "retry: {max: 1, on: [node_fail]}\n", 1, false},
		{"once too often", "retry: {max: 1, on: [preempted, infra]}\n", 2, true},
		{"no bound asked for", "retry: {max: 1, on: [infra]}\nslurm: {requeue: true}\n", 9, false},
		{"no retry at all", "slurm: {requeue: true}\n", 9, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, small+tt.retry)
			leave(t, run, pairAt(t, run, 0, 0), 1, 0, catalogue.OK, nil)
			f := newFake(t, run)
			cfg := f.config()
			cfg.Alloc.Restart = tt.restart
			if err := Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if opened := f.order() != ""; opened == tt.givenUp {
				t.Errorf("order = %q", f.order())
			}
			if !tt.givenUp {
				return
			}
			if got := outcomes(t, run); got != "ok infra infra" {
				t.Errorf("outcomes = %s", got)
			}
			r, err := Last(run, pairAt(t, run, 0, 1))
			if err != nil || !strings.HasPrefix(r.Reason, StartedAgain+" 2 times") || !strings.HasSuffix(r.Reason, "retry.max is 1") {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}
