package model

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// seek is the line of a search from 10 to 640 in steps of 10.
func seek(more string) string {
	return "max_fit: {axis: tokens, from: 10, step: 10, tolerance: 1%" + more + "}"
}

// found performs the search of a spec, which is the first pair of its task, and checks what holds for every search.
func found(ctx context.Context, t *testing.T, text string) (*stage, *result.Result, time.Duration) {
	t.Helper()
	st := newStage(t, text)
	if st.task.Pairs[0].Case == "" {
		t.Fatal("the task does not begin with a search")
	}
	r, samples, took := st.perform(ctx, 0)
	if r.MaxFit == nil || len(samples) != 0 {
		t.Fatalf("max_fit = %v, %d samples", r.MaxFit, len(samples))
	}
	fresh := 0
	for i, trial := range r.MaxFit.Trials {
		if trial.Fresh {
			fresh++
		}
		if must := i == 0 || trial.Confirm || !r.MaxFit.Trials[i-1].Outcome.Fits(); must && !trial.Fresh {
			t.Errorf("trial %d at %d ran in the processes of the one before it, which was %s", i, trial.N, r.MaxFit.Trials[max(i-1, 0)].Outcome)
		}
		if (trial.Peak == nil) == trial.Outcome.Fits() {
			t.Errorf("trial %d at %d: %s with peak %v", i, trial.N, trial.Outcome, trial.Peak)
		}
	}
	if n := len(st.events("launch")); n != fresh {
		t.Errorf("%d launches for %d fresh trials", n, fresh)
	}
	t.Logf("%+v", bracket(r.MaxFit))
	return st, r, took
}

// bracket is what a search says of its sizes, as text.
func bracket(m *result.MaxFit) string {
	size := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("fits %s oom %s limit %s above %s %s confirmed %d/%d", size(m.Fits), size(m.OOM), size(m.Limit), size(m.Above), m.Ended, m.Confirmed, m.Confirms)
}

func TestSearchOfTheReferenceModel(t *testing.T) {
	_, r, _ := found(t.Context(), t, refer(4, "", "topology: 2d", "max_fit: {axis: tokens, from: 8, to: 1024, step: 8, tolerance: 1%}"))
	m := r.MaxFit
	if r.Outcome != catalogue.OK || m.Fits == nil || m.OOM == nil || *m.OOM-*m.Fits != 8 || m.Ended != "closed" || m.Confirmed != 1 {
		t.Fatalf("%s, %s", r.Outcome, bracket(m))
	}
	if !strings.Contains(r.Evidence, "out of memory") || warned(r, catalogue.Unconfirmed) {
		t.Errorf("evidence %q, warnings %v", r.Evidence, r.Warnings)
	}
	if *r.Sizes.Tokens != *m.Fits || r.Sizes.PaddedTokens == nil || r.Sizes.Ranks != 4 {
		t.Errorf("sizes %+v at %d", r.Sizes, *m.Fits)
	}
	if v := r.Metrics[catalogue.PeakAllocatedBytes]; v == nil || m.Capacity == nil || *v > *m.Capacity || *v < *m.Capacity/2 || *m.PeakBytes != *v {
		t.Errorf("peak %v of %v", v, m.Capacity)
	}
	for _, name := range []string{catalogue.StepSeconds, catalogue.LaunchSeconds, catalogue.PrepareSeconds} {
		if _, ok := r.Metrics[name]; ok {
			t.Errorf("a search has %s", name)
		}
	}
	// Processes that are used again tell the peak of each size, not that of the largest so far, and the same size
	// needs the same memory in fresh ones.
	peaks := map[int64]float64{}
	for _, trial := range m.Trials {
		if trial.Peak == nil {
			continue
		}
		if old, ok := peaks[trial.N]; ok && old != *trial.Peak {
			t.Errorf("size %d: peak %.0f, then %.0f in other processes", trial.N, old, *trial.Peak)
		}
		peaks[trial.N] = *trial.Peak
	}
	if len(peaks) < 3 || peaks[16] >= peaks[128] || peaks[128] >= *m.PeakBytes {
		t.Errorf("peaks %v", peaks)
	}
}

