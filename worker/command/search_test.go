package command

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/result"
)

// seek is the spec of a search from 10 to 640 in steps of 10; behaviour has the size as its second argument.
func seek(behaviour, more string, with ...string) string {
	text := spec(behaviour, append(with, "max_fit: {axis: tokens, from: 10, step: 10, tolerance: 1%"+more+"}")...)
	return strings.Replace(text, "matrix: {tokens: [16]}", "matrix: {}", 1)
}

func bracket(m *result.MaxFit) string {
	size := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("fits %s oom %s limit %s %s confirmed %d/%d", size(m.Fits), size(m.OOM), size(m.Limit), m.Ended, m.Confirmed, m.Confirms)
}

func TestSearches(t *testing.T) {
	const torch = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
	tests := []struct {
		name     string
		text     string
		outcome  catalogue.Outcome
		reason   string
		evidence string
		bracket  string
		warning  catalogue.Code
	}{
		{"closed", seek(`above, "{tokens}", '70'`, ", to: 640"), catalogue.OK, "", torch, "fits 70 oom 80 limit - closed confirmed 1/1", ""},
		{"refused twice what is free", seek(`free-above, "{tokens}", '70'`, ", to: 640"), catalogue.OK, "", "of which 2.00 GiB is free", "fits 70 oom 80 limit - closed confirmed 1/1", ""},
		{"swallowed", seek(`swallow-above, "{tokens}", '30'`, ", to: 640, confirm: 0"), catalogue.OK, "", "skipping batch", "fits 30 oom 40 limit - closed confirmed 0/0", ""},
		{"floor", seek(`above, "{tokens}", '9'`, ", to: 640"), catalogue.OOMDevice, "", torch, "fits - oom 10 limit - floor confirmed 0/1", ""},
		{"ceiling", seek(`good, "{tokens}"`, ", to: 40, confirm: 2"), catalogue.OK, "", "", "fits 40 oom - limit - ceiling confirmed 2/2", ""},
		{"another limit", seek(`big-above, "{tokens}", '30'`, ", to: 640"), catalogue.OK, "size 40 met a limit that is not memory", "", "fits 30 oom - limit 40 limit_other confirmed 1/1", ""},
		{"an error ends it", seek(`exit-above, "{tokens}", '20'`, ", to: 640"), catalogue.Error, "the program ended with exit code 3", "something is wrong", "fits 20 oom - limit - aborted confirmed 0/1", catalogue.Unconfirmed},
		{"no file is no answer", seek(`quiet, "{tokens}"`, ", to: 640"), catalogue.NoArtifact, `the program ended with exit code 0, but no file matches "out/*/model.cif"`, "", "fits - oom - limit - aborted confirmed 0/1", ""},
		{"a trial takes too long", seek(`hang-above, "{tokens}", '20'`, ", to: 640", "timeout: 700ms"), catalogue.Timeout, "one run took longer than workload.timeout (700ms)", "waiting", "fits 20 oom - limit - aborted confirmed 0/1", catalogue.Unconfirmed},
		{"the search takes too long", seek(`hang-above, "{tokens}", '20'`, ", to: 640, time: 1500ms"), catalogue.OK, "the search took longer than workload.max_fit.time (1.5s)", "", "fits 20 oom - limit - time_limit confirmed 0/1", catalogue.Interrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := newStage(t, tt.text)
			r, samples, _ := st.perform(t.Context(), 0)
			if r.MaxFit == nil || len(samples) > 0 {
				t.Fatalf("max_fit = %v, %d samples", r.MaxFit, len(samples))
			}
			if r.Outcome != tt.outcome || r.Reason != tt.reason || !strings.Contains(r.Evidence, tt.evidence) || tt.evidence == "" && r.Evidence != "" {
				t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
			}
			if got := bracket(r.MaxFit); got != tt.bracket {
				t.Errorf("bracket:\n got %s\nwant %s", got, tt.bracket)
			}
			if tt.warning != "" && !warned(r, tt.warning) || tt.warning == "" && len(r.Warnings) > 0 {
				t.Errorf("warnings %v, want %q", r.Warnings, tt.warning)
			}
			if tt.outcome == catalogue.OK && (r.Sizes.Tokens == nil || *r.Sizes.Tokens != *r.MaxFit.Fits) {
				t.Errorf("sizes %+v", r.Sizes)
			}
			if len(st.logs()) != len(r.MaxFit.Trials) {
				t.Errorf("%d logs for %d trials", len(st.logs()), len(r.MaxFit.Trials))
			}
			for _, trial := range r.MaxFit.Trials {
				if !trial.Fresh {
					t.Errorf("trial %d is not in a fresh process", trial.N)
				}
			}
		})
	}
}

