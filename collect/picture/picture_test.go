package picture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// still is a picture of executions of a run with one axis.
func still(pairs ...collect.Pair) *Picture {
	run := &folder.Run{Dir: "/runs/s-20261130T120000Z", Plan: &plan.Plan{Axes: []plan.Axis{{Name: "n"}}, Spec: &plan.Spec{Repeats: 1}}}
	for i := range pairs {
		pairs[i].Point = plan.Point{ID: fmt.Sprintf("%016x", i), Values: []string{fmt.Sprint(i)}}
	}
	return &Picture{Run: run, Taken: noon, Set: &collect.Set{Pairs: pairs}}
}

// judged is an execution without a result whose task is in a state.
func judged(s collect.State) collect.Pair {
	p := collect.Pair{State: &s}
	p.Outcome, p.Reason = collect.Verdict(nil, s)
	return p
}

func pair(o catalogue.Outcome, reason string) collect.Pair {
	return collect.Pair{Outcome: o, Reason: reason}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	var pairs []collect.Pair
	for i := range 3000 {
		pairs = append(pairs, judged(collect.State{Word: "RUNNING", Node: fmt.Sprintf("n%d", i%7), Since: noon.Add(time.Duration(i%60) * time.Second)}))
	}
	for i := range 5 { // one more than is named: it is named too, as a line says no less
		pairs = append(pairs, judged(collect.State{Word: "FAILED", Exit: fmt.Sprintf("%d:0", i+1), Node: "n1", Since: noon, Tail: "core dumped"}))
	}
	pairs = append(pairs,
		judged(collect.State{Word: "PENDING", Reason: "too long (PartitionTimeLimit)", WontStart: true, Advice: "ask for less"}),
		judged(collect.State{Word: "PENDING", Reason: "jobs of higher priority come first (Priority)"}),
		pair(catalogue.OK, ""), pair(catalogue.Lost, "ended, no result written"), pair("novel", "of a later version"))
	p := still(pairs...)
	p.Lost = "Slurm forgets"
	tests := map[string]struct {
		o    Scope
		want string
	}{
		"as it is": {Usual, `3010 executions: 1 ok, 3000 running, 2 pending, 5 error, 1 lost, 1 novel

pending (1): will not start: too long (PartitionTimeLimit)
  to do: ask for less
  n=3005

running (3000)
  n=0   on n0 since 2026-11-30T12:00:00Z
  n=1   on n1 since 2026-11-30T12:00:01Z
  n=2   on n2 since 2026-11-30T12:00:02Z
  n=3   on n3 since 2026-11-30T12:00:03Z
  and 2996 more

pending (1): jobs of higher priority come first (Priority)
  n=3006

error (5), numbers differ: exit 1: core dumped
  n=3000   on n1 started 2026-11-30T12:00:00Z
  n=3001   on n1 started 2026-11-30T12:00:00Z
  n=3002   on n1 started 2026-11-30T12:00:00Z
  n=3003   on n1 started 2026-11-30T12:00:00Z
  n=3004   on n1 started 2026-11-30T12:00:00Z

lost (1): ended, no result written
  n=3008

novel (1): of a later version
  n=3009

Slurm forgets
`},
		"failed": {Failed, `3010 executions: 1 ok, 3000 running, 2 pending, 5 error, 1 lost, 1 novel

pending (1): will not start: too long (PartitionTimeLimit)
  to do: ask for less
  n=3005

error (5), numbers differ: exit 1: core dumped
  n=3000   on n1 started 2026-11-30T12:00:00Z
  n=3001   on n1 started 2026-11-30T12:00:00Z
  n=3002   on n1 started 2026-11-30T12:00:00Z
  n=3003   on n1 started 2026-11-30T12:00:00Z
  n=3004   on n1 started 2026-11-30T12:00:00Z

lost (1): ended, no result written
  n=3008

novel (1): of a later version
  n=3009

Slurm forgets
`},
	}
	for name, tt := range tests {
		var out bytes.Buffer
		if err := p.Write(&out, tt.o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var out bytes.Buffer
	if err := p.Write(&out, All); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n  n="); n != len(pairs) {
		t.Errorf("--all names %d of %d", n, len(pairs))
	}
}

// TestOrder: executions stand in the order of the axes, whatever order the plan has them run in, and the first one gives
// the reason.
func TestOrder(t *testing.T) {
	t.Parallel()
	p := still(pair(catalogue.Error, "exit 4"), pair(catalogue.Error, "exit 3"), pair(catalogue.Error, "exit 2"), pair(catalogue.Error, "exit 1"))
	p.Run.Plan.Axes[0].Values, p.Run.Plan.Spec.Repeats = []string{"9", "10"}, 2
	for i, point := range []string{plan.CaseMaxFit, "10", "9", "9"} {
		p.Set.Pairs[i].Point.Values, p.Set.Pairs[i].Repeat = []string{point}, 4-i
	}
	var out bytes.Buffer
	if err := p.Write(&out, Usual); err != nil {
		t.Fatal(err)
	}
	if want := "4 executions: 4 error\n\nerror (4), numbers differ: exit 1\n  n=9  repeat 1\n  n=9  repeat 2\n  n=10  repeat 3\n  n=max-fit  repeat 4\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		p    *Picture
		open bool
	}{
		"all well":          {still(pair(catalogue.OK, ""), pair(catalogue.Skipped, "above"), pair(catalogue.OOMDevice, "an answer")), false},
		"one still runs":    {still(pair(catalogue.Running, ""), pair(catalogue.Error, "")), true},
		"one waits":         {still(pair(catalogue.Pending, "Priority"), pair(catalogue.Lost, "")), true},
		"one never starts":  {still(pair(catalogue.OK, ""), judged(collect.State{Word: "PENDING", WontStart: true})), false},
		"one never went in": {still(pair(catalogue.Missing, "")), false},
	} {
		if got := tt.p.Open(); got != tt.open {
			t.Errorf("%s: open %v", name, got)
		}
	}
}

// TestJSON holds the names that programs rely on: a new one may come, none may go.
func TestJSON(t *testing.T) {
	t.Parallel()
	p := still(judged(collect.State{Word: "PENDING", Reason: "it is held <&>", WontStart: true, Advice: "release it", Attempt: 2}), pair(catalogue.OK, ""))
	p.Asked = true
	p.Set.Pairs[1].Result = &collect.Execution{Outcome: catalogue.OK, Attempt: 1, Host: "n1"}
	var out bytes.Buffer
	if err := p.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{
		"schema": 1, "run": "s-20261130T120000Z", "dir": "/runs/s-20261130T120000Z", "taken": "2026-11-30T12:00:00Z",
		"asked": true, "accounting": false, "open": false, "doubts": [], "counts": {"ok": 1, "pending": 1},
		"executions": [
			{"point": "0000000000000000", "values": {"n": "0"}, "repeat": 0, "array": 0, "task": 0, "outcome": "pending",
			 "reason": "will not start: it is held <&>", "state": "PENDING", "exit": null, "node": null, "since": null,
			 "attempt": 2, "wont_start": true, "advice": "release it"},
			{"point": "0000000000000001", "values": {"n": "1"}, "repeat": 0, "array": 0, "task": 0, "outcome": "ok",
			 "reason": null, "state": null, "exit": null, "node": "n1", "since": null, "attempt": 1, "wont_start": false, "advice": null}
		]}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "<&>") {
		t.Errorf("a reason is escaped: %s", out.String())
	}
}