func TestSearches(t *testing.T) {
	tests := []struct {
		name     string
		text     string
		outcome  catalogue.Outcome
		reason   string
		evidence string
		bracket  string
		warning  catalogue.Code
	}{
		{
			name: "closed", text: play(2, "oom-above:70", "1", seek(", to: 640")), outcome: catalogue.OK, evidence: "CUDA out of memory at 80",
			bracket: "fits 70 oom 80 limit - above - closed confirmed 1/1",
		},
		{
			name: "confirmed twice", text: play(1, "oom-above:10", "0", seek(", to: 640, confirm: 2")), outcome: catalogue.OK, evidence: "CUDA out of memory at 20",
			bracket: "fits 10 oom 20 limit - above - closed confirmed 2/2",
		},
		{
			name: "refused twice what is free", text: play(1, "oom-free-above:70", "0", seek(", to: 640")), outcome: catalogue.OK, evidence: "which 2.00 GiB is free",
			bracket: "fits 70 oom 80 limit - above - closed confirmed 1/1",
		},
		{
			name: "suspected twice when memory was short", text: play(1, "suspect-short-above:70", "0", seek(", to: 640")), outcome: catalogue.OK, evidence: "CUBLAS_STATUS_ALLOC_FAILED",
			bracket: "fits 70 oom 80 limit - above - closed confirmed 1/1",
		},
		{
			name: "suspected twice", text: play(1, "suspect-above:30", "0", seek(", to: 640")), outcome: catalogue.OOMSuspect, reason: "rank 0 failed", evidence: "CUBLAS_STATUS_ALLOC_FAILED",
			bracket: "fits 20 oom - limit - above - aborted confirmed 0/1", warning: catalogue.Unconfirmed,
		},
		{
			name: "a request that is garbage", text: play(1, "oom-garbage-above:30", "0", seek(", to: 640")), outcome: catalogue.Error,
			reason:   "rank 0 ran out of memory in step; a request of this size is garbage, not a size of the input",
			evidence: "2097152.00 GiB", bracket: "fits 20 oom - limit - above - aborted confirmed 0/1", warning: catalogue.Unconfirmed,
		},
		{
			name: "floor", text: play(2, "oom-above:9", "1", seek(", to: 640")), outcome: catalogue.OOMDevice, evidence: "CUDA out of memory at 10",
			bracket: "fits - oom 10 limit - above - floor confirmed 0/1",
		},
		{
			name: "ceiling", text: play(2, "honest", "1", seek(", to: 40")), outcome: catalogue.OK,
			bracket: "fits 40 oom - limit - above - ceiling confirmed 1/1",
		},
		{
			name: "another limit", text: play(2, "too-big-above:30", "1", seek(", to: 640")), outcome: catalogue.OK, reason: "size 40 met a limit that is not memory",
			bracket: "fits 30 oom - limit 40 above - limit_other confirmed 1/1",
		},
		{
			name: "unstable", text: play(1, "unstable", "0", seek(", to: 20")), outcome: catalogue.OK, reason: "size 20 ran again in 0 of 1 new processes",
			evidence: "CUDA out of memory this time", bracket: "fits 20 oom - limit - above - unstable confirmed 0/1", warning: catalogue.Unstable,
		},
		{
			name: "an error ends it", text: play(1, "error-above:30", "0", seek(", to: 640")), outcome: catalogue.Error, reason: "rank 0 failed", evidence: "illegal instruction at 40",
			bracket: "fits 20 oom - limit - above - aborted confirmed 0/1", warning: catalogue.Unconfirmed,
		},
		{
			name: "an error at once", text: play(1, "error-above:0", "0", seek(", to: 640")), outcome: catalogue.Error, reason: "rank 0 failed", evidence: "illegal instruction at 10",
			bracket: "fits - oom - limit - above - aborted confirmed 0/1",
		},
		{
			name: "a trial hangs", text: play(1, "wait-above:30", "0", seek(", to: 640"), "timeout: 700ms"), outcome: catalogue.Timeout,
			reason: "one execution took longer than workload.timeout (700ms)", evidence: "no answer yet from rank 0",
			bracket: "fits 20 oom - limit - above - aborted confirmed 0/1", warning: catalogue.Unconfirmed,
		},
		{
			name: "the search takes too long", text: play(1, "wait-above:30", "0", seek(", to: 640, time: 1s")), outcome: catalogue.OK,
			reason: "the search took longer than workload.max_fit.time (1s)", bracket: "fits 20 oom - limit - above - time_limit confirmed 0/1", warning: catalogue.Interrupted,
		},
		{
			name: "too long for one size", text: play(1, "wait-above:0", "0", seek(", to: 640, time: 500ms")), outcome: catalogue.Timeout,
			reason: "the search took longer than workload.max_fit.time (500ms)", evidence: "no answer yet from rank 0", bracket: "fits - oom - limit - above - time_limit confirmed 0/1", warning: catalogue.Interrupted,
		},
		{
			name: "no program", text: spec(1, "[./none]", seek(", to: 640")), outcome: catalogue.Error, reason: "the program could not be started", evidence: "./none",
			bracket: "fits - oom - limit - above - aborted confirmed 0/1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, r, _ := found(t.Context(), t, tt.text)
			if r.Outcome != tt.outcome || r.Reason != tt.reason || !strings.Contains(r.Evidence, tt.evidence) || tt.evidence == "" && r.Evidence != "" {
				t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
			}
			if got := bracket(r.MaxFit); got != tt.bracket {
				t.Errorf("bracket:\n got %s\nwant %s", got, tt.bracket)
			}
			if tt.warning != "" && !warned(r, tt.warning) || tt.warning == "" && len(r.Warnings) > 0 {
				t.Errorf("warnings %v, want %q", r.Warnings, tt.warning)
			}
			if tt.outcome == catalogue.OK && (r.Sizes.Tokens == nil || *r.Sizes.Tokens != *r.MaxFit.Fits || *r.Sizes.PaddedTokens < *r.MaxFit.Fits) {
				t.Errorf("sizes %+v", r.Sizes)
			}
		})
	}
}

