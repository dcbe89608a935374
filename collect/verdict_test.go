package collect

import (
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

func of(outcome catalogue.Outcome) *result.Result {
	r := &result.Result{Outcome: outcome, Attempt: 1}
	if !outcome.Fits() {
		r.Reason = "says the worker"
	}
	return r
}

// TestVerdict holds a line for every row of the table of verdicts.
func TestVerdict(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name   string
		r      *result.Result
		s      State
		want   catalogue.Outcome
		reason string
	}{
		{"ok, completed", of(catalogue.OK), State{Word: "COMPLETED", Exit: "0:0"}, catalogue.OK, ""},
		{"ok, running", of(catalogue.OK), State{Word: "RUNNING"}, catalogue.OK, ""},
		{"ok, nothing known", of(catalogue.OK), State{}, catalogue.OK, ""},
		{"ok, odd end", of(catalogue.OK), State{Word: "FAILED", Exit: "1:0"}, catalogue.OK, "the task ended as FAILED 1:0 after this point"},
		{"ok, node failed", of(catalogue.OK), State{Word: "NODE_FAIL"}, catalogue.OK, "the task ended as NODE_FAIL after this point"},
		{"ok, word of a later Slurm", of(catalogue.OK), State{Word: "EVAPORATED"}, catalogue.OK, "the task ended as EVAPORATED after this point"},
		{"ok, timeout", of(catalogue.OK), State{Word: "TIMEOUT", Exit: "0:0"}, catalogue.OK, "the task ran over its time limit after this point"},
		{"ok, oom explained", of(catalogue.OK), State{Word: "OUT_OF_MEMORY", Exit: "0:125", KillExplained: true}, catalogue.OK, "the task ended as OUT_OF_MEMORY 0:125 after this point"},
		{"ok, oom", of(catalogue.OK), State{Word: "OUT_OF_MEMORY", Node: "n7"}, catalogue.Error, "a process of the task was killed for host memory on n7"},

		{"oom in the file, completed", of(catalogue.OOMDevice), State{Word: "COMPLETED"}, catalogue.OOMDevice, "says the worker"},
		{"error in the file, timeout", of(catalogue.Error), State{Word: "TIMEOUT"}, catalogue.Error, "says the worker"},
		{"unknown outcome in the file", of("melted"), State{Word: "COMPLETED"}, "melted", "says the worker"},
		{"evidence of a size that does not fit", &result.Result{Outcome: catalogue.OOMDevice, Attempt: 1, Reason: "exit code 1", Evidence: "torch.OutOfMemoryError: tried to allocate"}, State{}, catalogue.OOMDevice, "exit code 1: torch.OutOfMemoryError: tried to allocate"},
		{"evidence where no reason is", &result.Result{Outcome: catalogue.Hang, Attempt: 1, Evidence: "line 1\nlast line\n"}, State{}, catalogue.Hang, "last line"},

		{"cancelled, timeout", of(catalogue.Cancelled), State{Word: "TIMEOUT", Node: "n7", Since: since}, catalogue.Timeout, "the task reached its time limit on n7 at 2026-01-02T03:04:05Z"},
		{"cancelled, preempted", of(catalogue.Cancelled), State{Word: "PREEMPTED", Node: "n7"}, catalogue.Infra, "preempted on n7"},
		{"cancelled, node failed", of(catalogue.Cancelled), State{Word: "NODE_FAIL"}, catalogue.Infra, "node_fail"},
		{"cancelled, cancelled", of(catalogue.Cancelled), State{Word: "CANCELLED by 1000", Node: "n7"}, catalogue.Cancelled, "stopped; the task is CANCELLED by 1000 on n7"},
		{"cancelled, nothing known", of(catalogue.Cancelled), State{}, catalogue.Cancelled, "says the worker"},

		{"pending", nil, State{Word: "PENDING", Reason: "Priority"}, catalogue.Pending, "Priority"},
		{"pending for ever", nil, State{Word: "PENDING", Reason: "PartitionTimeLimit", WontStart: true}, catalogue.Pending, "will not start: PartitionTimeLimit"},
		{"requeued", nil, State{Word: "REQUEUED"}, catalogue.Pending, ""},
		{"configuring", nil, State{Word: "CONFIGURING"}, catalogue.Running, ""},
		{"running", nil, State{Word: "RUNNING", Node: "n7", Since: since}, catalogue.Running, "on n7 at 2026-01-02T03:04:05Z"},
		{"suspended", nil, State{Word: "SUSPENDED"}, catalogue.Running, ""},
		{"completing", nil, State{Word: "COMPLETING"}, catalogue.Running, ""},
		{"oom", nil, State{Word: "OUT_OF_MEMORY", Node: "n7", Memory: "64G"}, catalogue.OOMHost, "killed for host memory, witness: the scheduler on n7, asked for 64G"},
		{"timeout", nil, State{Word: "TIMEOUT"}, catalogue.Timeout, "killed before it could write"},
		{"node failed", nil, State{Word: "NODE_FAIL", Node: "n7"}, catalogue.Infra, "node_fail on n7"},
		{"boot failed", nil, State{Word: "BOOT_FAIL"}, catalogue.Infra, "boot_fail"},
		{"preempted", nil, State{Word: "PREEMPTED"}, catalogue.Infra, "preempted"},
		{"cancelled before start", nil, State{Word: "CANCELLED by 1000"}, catalogue.Cancelled, "CANCELLED by 1000 before its start"},
		{"cancelled after start", nil, State{Word: "CANCELLED by 1000", Started: true, Node: "n7"}, catalogue.Cancelled, "CANCELLED by 1000 after its start on n7"},
		{"deadline after start", nil, State{Word: "DEADLINE", Started: true}, catalogue.Timeout, "DEADLINE"},
		{"deadline before start", nil, State{Word: "DEADLINE"}, catalogue.Cancelled, "DEADLINE before its start"},
		{"no log folder", nil, State{Word: "FAILED", Exit: "0:53"}, catalogue.Infra, "the log folder is missing or not writable"},
		{"exit 7", nil, State{Word: "FAILED", Exit: "7:0", Tail: "no such module"}, catalogue.Error, "exit 7: no such module"},
		{"signal 11", nil, State{Word: "FAILED", Exit: "0:11", Node: "n7"}, catalogue.Error, "signal 11 on n7"},
		{"signal 9", nil, State{Word: "FAILED", Exit: "0:9"}, catalogue.Error, "killed; nothing witnessed a lack of memory"},
		{"ended by Slurm for its memory", nil, State{Word: "FAILED", Exit: "0:9", Node: "n7", Memory: "50M", Tail: "slurmstepd-n7: error: Exceeded job memory limit"}, catalogue.OOMHost, "killed for host memory, witness: the scheduler on n7, asked for 50M: slurmstepd-n7: error: Exceeded job memory limit"},
		{"a set-up line speaks of memory", nil, State{Word: "FAILED", Exit: "0:9", Tail: "echo: Exceeded job memory limit"}, catalogue.Error, "killed; nothing witnessed a lack of memory: echo: Exceeded job memory limit"},
		{"exit 137", nil, State{Word: "FAILED", Exit: "137:0"}, catalogue.Error, "killed; nothing witnessed a lack of memory"},
		{"failed, no code", nil, State{Word: "FAILED"}, catalogue.Error, "failed, exit code unknown"},
		{"completed, in grace", nil, State{Word: "COMPLETED", InGrace: true}, catalogue.Running, "ended a moment ago; its file may not be visible yet"},
		{"completed", nil, State{Word: "COMPLETED"}, catalogue.Lost, "ended, no result written"},
		{"word of a later Slurm", nil, State{Word: "EVAPORATED"}, catalogue.Lost, "no result, and the state EVAPORATED is not known to cpbench"},
		{"submitted, task not known", nil, State{Submitted: true}, catalogue.Lost, "submitted, but the scheduler no longer knows the task: cancelled before its start, or forgotten"},
		{"submitted a moment ago", nil, State{Submitted: true, InGrace: true}, catalogue.Pending, "submitted a moment ago; the scheduler does not show the task yet"},
		{"submitted and started, task not known", nil, State{Submitted: true, Started: true, Node: "n7"}, catalogue.Lost, "started on n7, left no result, and the scheduler no longer knows the task"},
		{"never submitted", nil, State{}, catalogue.Missing, "never started: no worker has left a log"},
		{"nothing at all", nil, State{}, catalogue.Missing, "never started: no worker has left a log"},
		{"from files: started", nil, State{Started: true, Node: "n7", Since: since}, catalogue.Missing, "running or killed: started on n7 at 2026-01-02T03:04:05Z, left no result"},

		{"newer attempt waits", of(catalogue.Error), State{Word: "PENDING", Attempt: 2, Reason: "Priority"}, catalogue.Pending, "Priority"},
		{"newer attempt runs", of(catalogue.OOMDevice), State{Word: "RUNNING", Attempt: 2}, catalogue.Running, ""},
		{"newer restart runs", of(catalogue.Cancelled), State{Word: "RUNNING", Attempt: 1, Restart: 1}, catalogue.Running, ""},
		{"newer attempt waits, older is ok", of(catalogue.OK), State{Word: "PENDING", Attempt: 2}, catalogue.OK, ""},
		{"newer attempt killed, older is ok", of(catalogue.OK), State{Word: "OUT_OF_MEMORY", Attempt: 2}, catalogue.OK, ""},
		{"newer attempt ended without a result, older counts", of(catalogue.OOMDevice), State{Word: "TIMEOUT", Attempt: 2}, catalogue.OOMDevice, "says the worker"},
		{"an older attempt was killed, newer is ok", &result.Result{Outcome: catalogue.OK, Attempt: 2}, State{Word: "OUT_OF_MEMORY", Attempt: 1}, catalogue.OK, ""},
		{"an older attempt ran over, newer was stopped", &result.Result{Outcome: catalogue.Cancelled, Attempt: 2, Reason: "by TERM"}, State{Word: "TIMEOUT", Attempt: 1, Restart: 1}, catalogue.Cancelled, "by TERM"},
		{"an older restart lost its node", &result.Result{Outcome: catalogue.OK, Attempt: 1, Restart: 1}, State{Word: "NODE_FAIL", Attempt: 1}, catalogue.OK, ""},
		{"newer attempt ended without a result, older counts for nothing", of(catalogue.Infra), State{Word: "TIMEOUT", Attempt: 2}, catalogue.Timeout, "killed before it could write"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, reason := Verdict(tt.r, tt.s)
			if got != tt.want || reason != tt.reason {
				t.Errorf("Verdict = %s, %q\nwant %s, %q", got, reason, tt.want, tt.reason)
			}
		})
	}
}

