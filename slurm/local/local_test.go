package local_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/slurm"
	"cpbench/slurm/local"
	"cpbench/slurm/slurmtest"
)

func TestMain(m *testing.M) {
	// Not /dev/null as under go test, or a task that inherits stdin would go unnoticed.
	if in, _, err := os.Pipe(); err == nil {
		os.Stdin = in
	}
	os.Exit(slurmtest.Main(m))
}

func TestExecutor(t *testing.T) {
	t.Parallel()
	slurmtest.TestExecutor(t, func(t *testing.T) slurm.Executor {
		return &local.Executor{Parallel: 4, Dir: t.TempDir(), Grace: time.Second}
	})
}

// run submits a script with those directives and lines, waits for its end and returns its id.
func run(t *testing.T, executor *local.Executor, directives string, lines ...string) string {
	t.Helper()
	id, err := executor.Submit(t.Context(), []byte("#!/bin/bash\n#SBATCH "+directives+"\n"+strings.Join(lines, "\n")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := executor.Wait(ctx, id); err != nil {
		t.Fatal(err)
	}
	return id
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A script may not lean on more of Slurm's variables than the two, nor on where it lies.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	executor := &local.Executor{Dir: dir, Env: append(os.Environ(), "SLURM_JOB_ID=5", "SBATCH_PARTITION=x", "SLURM_CONF=/etc/slurm.conf", "KEPT=it's kept")}
	id := run(t, executor, "--array=3 --output=out --open-mode=append",
		`env | grep -E '^(SLURM|SBATCH|KEPT)' | sort`, `pwd`, `echo "$0"; [ -O "$0" ] && echo mine`, `ps -o pgid= $$ | grep -qw $$ && echo leader`)
	spool := strings.Split(read(t, filepath.Join(dir, "out")), "\n")[5]
	want := fmt.Sprintf("KEPT=it's kept\nSLURM_ARRAY_JOB_ID=%s\nSLURM_ARRAY_TASK_ID=3\nSLURM_CONF=/etc/slurm.conf\n%s\n%s\nmine\nleader\n", id, dir, spool)
	if diff := cmp.Diff(want, read(t, filepath.Join(dir, "out"))); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if filepath.Base(spool) != "slurm_script" {
		t.Errorf("the script runs as %s", spool)
	}
	if _, err := os.Stat(filepath.Dir(spool)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spool folder is still there: %v", err)
	}
}

// Each of two tasks waits for the other: they end only if both run at once.
func TestParallel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	executor := &local.Executor{Parallel: 2, Dir: dir}
	id := run(t, executor, "--array=0-1 --output=/dev/null", `: >"started.$SLURM_ARRAY_TASK_ID"`,
		`for i in {1..600}; do [ -e "started.$((1 - SLURM_ARRAY_TASK_ID))" ] && exit 0; sleep 0.05; done; exit 1`)
	tasks, err := executor.Tasks(t.Context(), id)
	if err != nil || tasks[0].State != slurm.Completed || tasks[1].State != slurm.Completed {
		t.Errorf("tasks: %v, %v", tasks, err)
	}
}

// Without Parallel there is one task at a time, in the order of the indices, and Notify hears of each step.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	var heard []string
	executor := &local.Executor{Dir: t.TempDir(), Notify: func(index int, state slurm.TaskState) {
		heard = append(heard, fmt.Sprintf("%d %s %s", index, state.State, state.Exit))
	}}
	run(t, executor, "--array=2,0,1 --output=/dev/null", `exit "$SLURM_ARRAY_TASK_ID"`)
	want := []string{"0 RUNNING ", "0 COMPLETED 0:0", "1 RUNNING ", "1 FAILED 1:0", "2 RUNNING ", "2 FAILED 2:0"}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("Notify (-want +got):\n%s", diff)
	}
}

// Notify hears once of the end of each task of a cancelled array, started or not.
func TestNotifyOfCancelled(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ends := map[string]int{}
	started := make(chan struct{})
	executor := &local.Executor{Dir: t.TempDir(), Grace: time.Minute, Notify: func(index int, state slurm.TaskState) {
		mu.Lock()
		defer mu.Unlock()
		if state.State == slurm.Running {
			close(started)
			return
		}
		ends[fmt.Sprintf("%d %s %s", index, state.State, state.Exit)]++
	}}
	id, err := executor.Submit(t.Context(), []byte("#!/bin/bash\n#SBATCH --array=0-2 --output=/dev/null\nsleep 60\n"))
	if err != nil {
		t.Fatal(err)
	}
	<-started
	if err := executor.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := executor.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(map[string]int{"0 CANCELLED 0:15": 1, "1 CANCELLED 0:0": 1, "2 CANCELLED 0:0": 1}, ends); diff != "" {
		t.Errorf("Notify (-want +got):\n%s", diff)
	}
}

// What a script leaves in the background ends with it, as in a cgroup; and it does not hold Wait up.
func TestLeftoversEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run(t, &local.Executor{Dir: dir}, "--array=0 --output=out", `sleep 300 &`, `echo $! >pid`)
	pid := strings.TrimSpace(read(t, filepath.Join(dir, "pid")))
	deadline := time.Now().Add(20 * time.Second)
	for {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		// A zombie that its new parent has not yet collected has ended, too.
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s lives on: %s", pid, stat)
		}
	}
}

// sbatch would take such a script and every task would fail; here it does not come to that.
func TestUnparsableScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := (&local.Executor{Dir: dir}).Submit(t.Context(), []byte("#!/bin/bash\n#SBATCH --array=0 --output=out\n: >ran\nmain() {\n"))
	if err == nil || !strings.Contains(err.Error(), "unexpected end of file") {
		t.Errorf("Submit: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func TestWaitAndIDs(t *testing.T) {
	t.Parallel()
	executor := &local.Executor{Dir: t.TempDir()}
	if err := executor.Wait(t.Context(), "5"); err == nil {
		t.Error("Wait for an unknown array succeeded")
	}
	script := []byte("#!/bin/bash\n#SBATCH --array=0 --output=/dev/null\nsleep 60\n")
	ids := map[string]bool{}
	for range 3 {
		id, err := executor.Submit(t.Context(), script)
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	if len(ids) != 3 {
		t.Errorf("three arrays have the ids %v", ids)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for id := range maps.Keys(ids) {
		if err := executor.Wait(ctx, id); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
		if err := executor.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
		if err := executor.Wait(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if _, err := executor.Submit(ctx, script); err == nil {
		t.Error("Submit under a context that has ended succeeded")
	}
}
