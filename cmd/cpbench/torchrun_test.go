package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/plan/suite"
	"cpbench/slurm/slurmtest"
)

// torchrunPython is a Python whose torch has a working torchrun: that of CPBENCH_TEST_TORCHRUN, or the one that
// `make torch-latest` installs. Debian's own torch has none that works on its Python.
func torchrunPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("CPBENCH_TEST_TORCHRUN")
	if python == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		python = filepath.Join(cache, "cpbench", "torch", "bin", "python")
	}
	if err := exec.CommandContext(t.Context(), python, "-c", "import torch.distributed.run").Run(); err != nil {
		suite.Missing(t, "torchrun", "no torchrun: %s: %v; make torch-latest installs it", python, err)
	}
	return python
}

// pairformer is a sweep of the shipped model under torchrun: cp = 1, 2 on a 1-D and 4 on a 2-D mesh.
const pairformer = `version: 1
name: pairformer
matrix: {cp: [1, 2, 4], tokens: [16, 32]}
derive: {mesh: "cp == 2 ? '1d' : '2d'", nodes: NODES}
workload:
  kind: model
  mode: inference
  command: [PYTHON, -m, cpbench_torch, pairformer_hooks, device=cpu, memory=48MiB, channels=16]
  files: [pairformer_hooks.py, pairformer.py]
  launcher: torchrun
  ranks: cp
  topology: "{mesh}"
  point: {tokens: tokens}
  dtype: fp32
  warmup: 1
  iterations: 5
  timeout: 4m
  max_fit: {axis: tokens, from: 32, to: 512, step: 32, tolerance: 30%, time: 12m}
resources: {nodes: nodes, time: 20m, cpus_per_task: 4, mem: 7000M}
env: {OMP_NUM_THREADS: "1"}
`

func (s *site) pairformer(python, nodes string) {
	s.Helper()
	for _, name := range []string{"pairformer_hooks.py", "pairformer.py"} {
		text, err := os.ReadFile("../../configs/pairformer/" + name)
		if err != nil {
			s.Fatal(err)
		}
		s.spec(name, string(text))
	}
	s.spec("sweep.yaml", strings.NewReplacer("PYTHON", python, "NODES", nodes).Replace(pairformer))
}

// checkPairformer checks that every point was measured and that the largest N grows with the mesh.
func (s *site) checkPairformer() {
	s.Helper()
	fits := map[string]string{}
	for _, row := range s.raw() {
		if row["outcome"] != "ok" && row["outcome"] != "skipped" {
			s.Errorf("cp=%s tokens=%s: %s (%s)", row["axis cp"], row["axis tokens"], row["outcome"], row["reason"])
		}
		if row["case"] != "" {
			fits[row["axis cp"]] = row["fits"]
		}
	}
	s.Logf("largest N by cp: %v", fits)
	if fits["1"] == "" || fits["4"] == "" || len(fits["4"]) < len(fits["1"]) || len(fits["4"]) == len(fits["1"]) && fits["4"] <= fits["1"] {
		s.Errorf("four ranks hold no more than one: %v", fits)
	}
	if s.Failed() {
		s.Log(s.must("tail -n 30 cpbench-runs/*/logs/*/launcher.log | tail -c 6000"))
	}
}

// TestSlurmTorchrun is the example's table out of real torchrun processes, as array tasks of a real Slurm.
func TestSlurmTorchrun(t *testing.T) {
	python := torchrunPython(t)
	s := newSite(t, slurmtest.Start(t, slurmtest.Options{CPUs: 4}))
	s.pairformer(python, "1")
	s.ended(s.must("cpbench plan sweep.yaml | sbatch --parsable"), 10*time.Minute)
	s.checkPairformer()
}

// TestSlurmTorchrunOnTwoNodes starts one torchrun on each of two nodes by a job step; they meet on the first.
func TestSlurmTorchrunOnTwoNodes(t *testing.T) {
	python := torchrunPython(t)
	s := newSite(t, slurmtest.Start(t, slurmtest.Options{CPUs: 4}))
	s.pairformer(python, `"cp == 4 ? 2 : 1"`)
	s.must(`sed -i 's/^matrix: .*/matrix: {cp: [4], tokens: [16, 32]}/; /max_fit/d' sweep.yaml`)
	s.ended(s.must("cpbench plan sweep.yaml | sbatch --parsable"), 10*time.Minute)
	for _, row := range s.raw() {
		if row["outcome"] != "ok" {
			s.Errorf("tokens=%s: %s (%s)", row["axis tokens"], row["outcome"], row["reason"])
		}
	}
	if hosts := s.must("cat cpbench-runs/*/logs/*/launcher.log | head -c 4000; cat cpbench-runs/*/array-0.sbatch | grep nodes="); !strings.Contains(hosts, "--nodes=2") {
		t.Errorf("not on two nodes: %s", hosts)
	}
	if t.Failed() {
		t.Log(s.must("tail -n 40 cpbench-runs/*/logs/*/launcher.log | tail -c 6000; cat cpbench-runs/*/logs/*.out"))
	}
}
