package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// The reference model on four ranks, through the worker: a whole result with its sidecar.
func TestPointOfTheReferenceModel(t *testing.T) {
	st := newStage(t, refer(4, "", "topology: 2d"))
	err := worker.Run(t.Context(), worker.Config{Run: st.run, Digest: st.run.Plan.Digest, Attempt: 1, Workload: Open, Version: "v0"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := worker.Last(st.run, st.task.Pairs[0])
	if err != nil || r == nil {
		t.Fatalf("no result: %v", err)
	}
	if r.Outcome != catalogue.OK || r.Reason != "" || r.Evidence != "" {
		t.Errorf("%s: %s: %s", r.Outcome, r.Reason, r.Evidence)
	}
	for _, name := range []string{
		catalogue.StepSeconds, catalogue.FirstStepSeconds, catalogue.LaunchSeconds, catalogue.PrepareSeconds,
		catalogue.PeakAllocatedBytes, catalogue.WarmAllocatedBytes, catalogue.RankImbalance,
	} {
		if v := r.Metrics[name]; v == nil || *v < 0 || *v == 0 && name != catalogue.RankImbalance {
			t.Errorf("%s = %v", name, v)
		}
	}
	for _, name := range []string{catalogue.PeakReservedBytes, catalogue.PeakDeviceBytes} { // a CPU has none: null, never 0
		if v, ok := r.Metrics[name]; !ok || v != nil {
			t.Errorf("%s = %v, %v; want null", name, v, ok)
		}
	}
	if r.Steps == nil || r.Steps.N != 5 || r.Steps.Warmup < 2 || *r.Metrics[catalogue.StepSeconds] != r.Steps.Median {
		t.Errorf("steps = %+v", r.Steps)
	}
	want := result.Sizes{Tokens: ptr(int64(16)), PaddedTokens: ptr(int64(16)), MSA: ptr(int64(8)), Ranks: 4, Topology: "2d"}
	if diff := cmp.Diff(want, r.Sizes); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	if !warned(r, catalogue.ReferenceModel) || r.Provenance["device"] != "reference model (CPU)" {
		t.Errorf("warnings %v, provenance %v", r.Warnings, r.Provenance)
	}
	if facts, err := result.ReadFacts(filepath.Join(st.run.LogDir(0, 0, 1, 0), folder.FactsFile)); err != nil || facts.Of(r)["setting memory"] != "262144" {
		t.Errorf("provenance of the task: %+v, %v", facts, err)
	}
	samples, err := filepath.Glob(filepath.Join(st.run.ResultsDir(), "*", "*"+result.SamplesExt))
	if err != nil || len(samples) != 1 {
		t.Fatalf("sidecars: %v, %v", samples, err)
	}
	text, err := os.ReadFile(samples[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var last result.Sample
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 5 || last.Iteration != 5 || len(last.Seconds) != 4 {
		t.Errorf("%d lines, the last %+v, %v", len(lines), last, err)
	}
}

// What known ranks report becomes known numbers.
func TestNumbers(t *testing.T) {
	st := newStage(t, play(2, "device", "1"))
	r, samples, _ := st.perform(t.Context(), 0)
	if diff := cmp.Diff(result.Sizes{Tokens: ptr(int64(16)), PaddedTokens: ptr(int64(20)), MSA: ptr(int64(8)), Ranks: 2, Topology: "1d"}, r.Sizes); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	want := map[string]float64{
		catalogue.StepSeconds: 0.5, catalogue.FirstStepSeconds: 0.5, catalogue.DeviceStepSeconds: 0.125, catalogue.PrepareSeconds: 0.5,
		catalogue.PeakAllocatedBytes: 1001, catalogue.PeakReservedBytes: 2001, catalogue.PeakDeviceBytes: 3001,
		catalogue.WarmAllocatedBytes: 501, catalogue.RankImbalance: 1,
	}
	for name, v := range want {
		if got := r.Metrics[name]; got == nil || *got != v {
			t.Errorf("%s = %v, want %v", name, got, v)
		}
	}
	if r.Outcome != catalogue.OK || r.Steps.Slowest != 1 || r.Steps.Steady != "yes" || len(samples) != 5 || len(samples[0].DeviceSeconds) != 2 {
		t.Errorf("%s, %+v, %v", r.Outcome, r.Steps, samples)
	}
	if diff := cmp.Diff([]result.Figure{{Name: "loss", Value: 0, Unit: "1"}}, r.Extra); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	facts := map[string]string{"host": "here", "torch": "2.9", "setting alloc": "expandable", "device": "H200 + H100"}
	if diff := cmp.Diff(facts, r.Provenance); diff != "" {
		t.Errorf("provenance (-want +got):\n%s", diff)
	}
}

// A peak that was not told is null: that of an earlier step must not stand for it.
func TestPeakIsThatOfItsSteps(t *testing.T) {
	_, r, _ := only(t, play(1, "no-memory", "0"))
	if r.Outcome != catalogue.OK || r.Metrics[catalogue.PeakAllocatedBytes] == nil || r.Metrics[catalogue.WarmAllocatedBytes] != nil {
		t.Errorf("%s, %v", r.Outcome, r.Metrics)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SLURM_PROCID", "3")
	t.Setenv("SLURM_STEP_ID", "0")
	t.Setenv("SLURM_JOB_ID", "17")
	t.Setenv("PYTHONPATH", "/site")
	text := play(2, "env", "all", `env: {TOKENS: "{tokens}", PYTHONPATH: "/own:/more"}`)
	st, r, _ := only(t, text)
	if r.Outcome != catalogue.OK {
		t.Fatal(r.Outcome)
	}
	for rank := range 2 {
		out := st.output(rank)
		for _, want := range []string{
			"RANK=" + string('0'+rune(rank)), "LOCAL_RANK=" + string('0'+rune(rank)), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
			"PYTHONPATH=" + st.run.Lib() + ":/own:/more", "TOKENS=16", "SLURM_JOB_ID=17",
		} {
			if !strings.Contains(out, "\n"+want+"\n") {
				t.Errorf("rank %d lacks %s", rank, want)
			}
		}
		for _, not := range []string{"SLURM_PROCID", "SLURM_STEP_ID"} {
			if strings.Contains(out, not) {
				t.Errorf("rank %d has %s", rank, not)
			}
		}
		if !strings.HasPrefix(out, "== point "+st.task.Pairs[0].ID+" repeat 1, 20") {
			t.Errorf("rank %d: log begins with %.60q", rank, out)
		}
	}
}

// The token opens the door to the worker: it stands in no file of the run.
func TestTokenIsKeptSecret(t *testing.T) {
	told := filepath.Join(t.TempDir(), "token")
	t.Setenv("TOKEN_FILE", told)
	st := newStage(t, play(1, "tell-token", "0"))
	if r, _, _ := st.perform(t.Context(), 0); r.Outcome != catalogue.OK {
		t.Fatal(r.Outcome)
	}
	text, err := os.ReadFile(told)
	token := string(text)
	if err != nil || len(token) != 32 {
		t.Fatalf("%v, token of %d characters", err, len(token))
	}
	err = filepath.WalkDir(st.run.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), token) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil || strings.Contains(st.log.String(), token) {
		t.Errorf("%v, or the events hold the token", err)
	}
}

func ptr[T any](v T) *T { return &v }
