package search

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	peak := 7.5
	noMemory := Failure{catalogue.OOMComm, "rank 1 ran out of memory", "NCCL WARN Cuda failure 'out of memory'"}
	broken := Failure{catalogue.ErrorKernel, "rank 0 failed", "an illegal memory access"}
	tests := []struct {
		name     string
		answer   Answer
		last     Failure
		outcome  catalogue.Outcome
		reason   string
		evidence string
		tokens   *int64
		warnings []catalogue.Code
	}{
		{
			"closed",
			Answer{Fits: n(20), OOM: n(30), Ended: Closed, Confirmed: 1, Confirms: 1, PeakBytes: &peak},
			noMemory,
			catalogue.OK, "", noMemory.Evidence, n(20), nil,
		},
		{
			"limited by the host",
			Answer{Fits: n(20), OOM: n(30), Ended: Closed, Confirmed: 1, Confirms: 1},
			Failure{catalogue.OOMHost, "the kernel killed", "oom_kill +1"},
			catalogue.OK, "", "oom_kill +1", n(20),
			[]catalogue.Code{catalogue.HostMemory},
		},
		{"floor", Answer{OOM: n(10), Ended: Floor, Confirms: 1}, noMemory, catalogue.OOMComm, "", noMemory.Evidence, nil, nil},
		{"no confirmation", Answer{Fits: n(20), Ended: TimeLimit, Confirms: 2, Confirmed: 1, Reason: "no time"}, Failure{}, catalogue.OK, "no time", "", n(20), []catalogue.Code{catalogue.Unconfirmed}},
		{
			"unstable",
			Answer{Fits: n(20), OOM: n(30), Ended: Unstable, Confirms: 1},
			noMemory,
			catalogue.OK, "", noMemory.Evidence, n(20),
			[]catalogue.Code{catalogue.Unstable},
		},
		{
			"not monotone",
			Answer{Fits: n(20), OOM: n(30), Above: n(40), NonMonotone: true, Ended: NonMonotone, Confirmed: 1, Confirms: 1},
			noMemory,
			catalogue.OK, "", noMemory.Evidence, n(20),
			[]catalogue.Code{catalogue.NonMonotone},
		},
		{
			"a size below that could not be verified",
			Answer{Fits: n(20), OOM: n(30), Ended: Closed, Verified: 1, Verifies: 2, Reserve: n(10), Doubtful: []Trial{{N: 10, Outcome: catalogue.Timeout, Verify: true}}},
			noMemory,
			catalogue.OK, "", noMemory.Evidence, n(20),
			[]catalogue.Code{catalogue.Unverified},
		},
		{
			"slow from the first size on",
			Answer{Ended: TimeLimit, Cause: catalogue.Slow, Reason: "steps at size 10 take longer than workload.slow_after"},
			Failure{catalogue.Slow, "a step took 3 s, more than workload.slow_after (1s)", ""},
			catalogue.Slow, "a step took 3 s, more than workload.slow_after (1s)", "", nil, nil,
		},
		{
			"slow above a size that fits",
			Answer{Fits: n(20), Ended: TimeLimit, Cause: catalogue.Slow, Reason: "steps at size 30 take longer than workload.slow_after"},
			Failure{catalogue.Slow, "a step took 3 s", ""},
			catalogue.OK, "steps at size 30 take longer than workload.slow_after", "", n(20), nil,
		},
		{"aborted", Answer{Fits: n(20), Ended: Aborted, Cause: catalogue.ErrorKernel, Confirmed: 1, Confirms: 1}, broken, catalogue.ErrorKernel, broken.Reason, broken.Evidence, n(20), nil},
		{
			"another limit at once",
			Answer{Limit: n(10), Ended: LimitOther, Cause: catalogue.TooBig},
			Failure{catalogue.TooBig, "exit code 1", "Invalid buffer size"},
			catalogue.TooBig, "exit code 1", "Invalid buffer size", nil, nil,
		},
		{"nothing tried", Answer{Ended: Aborted}, Failure{}, catalogue.Error, "no size was tried", "", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rep := Report{Axis: "tokens", Hint: 40}
			rep.Note(Trial{N: 20, Outcome: ok, PeakBytes: &peak, Seconds: 2, Fresh: true}, Failure{}, result.Sizes{Tokens: n(20), PaddedTokens: n(32), Ranks: 4})
			if tt.last.Outcome != "" {
				rep.Note(Trial{N: 30, Outcome: tt.last.Outcome, Seconds: 1, Confirm: true}, tt.last, result.Sizes{Tokens: n(30), Ranks: 4})
			}
			r := &result.Result{Sizes: result.Sizes{Tokens: n(30), Ranks: 4}}
			rep.fill(r, tt.answer)
			if r.Outcome != tt.outcome || r.Reason != tt.reason || r.Evidence != tt.evidence {
				t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
			}
			if diff := cmp.Diff(tt.tokens, r.Sizes.Tokens); diff != "" || r.Sizes.Ranks != 4 {
				t.Errorf("sizes %+v: %s", r.Sizes, diff)
			}
			var codes []catalogue.Code
			for _, w := range r.Warnings {
				codes = append(codes, w.Code)
			}
			if !slices.Equal(codes, tt.warnings) {
				t.Errorf("warnings %v, want %v", codes, tt.warnings)
			}
			m := r.MaxFit
			if m.Verified != tt.answer.Verified || m.Verifies != tt.answer.Verifies || m.Reserve != tt.answer.Reserve || *m.Hint != 40 {
				t.Errorf("verified %d of %d, reserve %v, hint %v", m.Verified, m.Verifies, m.Reserve, m.Hint)
			}
			if m.Axis != "tokens" || m.Ended != string(tt.answer.Ended) || m.Fits != tt.answer.Fits || m.PeakBytes != tt.answer.PeakBytes || r.Metrics[catalogue.PeakAllocatedBytes] != tt.answer.PeakBytes {
				t.Errorf("bracket %+v", m)
			}
			if want := (result.Trial{N: 20, Outcome: ok, Peak: &peak, Seconds: 2, Fresh: true}); !cmp.Equal(m.Trials[0], want) || len(m.Trials) != len(rep.Trials) {
				t.Errorf("trials %+v", m.Trials)
			}
		})
	}
}