// TestVerdictOnlyOKFits: nothing but an ok in the file is ever ok, whatever the scheduler says.
func TestVerdictOnlyOKFits(t *testing.T) {
	t.Parallel()
	states := []string{"", "EVAPORATED"}
	for w := range words {
		states = append(states, w)
	}
	for _, m := range append(catalogue.Outcomes(), catalogue.Meaning{}) {
		var r *result.Result
		if m.Outcome != "" {
			r = of(m.Outcome)
		}
		for _, w := range states {
			for attempt := range 3 {
				got, _ := Verdict(r, State{Word: w, Exit: "0:0", Attempt: attempt})
				if got.Fits() && m.Outcome != catalogue.OK {
					t.Errorf("%q with state %q, attempt %d is ok", m.Outcome, w, attempt)
				}
				if m.Outcome == catalogue.OK && !got.Fits() && !strings.HasPrefix(w, "OUT_OF_MEMORY") {
					t.Errorf("ok with state %q, attempt %d is %s", w, attempt, got)
				}
			}
		}
	}
}

func TestTaskVerdicts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		results []*result.Result
		s       State
		want    []catalogue.Outcome
		last    string // reason of the last
	}{
		{"never started", make([]*result.Result, 2), State{}, []catalogue.Outcome{catalogue.Missing, catalogue.Missing}, "never started: no worker has left a log"},
		{"waits", make([]*result.Result, 2), State{Word: "PENDING", Reason: "Priority"}, []catalogue.Outcome{catalogue.Pending, catalogue.Pending}, "Priority"},
		{"runs", []*result.Result{of(catalogue.OK), nil, nil}, State{Word: "RUNNING"}, []catalogue.Outcome{catalogue.OK, catalogue.Running, catalogue.Pending}, "later in a running task"},
		{"killed", []*result.Result{of(catalogue.OK), nil, nil}, State{Word: "OUT_OF_MEMORY"}, []catalogue.Outcome{catalogue.OK, catalogue.OOMHost, catalogue.Missing}, notReached},
		{"started, from files", []*result.Result{of(catalogue.OOMDevice), nil, nil}, State{Started: true}, []catalogue.Outcome{catalogue.OOMDevice, catalogue.Missing, catalogue.Missing}, notReached},
		{"cancelled before its start", make([]*result.Result, 2), State{Word: "CANCELLED by 0", Submitted: true}, []catalogue.Outcome{catalogue.Cancelled, catalogue.Cancelled}, "CANCELLED by 0 before its start"},
		{"ended a moment ago", make([]*result.Result, 2), State{Word: "COMPLETED", Started: true, InGrace: true}, []catalogue.Outcome{catalogue.Running, catalogue.Running}, "ended a moment ago; its file may not be visible yet"},
		{
			"a newer attempt runs",
			[]*result.Result{of(catalogue.Infra), of(catalogue.Cancelled), nil},
			State{Word: "RUNNING", Started: true, Attempt: 2},
			[]catalogue.Outcome{catalogue.Running, catalogue.Pending, catalogue.Pending},
			"later in a running task",
		},
		{
			"a newer attempt is at what is not done",
			[]*result.Result{of(catalogue.OOMDevice), nil},
			State{Word: "RUNNING", Started: true, Attempt: 2},
			[]catalogue.Outcome{catalogue.Pending, catalogue.Running},
			"",
		},
		{
			"a newer attempt ended early",
			[]*result.Result{of(catalogue.Infra), of(catalogue.Infra), nil},
			State{Word: "TIMEOUT", Started: true, Attempt: 2},
			[]catalogue.Outcome{catalogue.Timeout, catalogue.Infra, catalogue.Missing},
			notReached,
		},
		{
			"stopped in order at its own limit",
			[]*result.Result{of(catalogue.OK), of(catalogue.Timeout), nil, nil},
			State{Word: "COMPLETED", Started: true, Attempt: 1},
			[]catalogue.Outcome{catalogue.OK, catalogue.Timeout, catalogue.Missing, catalogue.Missing},
			notReached,
		},
		{
			"stopped by a signal, from files",
			[]*result.Result{of(catalogue.OK), of(catalogue.Cancelled), nil},
			State{Started: true, Attempt: 1},
			[]catalogue.Outcome{catalogue.OK, catalogue.Cancelled, catalogue.Missing},
			notReached,
		},
		{
			"killed behind a time-out of its own, from files",
			[]*result.Result{of(catalogue.Timeout), nil},
			State{Started: true, Attempt: 1},
			[]catalogue.Outcome{catalogue.Timeout, catalogue.Missing},
			"running or killed: started, left no result",
		},
		{
			"stopped at the job's limit",
			[]*result.Result{of(catalogue.Cancelled), nil},
			State{Word: "TIMEOUT", Started: true, Attempt: 1},
			[]catalogue.Outcome{catalogue.Timeout, catalogue.Missing},
			notReached,
		},
		{
			"stopped a moment ago",
			[]*result.Result{of(catalogue.Timeout), nil},
			State{Word: "COMPLETED", Started: true, Attempt: 1, InGrace: true},
			[]catalogue.Outcome{catalogue.Timeout, catalogue.Running},
			"ended a moment ago; its file may not be visible yet",
		},
		{
			"killed behind one that had its own time-out",
			[]*result.Result{of(catalogue.Timeout), nil},
			State{Word: "FAILED", Exit: "0:9", Started: true, Attempt: 1},
			[]catalogue.Outcome{catalogue.Timeout, catalogue.Error},
			"killed; nothing witnessed a lack of memory",
		},
		{
			"a newer attempt was stopped before it began",
			[]*result.Result{of(catalogue.Timeout), nil},
			State{Word: "TIMEOUT", Started: true, Attempt: 2},
			[]catalogue.Outcome{catalogue.Timeout, catalogue.Timeout},
			"killed before it could write",
		},
		{"a gap", []*result.Result{nil, of(catalogue.OK), nil}, State{Word: "TIMEOUT"}, []catalogue.Outcome{catalogue.Timeout, catalogue.OK, catalogue.Missing}, notReached},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, reasons := taskVerdicts(tt.results, tt.s)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if last := reasons[len(reasons)-1]; last != tt.last {
				t.Errorf("last reason = %q, want %q", last, tt.last)
			}
		})
	}
}
