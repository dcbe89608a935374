package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/slurm/slurmtest"
)

// TestValidateOnSite has a real site refuse a spec with every mistake at once, at their places.
func TestValidateOnSite(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	const workload = "version: 1\nname: v\nmatrix: {n: [1, 2]}\nworkload: {kind: command, command: [x], ranks: 3}\n"
	s.spec("bad.yaml", workload+`
resources: {nodes: 3, gpus_per_node: 9, gpu_type: h200, cpus_per_task: 99, mem: 999G, time: 3h}
slurm: {constraint: nvlink}
repeats: 600
site: {max_array_size: 5000}
`)
	out, errs, err := s.sh("cpbench validate bad.yaml --slurm")
	if cmdExit(err) != exitUsage || out != "" {
		t.Errorf("%v, and on stdout %q", err, out)
	}
	for _, want := range []string{
		"bad.yaml:6:20: resources.nodes: a task asks for 3 nodes, and partition gpu has 2: sbatch would take it, and it would wait for ever",
		"bad.yaml:6:38: resources.gpus_per_node: a task asks for 9 GPUs", `bad.yaml:6:51: resources.gpu_type: partition gpu has no GPU of type "h200"`,
		"hint: choose from h100", "resources.cpus_per_task: a task asks for 99 CPUs", "resources.mem: a task asks for 1022976M",
		"resources.time: a task asks for 03:00:00, and partition gpu allows 02:00:00: sbatch would take it, and it would wait for ever",
		`slurm.constraint: no node of partition gpu has the feature "nvlink"`, "site.max_array_size: the array has indices up to 1199, and they end at 1000",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is missing in\n%s", want, errs)
		}
	}

	s.spec("good.yaml", workload+"resources: {time: 1m}\nslurm: {partition: short}\n")
	out = s.must("SBATCH_PARTITION=gpu cpbench validate good.yaml --slurm 2>said; cat said")
	for _, want := range []string{"good.yaml: ok: 2 points, 2 tasks, 1 resource shape\n", "array 0: 2 tasks: Job ", " to start at ", "in partition short", "warning: SBATCH_PARTITION is set"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}

	s.spec("refused.yaml", workload+"slurm: {extra: ['--licenses=matlab:1']}\n")
	_, errs, err = s.sh("cpbench validate refused.yaml --slurm")
	if cmdExit(err) != exitUsage || !strings.Contains(errs, "sbatch would refuse array 0: allocation failure: Invalid license specification") || !strings.Contains(errs, "hint: scontrol show licenses lists them") {
		t.Errorf("%v\n%s", err, errs)
	}
}

// Not parallel: there is no sbatch on this process's PATH.
func TestValidateWithoutSite(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	spec := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(spec, []byte(leastSpec), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	if code := Main([]string{"validate", spec, "--slurm"}, nil, &out, &said); code != exitError || out.Len() > 0 || !strings.Contains(said.String(), "Slurm cannot be asked: sbatch is not installed here") {
		t.Errorf("exit %d, %q, %q", code, out.String(), said.String())
	}
}
