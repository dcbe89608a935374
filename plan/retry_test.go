package plan_test

import (
	"testing"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		retry    plan.Retry
		requeues bool
		outcomes []string
	}{
		{"nothing", plan.Retry{Max: 1}, false, nil},
		{"by Slurm", plan.Retry{Max: 1, On: []string{"preempted", "infra"}}, true, []string{"infra"}},
		{"node failure", plan.Retry{Max: 2, On: []string{"node_fail"}}, true, nil},
		{"by submit alone", plan.Retry{Max: 1, On: []string{"timeout", "infra"}}, false, []string{"timeout", "infra"}},
		{"never", plan.Retry{Max: 0, On: []string{"node_fail", "infra"}}, false, nil},
	} {
		if got := tt.retry.Requeues(); got != tt.requeues {
			t.Errorf("%s: Requeues() = %v", tt.name, got)
		}
		if diff := cmp.Diff(tt.outcomes, tt.retry.Outcomes()); diff != "" {
			t.Errorf("%s: Outcomes (-want +got):\n%s", tt.name, diff)
		}
	}
}

// What is tried again and how full the queue may be does not change what is measured.
func TestRetryIsNotInTheDigest(t *testing.T) {
	t.Parallel()
	base, _ := newPlan(t, fullSpec, plan.Options{})
	p, _ := newPlan(t, fullSpec+"retry: {max: 3, on: [timeout]}\n", plan.Options{})
	if p.Digest != base.Digest || p.Key != base.Key {
		t.Error("retry changes digest or key")
	}
	if p.Spec.Retry.Max != 3 || base.Spec.Retry.Max != 1 {
		t.Errorf("retry is %+v", p.Spec.Retry)
	}
}
