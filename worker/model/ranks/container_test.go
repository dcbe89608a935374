package ranks

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/worker"
)

// boxed is a set of four ranks, not started, of a spec with that launcher and container.
func boxed(t *testing.T, launcher, box, nodes string) *Set {
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
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listen.Close() })
	s := &Set{
		job: worker.Job{Run: &folder.Run{Dir: filepath.Join(dir, "run"), Plan: p}}, Setting: setting, Ranks: make([]*Rank, 4),
		token: "0123456789", listen: listen,
	}
	if nodes == "2" {
		s.job.Hosts = []string{"n1", "n2"}
	}
	return s
}

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
		{"torchrun", apptainer, "1", 1, []string{bin + "/apptainer", "/opt/bin/python3", "-m", "torch.distributed.run", "--standalone", "/opt/bin/python3", "model.py"}, "srun"},
		{"torchrun", apptainer, "2", 1, []string{"srun", "-N", "2", bin + "/apptainer", "/opt/bin/python3", "-m", "torch.distributed.run", "model.py"}, "--container-image"},
		{"srun", apptainer, "2", 1, []string{"srun", "-n", "4", bin + "/apptainer", "/opt/bin/python3", "model.py"}, "--container-image"},
		{"none", pyxis, "1", 1, []string{"srun", "-n", "1", "--container-image=", "/opt/bin/python3", "model.py"}, "apptainer"},
		{"torchrun", pyxis, "1", 1, []string{"srun", "-n", "1", "--container-image=", "/opt/bin/python3", "-m", "torch.distributed.run", "--standalone", "model.py"}, "apptainer"},
		{"torchrun", pyxis, "2", 1, []string{"srun", "-N", "2", "--container-image=", "/opt/bin/python3", "-m", "torch.distributed.run", "model.py"}, "apptainer"},
		{"srun", pyxis, "2", 1, []string{"srun", "-n", "4", "--container-image=", "--container-env=", "/opt/bin/python3", "model.py"}, "apptainer"},
	} {
		list, err := boxed(t, test.launcher, test.box, test.nodes).starts(4711)
		if err != nil || len(list) != test.processes {
			t.Errorf("%s in %s: %d processes, %v", test.launcher, test.box, len(list), err)
			continue
		}
		rest := list[0].argv
		for _, word := range test.order {
			i := slices.IndexFunc(rest, func(arg string) bool { return strings.HasPrefix(arg, word) })
			if i < 0 {
				t.Errorf("%s in %s on %s nodes: %q is not behind what is before it in %q", test.launcher, test.box, test.nodes, word, list[0].argv)
				break
			}
			rest = rest[i+1:]
		}
		if slices.ContainsFunc(list[0].argv, func(arg string) bool { return strings.HasPrefix(filepath.Base(arg), test.never) }) {
			t.Errorf("%s in %s on %s nodes: %q in %q", test.launcher, test.box, test.nodes, test.never, list[0].argv)
		}
		if strings.Contains(strings.Join(list[0].argv, " "), "0123456789 ") || slices.ContainsFunc(list[0].argv, func(a string) bool { return strings.Contains(a, "TOKEN=") }) {
			t.Errorf("the token stands on the command line: %q", list[0].argv)
		}
		if test.box == apptainer && !slices.Contains(list[0].env, "APPTAINERENV_NCCL_ALGO=Ring") {
			t.Errorf("%s: the sweep's variable does not go in", test.launcher)
		}
	}
}
