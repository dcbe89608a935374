package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/plan/folder/foldertest"
	"cpbench/slurm"
	"cpbench/slurm/submit"
	"cpbench/worker"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// pickRun is a run of four tasks in a folder whose name means something in a pattern.
func pickRun(t *testing.T) *folder.Run {
	t.Helper()
	const text = "version: 1\nname: s\nmatrix: {n: [1, 2, 3, 4]}\norder: as-written\nworkload: {kind: model, mode: inference, command: [x]}\n"
	return foldertest.New(t, text, foldertest.Options{Runs: filepath.Join(t.TempDir(), `[a-b] it's "*"?`)})
}

func TestBadNodes(t *testing.T) {
	t.Parallel()
	type past struct {
		task, attempt int
		outcome       catalogue.Outcome
		nodes, reason string
	}
	for _, tt := range []struct {
		name string
		past []past
		want []string
	}{
		{"once", []past{{0, 1, catalogue.Infra, "n1", ""}}, nil},
		{"two tasks", []past{{0, 1, catalogue.Infra, "n1", ""}, {1, 1, catalogue.DirtyGPU, "n1", ""}, {2, 1, catalogue.Infra, "n2", ""}}, []string{"n1"}},
		{"two tries of one", []past{{0, 1, catalogue.Infra, "n1", ""}, {0, 2, catalogue.Infra, "n1", ""}}, []string{"n1"}},
		{"not the node's fault", []past{{0, 1, catalogue.Error, "n1", ""}, {1, 1, catalogue.Cancelled, "n1", ""}}, nil},
		{"measured since", []past{{0, 1, catalogue.Infra, "n1", ""}, {0, 2, catalogue.Infra, "n1", ""}, {0, 3, catalogue.OK, "n2", ""}}, nil},
		{"several nodes tell nothing", []past{{0, 1, catalogue.Infra, "n[1-2]", ""}, {1, 1, catalogue.Infra, "n[1-2]", ""}}, nil},
		{"given up elsewhere", []past{{0, 1, catalogue.Infra, "n1", worker.StartedAgain + " 2 times"}, {1, 1, catalogue.Infra, "n1", worker.StartedAgain + " 2 times"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := pickRun(t)
			tasks, err := run.Tasks(0)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range tt.past {
				pair := tasks[p.task].Pairs[0]
				r := &result.Result{
					Schema: result.Schema, Plan: run.Plan.Digest, Key: run.Plan.Key, Run: run.Name(), Point: pair.ID, Repeat: pair.Repeat,
					Attempt: p.attempt, Task: p.task, Outcome: p.outcome, Reason: p.reason,
					Provenance: map[string]string{"host": "x", "slurm_nodes": p.nodes}, Started: time.Now(), Ended: time.Now(),
				}
				for _, param := range run.Plan.Params(pair.Point) {
					r.Params = append(r.Params, result.Param(param))
				}
				if err := result.Write(run.ResultsDir(), r); err != nil {
					t.Fatal(err)
				}
			}
			set, err := collect.Load([]*folder.Run{run})
			if err != nil {
				t.Fatal(err)
			}
			session, err := submit.Open(t.Context(), &slurm.Slurm{}, run, func(format string, args ...any) { t.Logf(format, args...) })
			if err != nil {
				t.Fatal(err)
			}
			got, err := badNodes(session, set)
			if err != nil || session.Close() != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.Transformer("list", func(s []string) string { return fmt.Sprint(s) })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	retry := plan.Retry{Max: 1, On: []string{"node_fail", "timeout", "infra"}}
	for _, tt := range []struct {
		flags   submitOptions
		asked   bool
		outcome catalogue.Outcome
		want    reason
	}{
		{submitOptions{}, true, catalogue.OK, nothing},
		{submitOptions{}, true, catalogue.Missing, byHand},
		{submitOptions{}, true, catalogue.Infra, byHand},
		{submitOptions{}, true, catalogue.Timeout, byRetry},
		{submitOptions{}, true, catalogue.Error, nothing},
		{submitOptions{onlyMissing: true}, true, catalogue.Lost, byHand},
		{submitOptions{onlyMissing: true}, true, catalogue.Timeout, nothing},
		{submitOptions{onlyFailed: "timeout"}, true, catalogue.Timeout, byHand},
		{submitOptions{onlyFailed: "timeout"}, true, catalogue.Missing, nothing},
		{submitOptions{onlyFailed: "error"}, true, catalogue.Timeout, nothing},
		// Of what the job that collects finds beside the tasks that had no room, only retry counts.
		{submitOptions{}, false, catalogue.Missing, nothing},
		{submitOptions{}, false, catalogue.Infra, byRetry},
		{submitOptions{onlyMissing: true}, false, catalogue.Timeout, byRetry},
		{submitOptions{onlyFailed: "error"}, false, catalogue.Error, nothing},
		{submitOptions{onlyFailed: "error"}, false, catalogue.Timeout, byRetry},
	} {
		if got := tt.flags.choose(tt.outcome, retry, tt.asked); got != tt.want {
			t.Errorf("%+v asked %v, %s: %d, want %d", tt.flags, tt.asked, tt.outcome, got, tt.want)
		}
	}
}
