package command

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/search"
)

// A search begins at its hint, and ends with sizes below the answer.
func TestHintedSearch(t *testing.T) {
	st := newStage(t, seek(`above, "{tokens}", '70'`, ", to: 640, hint: 70"))
	r, _, _ := st.perform(t.Context(), 0)
	var got []string
	for _, trial := range r.MaxFit.Trials {
		got = append(got, fmt.Sprintf("%d %s confirm %v verify %v", trial.N, trial.Outcome, trial.Confirm, trial.Verify))
	}
	want := []string{
		"70 ok confirm false verify false", "80 oom_device confirm false verify false", "70 ok confirm true verify false",
		"50 ok confirm false verify true", "30 ok confirm false verify true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("trials:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if m := r.MaxFit; m.Hint == nil || *m.Hint != 70 || m.Verified != 2 || m.Verifies != 2 {
		t.Errorf("hint %v, %d of %d verified", m.Hint, m.Verified, m.Verifies)
	}
}

// A trial has the time that the others let expect.
func TestTimeOfATrial(t *testing.T) {
	st := newStage(t, seek(`good, "{tokens}"`, ", to: 20", "timeout: 10m"))
	h := &hunt{s: &session{job: st.job, spec: st.run.Plan.Spec.Workload}}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := h.timeout(t.Context(), search.Step{Expect: 10})
		defer cancel()
		<-ctx.Done()
		end := stopped(ctx)
		if took := time.Since(began); took != 170*time.Second || end.Outcome != catalogue.Timeout || end.Reason != search.Overdue+" (2m50s)" {
			t.Errorf("%s after %v: %q", end.Outcome, took, end.Reason)
		}
		ctx, cancel = h.timeout(t.Context(), search.Step{})
		defer cancel()
		if _, ok := ctx.Deadline(); ok {
			t.Error("nothing is expected, but the trial has a limit of its own")
		}
	})
}
