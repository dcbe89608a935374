package slurmtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cpbench/slurm"
)

// patience is how long a small array may take on a loaded machine.
const patience = 90 * time.Second

// TestExecutor is the contract of slurm.Executor in code: every implementation passes it. newExecutor is called once for
// each subtest and returns an executor that runs at least three tasks at the same time, in a working folder that may be
// written to; its grace from TERM to KILL should be short.
func TestExecutor(t *testing.T, newExecutor func(t *testing.T) slurm.Executor) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, executor slurm.Executor)
	}{
		{"every index runs once", testIndices},
		{"exit codes become states", testExits},
		{"stdin is /dev/null", testStdin},
		{"output is appended", testOutput},
		{"missing output folder", testNoOutputFolder},
		{"cut script runs nothing", testCut},
		{"bad script is refused", testRefused},
		{"throttle", testThrottle},
		{"cancel", testCancel},
		{"unknown id", testUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newExecutor(t))
		})
	}
}

// folder returns a new folder whose name has what names may have. A backslash is not among it: in --output it would turn
// the patterns off.
func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `it's a "dir" #1 50%a`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// option writes a directive for a value that sbatch is to take as it is.
func option(name, value string) string {
	return fmt.Sprintf("#SBATCH %s=\"%s\"\n", name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value))
}

// literal takes the meaning off the patterns in a file name.
func literal(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// shell writes a word that bash is to take as it is.
func shell(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// compose makes a script in our own form: directives, one function, and a last line that calls it. The body finds its
// folder in $dir.
func compose(dir, array, more string, body ...string) []byte {
	return fmt.Appendf(nil, "#!/bin/bash\n%s%s%smain() {\n  local dir=%s\n  %s\n}\nmain\n",
		option("--array", array), option("--output", literal(dir)+"/%A_%a.out"), more, shell(dir), strings.Join(body, "\n  "))
}

// submit hands a script over.
func submitScript(t *testing.T, executor slurm.Executor, script []byte) string {
	t.Helper()
	id, err := executor.Submit(t.Context(), script)
	if err != nil {
		t.Fatalf("Submit: %v\n%s", err, script)
	}
	return id
}

// poll asks for the tasks until they are as wanted.
func poll(t *testing.T, executor slurm.Executor, id, what string, wanted func(map[int]slurm.TaskState) bool) map[int]slurm.TaskState {
	t.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		tasks, err := executor.Tasks(t.Context(), id)
		if err != nil {
			t.Fatalf("Tasks(%s): %v", id, err)
		}
		if wanted(tasks) {
			return tasks
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("array %s is not %s after %v: %v", id, what, patience, tasks)
		}
	}
}

// end waits until n tasks have ended.
func end(t *testing.T, executor slurm.Executor, id string, n int) map[int]slurm.TaskState {
	t.Helper()
	return poll(t, executor, id, "at its end", func(tasks map[int]slurm.TaskState) bool {
		for _, task := range tasks {
			if !task.State.Ended() {
				return false
			}
		}
		return len(tasks) == n
	})
}

// sameTasks compares states without the nodes, which no test can know.
func sameTasks(t *testing.T, want, got map[int]slurm.TaskState) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(slurm.TaskState{}, "Node")); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

// lines returns a file's lines; a file that is not there has none.
func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