// A size below the answer that does not fit, of real ranks, is found, tried in a second process, and bounds the answer.
func TestSearchOfAFitThatIsNotMonotone(t *testing.T) {
	const axis = "max_fit: {axis: tokens, from: 8, to: 1024, step: 8, tolerance: 1%}"
	_, plain, _ := found(t.Context(), t, refer(1, "", axis))
	i := slices.IndexFunc(plain.MaxFit.Trials, func(t result.Trial) bool { return t.Verify })
	if i < 0 {
		t.Fatalf("no size below the answer was tried: %+v", plain.MaxFit)
	}
	hole := plain.MaxFit.Trials[i].N
	_, r, _ := found(t.Context(), t, refer(1, fmt.Sprintf(`, --fault, "non-monotone=%d:%d"`, hole, hole), axis))
	m := r.MaxFit
	if r.Outcome != catalogue.OK || m.Ended != "non_monotone" || m.OOM == nil || *m.OOM != hole || m.Fits == nil || *m.Fits >= hole || m.Above == nil || *m.Above != *plain.MaxFit.Fits {
		t.Errorf("%s, %s, but %d does not fit and %d does", r.Outcome, bracket(m), hole, *plain.MaxFit.Fits)
	}
	tries := 0
	for _, trial := range m.Trials {
		if trial.N == hole {
			tries++
		}
	}
	if tries != 2 || !warned(r, catalogue.NonMonotone) {
		t.Errorf("%d was tried %d times; warnings %v", hole, tries, r.Warnings)
	}
}

