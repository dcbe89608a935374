package slurm_test

import (
	"path/filepath"
	"strings"
	"testing"

	"cpbench/slurm"
	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"
)

func TestSubmitFile(t *testing.T) {
	t.Parallel()
	for name, executor := range map[string]func(t *testing.T) *slurm.Slurm{"fakes": onFakes, "real": onSlurm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := executor(t)
			script := filepath.Join(t.TempDir(), `it's a "script" #1.sh`)
			slurmtest.Executable(t, script, "#!/bin/bash\n#SBATCH --array=0-8\n#SBATCH --output=%a.out\necho \"$SLURM_ARRAY_TASK_ID\"\n")
			first, err := s.SubmitFile(t.Context(), script, "--array=3,5%1")
			if err != nil {
				t.Fatal(err)
			}
			second, err := s.SubmitFile(t.Context(), script, "--array=7", "--dependency=afterany:"+first, "--kill-on-invalid-dep=yes")
			if err != nil {
				t.Fatal(err)
			}
			awaitEnd(t, s, second, 1)
			if tasks := awaitEnd(t, s, first, 2); tasks[3].State != slurm.Completed || tasks[5].State != slurm.Completed {
				t.Errorf("%v", tasks)
			}
			files, err := filepath.Glob(filepath.Join(s.Dir, "*.out"))
			if err != nil || len(files) != 3 {
				t.Errorf("%q, %v", files, err)
			}
		})
	}
}

func TestCancelJobs(t *testing.T) {
	t.Parallel()
	for name, executor := range map[string]func(t *testing.T) *slurm.Slurm{"fakes": onFakes, "real": onSlurm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := executor(t)
			var ids []string
			for range 2 {
				id, err := s.Submit(t.Context(), []byte("#!/bin/bash\n#SBATCH --array=0-1\nexec sleep 300\n"))
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			for range 2 { // what has ended is no error
				if err := s.CancelJobs(t.Context(), append([]string{"99999999"}, ids...)...); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range ids {
				for index, task := range awaitEnd(t, s, id, 2) {
					if task.State != slurm.Cancelled {
						t.Errorf("task %s_%d: %v", id, index, task)
					}
				}
			}
			if err := s.CancelJobs(t.Context(), "17", "--user=root"); err == nil {
				t.Error("an option is taken for an id")
			}
		})
	}
	bin := stubs(t, map[string]string{"scancel": "echo 'scancel: error: Kill job error on job id 5: Access/permission denied' >&2; exit 1"})
	if err := (&slurm.Slurm{Bin: bin}).CancelJobs(t.Context(), "5", "6"); err == nil || !strings.Contains(err.Error(), "cancel 5, 6") {
		t.Errorf("%v", err)
	}
}

func TestShellLine(t *testing.T) {
	t.Parallel()
	argv := slurm.SubmitArgs("/it's a $run/x.sh", "--array=0-3%2")
	line, err := slurm.ShellLine(argv)
	if err != nil {
		t.Fatal(err)
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil || len(file.Stmts) != 1 {
		t.Fatalf("%s: %v", line, err)
	}
	if _, err := slurm.ShellLine([]string{"a\x00"}); err == nil {
		t.Error("a NUL can be typed")
	}
}

func TestCollectScript(t *testing.T) {
	t.Parallel()
	run := scripted(t, `/scratch/it's a "run" 50%/gpu-20260102T030405Z`, strings.Replace(gpuSpec, "name: boltz2-cp", "name: gpu", 1))
	text, err := slurm.CollectScript(slurm.CollectJob{Run: run, Attempt: 2, GoOn: []string{"--go-on", "--keep-queued", "9"}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "collect.sbatch", text)
	plain, err := slurm.CollectScript(slurm.CollectJob{Run: run, Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(plain), "submit --run") || strings.Contains(string(plain), "goes on") {
		t.Errorf("it goes on although nobody asked:\n%s", plain)
	}
	if diff := cmp.Diff("gpu.20260102T030405Z.collect.a2", slurm.CollectJob{Run: run, Attempt: 2}.Name()); diff != "" {
		t.Error(diff)
	}
	run.Dir = `/a\b/gpu-1`
	if _, err := slurm.CollectScript(slurm.CollectJob{Run: run, Attempt: 1}); err == nil {
		t.Error("a backslash in --output")
	}
}

// What retry names makes Slurm run a task again.
func TestRetryRequeues(t *testing.T) {
	t.Parallel()
	for retry, want := range map[string]string{
		"{max: 1, on: [node_fail, timeout]}": "#SBATCH --requeue\n", "{max: 1, on: [timeout]}": "#SBATCH --no-requeue\n",
		"{max: 0, on: [preempted]}": "#SBATCH --no-requeue\n",
	} {
		run := scripted(t, "/r/cpu-1", cpuSpec+"retry: "+retry+"\n")
		text, err := slurm.Script(slurm.Job{Run: run, Attempt: 1})
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %q in\n%s", retry, err, want, text)
		}
	}
}
