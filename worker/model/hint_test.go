package model

import (
	"testing"
	"testing/synctest"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/ranks"
	"cpbench/worker/search"

	"github.com/google/go-cmp/cmp"
)

// A search begins at its hint, and ends with sizes below the answer, in the processes that confirmed it.
func TestHintedSearch(t *testing.T) {
	_, r, _ := found(t.Context(), t, play(2, "oom-above:70", "1", seek(", to: 640, verify: 2, hint: 77")))
	type trial struct {
		n                      int64
		fits                   bool
		fresh, confirm, verify bool
	}
	var got []trial
	for _, tr := range r.MaxFit.Trials {
		got = append(got, trial{tr.N, tr.Outcome.Fits(), tr.Fresh, tr.Confirm, tr.Verify})
	}
	want := []trial{{70, true, true, false, false}, {80, false, false, false, false}, {70, true, true, true, false}, {50, true, false, false, true}, {30, true, false, false, true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(trial{})); diff != "" {
		t.Errorf("trials (-want +got):\n%s", diff)
	}
	m := r.MaxFit
	if m.Hint == nil || *m.Hint != 77 || m.Verified != 2 || m.Verifies != 2 || bracket(m) != "fits 70 oom 80 limit - above - closed confirmed 1/1" {
		t.Errorf("hint %v, %d of %d verified, %s", m.Hint, m.Verified, m.Verifies, bracket(m))
	}
}

// A trial has the time that the others let expect, more of it for more steps, and never more than workload.timeout.
func TestTimeOfATrial(t *testing.T) {
	st := newStage(t, play(1, "honest", "0", seek(", to: 20"), "timeout: 10m"))
	h := &hunt{s: &session{job: st.job, spec: st.run.Plan.Spec.Workload}}
	for _, tt := range []struct {
		step search.Step
		want time.Duration
		text string
	}{
		{search.Step{}, 10 * time.Minute, "one execution took longer than workload.timeout (10m0s)"},
		{search.Step{Expect: 1e4}, 10 * time.Minute, "one execution took longer than workload.timeout (10m0s)"},
		{search.Step{Expect: 10}, 170 * time.Second, search.Overdue + " (2m50s)"},
		{search.Step{Expect: 10, Confirm: true}, 270 * time.Second, search.Overdue + " (4m30s)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := h.timeout(t.Context(), tt.step)
			defer cancel()
			<-ctx.Done()
			end := ranks.Stopped(ctx)
			if took := time.Since(began); took != tt.want || end.Outcome != catalogue.Timeout || end.Reason != tt.text {
				t.Errorf("%+v: %s after %v: %q", tt.step, end.Outcome, took, end.Reason)
			}
		})
	}
}