// A signal keeps what the trials have shown.
func TestSearchMeetsASignal(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	st := newStage(t, play(2, "wait-above:30", "1", seek(", to: 640")))
	go func() {
		for {
			if text, err := os.ReadFile(filepath.Join(st.job.LogDir, "rank-1.log")); err == nil && strings.Contains(string(text), "waiting") {
				cancel(worker.ErrSignal)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r, _, took := st.perform(ctx, 0)
	if r.Outcome != catalogue.Cancelled || r.Reason != worker.ErrSignal.Error() || took > quick || !warned(r, catalogue.Interrupted) {
		t.Errorf("%s: %q after %v, %v", r.Outcome, r.Reason, took, r.Warnings)
	}
	if got, want := bracket(r.MaxFit), "fits 20 oom - limit - above - aborted confirmed 0/1"; got != want || len(r.MaxFit.Trials) != 3 {
		t.Errorf("bracket:\n got %s\nwant %s; %d trials", got, want, len(r.MaxFit.Trials))
	}
}

// An attempt that was interrupted is gone on with: its trials are not made again.
func TestSearchGoesOn(t *testing.T) {
	text := refer(1, "", "max_fit: {axis: tokens, from: 8, to: 1024, step: 8, tolerance: 1%}")
	_, whole, _ := found(t.Context(), t, text)
	const made = 4
	if len(whole.MaxFit.Trials) <= made {
		t.Fatalf("only %d trials", len(whole.MaxFit.Trials))
	}
	st := newStage(t, text)
	pair := st.task.Pairs[0]
	interrupted := *whole
	interrupted.Plan, interrupted.Key, interrupted.Run, interrupted.Point, interrupted.Case = st.run.Plan.Digest, st.run.Plan.CaseKey, st.run.Name(), pair.ID, pair.Case
	interrupted.Outcome, interrupted.Reason = catalogue.Cancelled, "stopped by a signal"
	cut := *whole.MaxFit
	cut.Trials = append(append([]result.Trial{}, cut.Trials[:made]...), result.Trial{N: 9999, Outcome: catalogue.Cancelled})
	interrupted.MaxFit = &cut
	if err := result.Write(st.run.ResultsDir(), &interrupted); err != nil {
		t.Fatal(err)
	}
	r, _, _ := st.perform(t.Context(), 0)
	if got, want := bracket(r.MaxFit), bracket(whole.MaxFit); got != want || r.Outcome != catalogue.OK {
		t.Errorf("%s\n got %s\nwant %s", r.Outcome, got, want)
	}
	if got, want := len(st.events("trial")), len(whole.MaxFit.Trials)-made; got != want {
		t.Errorf("%d trials were made, want %d", got, want)
	}
	if r.Sizes.Tokens == nil || *r.Sizes.Tokens != *r.MaxFit.Fits || r.Sizes.Ranks != 1 {
		t.Errorf("sizes %+v", r.Sizes)
	}
}

// One step for inference; two in training, where the optimizer's state appears at the first; three to confirm.
func TestStepsOfATrial(t *testing.T) {
	for mode, want := range map[string][]string{
		"inference": {"probe 1 at 10", "probe 1 at 20", "probe 3 at 20"},
		"training":  {"probe 2 at 10", "probe 2 at 20", "probe 3 at 20"},
	} {
		t.Run(mode, func(t *testing.T) {
			st, r, _ := found(t.Context(), t, play(1, "honest", "0", "mode: "+mode, seek(", to: 20")))
			for i, peak := range []float64{1000, 500, 1000} { // since the start; since the size before; since the start
				if got := r.MaxFit.Trials[i].Peak; got == nil || *got != peak {
					t.Errorf("trial %d: peak %v, want %v", i, got, peak)
				}
			}
			for name, want := range map[string]float64{catalogue.PeakReservedBytes: 2000, catalogue.PeakDeviceBytes: 3000} { // of the confirmation
				if got := r.Metrics[name]; got == nil || *got != want {
					t.Errorf("%s at the answer: %v, want %v", name, got, want)
				}
			}
			var got []string
			for line := range strings.Lines(st.output(0)) {
				if strings.HasPrefix(line, "probe") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if n := strings.Count(st.output(0), "== point "); n != 2 {
				t.Errorf("%d headers in the log of the rank, want 2", n)
			}
		})
	}
}

// A program whose arguments or environment depend on the size is started anew for each size.
func TestProgramOfEachSize(t *testing.T) {
	for name, text := range map[string]string{
		"argument":    spec(1, `["{cpbench}", actor, "{tokens}", "0"]`, seek(", to: 40, confirm: 0, verify: 0")),
		"environment": play(1, "honest", "0", seek(", to: 40, confirm: 0, verify: 0"), `env: {N: "{tokens}"}`),
	} {
		t.Run(name, func(t *testing.T) {
			st, r, _ := found(t.Context(), t, text)
			if n := len(st.events("launch")); r.Outcome != catalogue.OK || n != 3 {
				t.Errorf("%s, %d launches for 10, 20 and 40", r.Outcome, n)
			}
		})
	}
}