// A search that is cut short keeps its bracket and says what ended it.
func TestCut(t *testing.T) {
	t.Parallel()
	cfg := Config{From: 10, To: 640, Step: 10, Confirm: 1}
	known := []Trial{{N: 10, Outcome: ok, Fresh: true, Seconds: 1}, {N: 20, Outcome: ok, Seconds: 1}}
	stop := errors.New("stopped by a signal")
	for _, tt := range []struct {
		name    string
		cause   error // nil: the context goes on
		known   []Trial
		outcome catalogue.Outcome
		reason  string
		ended   Ended
	}{
		{"a signal", stop, known, catalogue.Cancelled, stop.Error(), Aborted},
		{"its own time", timeUp{time.Second}, known, ok, "the search took longer than workload.max_fit.time (1s)", TimeLimit},
		{"its own time, first trial", timeUp{time.Second}, nil, catalogue.Timeout, "the search took longer than workload.max_fit.time (1s)", TimeLimit},
		{"wrong configuration", nil, nil, catalogue.Error, "the search cannot be carried out", Aborted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.cause != nil {
				cancel(tt.cause)
			}
			r := &result.Result{}
			rep := Report{}
			for _, trial := range tt.known {
				rep.Note(trial, Failure{}, result.Sizes{})
			}
			rep.fill(r, soFar(cfg, tt.known))
			cut(ctx, r, errors.New("size 40: cut"))
			if r.Outcome != tt.outcome || r.Reason != tt.reason || r.MaxFit.Ended != string(tt.ended) {
				t.Errorf("%s: %q, %s", r.Outcome, r.Reason, r.MaxFit.Ended)
			}
			if tt.known != nil && (r.MaxFit.Fits == nil || *r.MaxFit.Fits != 20) {
				t.Errorf("fits %v", r.MaxFit.Fits)
			}
		})
	}
}
