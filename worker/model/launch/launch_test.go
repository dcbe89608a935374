package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/worker"
)

// boxed is an order for four ranks of a spec with that launcher and container.
func boxed(t *testing.T, launcher, box, nodes string) Order {
	t.Helper()
	dir := t.TempDir()
	text := "version: 1\nname: s\nmatrix: {cp: [4]}\nresources: {nodes: " + nodes + ", gpus_per_node: 2, cpus_per_task: 8}\nenv: {NCCL_ALGO: Ring}\n" +
		"workload: {kind: model, mode: inference, command: [/opt/bin/python3, model.py], ranks: cp, topology: 1d, launcher: " + launcher + "}\ncontainer: " + box + "\n"
	spec, err := plan.Load("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.New(spec, plan.Options{Source: filepath.Join(dir, "s.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	setting, err := p.At(p.Arrays[0].Tasks[0].Pairs[0].Point, 0)
	if err != nil {
		t.Fatal(err)
	}
	o := Order{
		Job: worker.Job{Run: &folder.Run{Dir: filepath.Join(dir, "run"), Plan: p}}, Setting: setting,
		Connect: "127.0.0.1:4710", Mark: "CPBENCH_TOKEN=" + secret, Port: 4711, Meeting: "meeting",
	}
	if nodes == "2" {
		o.Job.Hosts = []string{"n1", "n2"}
	}
	return o
}

const secret = "0123456789abcdef"

// TestContainerOrder is what stands inside of what: a job step starts the container, the container torchrun, and that
// the ranks.
func TestContainerOrder(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "apptainer"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("SLURM_JOB_ID", "7")
	const apptainer, pyxis = "{runtime: apptainer, image: m.sif}", "{runtime: pyxis, image: m.sqsh}"
	for _, test := range []struct {
		launcher, box, nodes string
		processes            int
		order                []string // words, or beginnings of them, in this order
		never                string
	}{
		{"fork", apptainer, "1", 4, []string{bin + "/apptainer", "exec", "--nv", "--pwd", "/opt/bin/python3", "model.py"}, "srun"},
		{"none", apptainer, "1", 1, []string{bin + "/apptainer", "exec", "/opt/bin/python3", "model.py"}, "srun"},
		{"torchrun", apptainer, "1", 1, []string{bin + "/apptainer", "/opt/bin/python3", "-m", "torch.distributed.run", "--rdzv_endpoint=localhost:0", "/opt/bin/python3", "model.py"}, "srun"},
		{"torchrun", apptainer, "2", 1, []string{"srun", "-N", "2", bin + "/apptainer", "/opt/bin/python3", "-m", "torch.distributed.run", "model.py"}, "--container-image"},
		{"srun", apptainer, "2", 1, []string{"srun", "-n", "4", bin + "/apptainer", "/opt/bin/python3", "model.py"}, "--container-image"},
		{"none", pyxis, "1", 1, []string{"srun", "-n", "1", "--container-image=", "/opt/bin/python3", "model.py"}, "apptainer"},
		{"torchrun", pyxis, "1", 1, []string{"srun", "-n", "1", "--container-image=", "/opt/bin/python3", "-m", "torch.distributed.run", "--rdzv_endpoint=localhost:0", "model.py"}, "apptainer"},
		{"torchrun", pyxis, "2", 1, []string{"srun", "-N", "2", "--container-image=", "/opt/bin/python3", "-m", "torch.distributed.run", "model.py"}, "apptainer"},
		{"srun", pyxis, "2", 1, []string{"srun", "-n", "4", "--container-image=", "--container-env=", "/opt/bin/python3", "model.py"}, "apptainer"},
	} {
		list, err := boxed(t, test.launcher, test.box, test.nodes).Processes()
		if err != nil || len(list) != test.processes {
			t.Errorf("%s in %s: %d processes, %v", test.launcher, test.box, len(list), err)
			continue
		}
		rest := list[0].Argv
		for _, word := range test.order {
			i := slices.IndexFunc(rest, func(arg string) bool { return strings.HasPrefix(arg, word) })
			if i < 0 {
				t.Errorf("%s in %s on %s nodes: %q is not behind what is before it in %q", test.launcher, test.box, test.nodes, word, list[0].Argv)
				break
			}
			rest = rest[i+1:]
		}
		if slices.ContainsFunc(list[0].Argv, func(arg string) bool { return strings.HasPrefix(filepath.Base(arg), test.never) }) {
			t.Errorf("%s in %s on %s nodes: %q in %q", test.launcher, test.box, test.nodes, test.never, list[0].Argv)
		}
		if strings.Contains(strings.Join(list[0].Argv, " "), secret[:8]) || !slices.Contains(list[0].Env, "CPBENCH_TOKEN="+secret) {
			t.Errorf("%s in %s: the token stands on the command line, or not in the environment: %q", test.launcher, test.box, list[0].Argv)
		}
		if test.box == apptainer && !slices.Contains(list[0].Env, "APPTAINERENV_NCCL_ALGO=Ring") {
			t.Errorf("%s: the sweep's variable does not go in", test.launcher)
		}
	}
}
