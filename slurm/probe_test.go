package slurm_test

import (
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/slurm"

	"mvdan.cc/sh/v3/syntax"
)

func TestProbeScript(t *testing.T) {
	t.Parallel()
	spec, err := plan.Load("s.yaml", []byte(`version: 1
name: s
matrix: {n: [1]}
workload: {kind: command, command: [x]}
resources: {gpus_per_node: 4, gpu_type: h100, cpus_per_task: 32, time: 5h}
slurm: {partition: "gpu,long", account: proj, constraint: "a&b#c"}
setup: ["module purge", "# a comment", "module load cuda/12"]
`))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.New(spec, plan.Options{Source: "/s.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), `it's 50% "done" #1`, "doctor-1")
	script, err := slurm.ProbeScript(&folder.Run{Dir: dir, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	text := string(script)
	for _, want := range []string{
		"#SBATCH --gres=gpu:h100:1\n", "#SBATCH --time=00:05:00\n", "#SBATCH --partition=gpu,long\n", "#SBATCH --account=proj\n",
		`#SBATCH --constraint="a&b#c"` + "\n", "#SBATCH --cpus-per-task=1\n", "#SBATCH --no-requeue\n", "50%% ",
		"  cpbench_line=1\n  module purge\n", "  cpbench_line=3\n  module load cuda/12\n", "--setup-failed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "--qos") || strings.Contains(text, "--array") {
		t.Errorf("it asks for what nobody wanted:\n%s", text)
	}
	if !strings.HasSuffix(text, "\ncpbench_probe\n") {
		t.Errorf("a script that was cut off would do something:\n%s", text)
	}
	if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), ""); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}