// A program that tells its peak gives the row of the search its memory.
func TestPeakOfASearch(t *testing.T) {
	st := newStage(t, seek(`above, "{tokens}", '20'`, ", to: 640", `metrics: [{name: peak_allocated_bytes, regex: "took ([0-9.]+) s", unit: GiB}]`))
	r, _, _ := st.perform(t.Context(), 0)
	if v := r.Metrics[catalogue.PeakAllocatedBytes]; v == nil || *v != 1.25*(1<<30) || *r.MaxFit.PeakBytes != *v {
		t.Errorf("peak %v, %v", v, r.MaxFit.PeakBytes)
	}
}

// A signal keeps what the trials have shown.
func TestSearchMeetsASignal(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	st := newStage(t, seek(`hang-above, "{tokens}", '20'`, ", to: 640"))
	go func() {
		for ctx.Err() == nil {
			if found, _ := filepath.Glob(filepath.Join(escape(st.job.LogDir, `*?[\`), "*-trial-40.log")); len(found) == 1 && strings.Contains(tail(found[0], 100), "waiting") {
				cancel(worker.ErrSignal)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r, _, took := st.perform(ctx, 0)
	if r.Outcome != catalogue.Cancelled || r.Reason != worker.ErrSignal.Error() || took > 2*quick || !warned(r, catalogue.Interrupted) {
		t.Errorf("%s: %q after %v, %v", r.Outcome, r.Reason, took, r.Warnings)
	}
	if got, want := bracket(r.MaxFit), "fits 20 oom - limit - aborted confirmed 0/1"; got != want || len(r.MaxFit.Trials) != 3 {
		t.Errorf("bracket:\n got %s\nwant %s; %d trials", got, want, len(r.MaxFit.Trials))
	}
}

// An attempt that was interrupted is gone on with: its trials are not made again.
func TestSearchGoesOn(t *testing.T) {
	st := newStage(t, seek(`above, "{tokens}", '70'`, ", to: 640"))
	pair := st.task.Pairs[0]
	interrupted := &result.Result{
		Schema: result.Schema, Plan: st.run.Plan.Digest, Key: st.run.Plan.CaseKey, Run: st.run.Name(), Point: pair.ID, Case: pair.Case, Repeat: 1, Attempt: 1,
		Outcome: catalogue.Cancelled, Reason: "stopped by a signal", Started: time.Now(), Ended: time.Now(),
		MaxFit: &result.MaxFit{Axis: "tokens", Ended: "aborted", Trials: []result.Trial{
			{N: 10, Outcome: catalogue.OK, Seconds: 1, Fresh: true},
			{N: 20, Outcome: catalogue.OK, Seconds: 1, Fresh: true},
			{N: 40, Outcome: catalogue.OK, Seconds: 1, Fresh: true},
			{N: 80, Outcome: catalogue.Cancelled, Seconds: 1, Fresh: true},
		}},
	}
	if err := result.Write(st.run.ResultsDir(), interrupted); err != nil {
		t.Fatal(err)
	}
	r, _, _ := st.perform(t.Context(), 0)
	if got, want := bracket(r.MaxFit), "fits 70 oom 80 limit - closed confirmed 1/1"; got != want || r.Outcome != catalogue.OK {
		t.Errorf("%s, bracket:\n got %s\nwant %s", r.Outcome, got, want)
	}
	if made := len(st.logs()); made != len(r.MaxFit.Trials)-3 {
		t.Errorf("%d trials were made of %d", made, len(r.MaxFit.Trials))
	}
	if r.Sizes.Tokens == nil || *r.Sizes.Tokens != 70 {
		t.Errorf("sizes %+v", r.Sizes)
	}
}
