package slurmtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cpbench/slurm"
)

func testIndices(t *testing.T, executor slurm.Executor) {
	dir := folder(t)
	id := submitScript(t, executor, compose(dir, "0-3,7-9:2", "", `echo "$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID" >>"$dir/ran"`))
	want := []string{}
	states := map[int]slurm.TaskState{}
	for _, index := range []int{0, 1, 2, 3, 7, 9} {
		want = append(want, fmt.Sprintf("%s %d", id, index))
		states[index] = slurm.TaskState{State: slurm.Completed, Exit: "0:0"}
	}
	tasks := end(t, executor, id, len(want))
	sameTasks(t, states, tasks)
	for index, task := range tasks {
		if task.Node == "" {
			t.Errorf("task %d has no node", index)
		}
	}
	got := lines(t, filepath.Join(dir, "ran"))
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what ran (-want +got):\n%s", diff)
	}
}

func testExits(t *testing.T, executor slurm.Executor) {
	id := submitScript(t, executor, compose(folder(t), "0-4", "",
		`case $SLURM_ARRAY_TASK_ID in`, `0) exit 0 ;;`, `1) exit 7 ;;`, `2) exit 255 ;;`, `3) kill -KILL $$ ;;`, `4) kill -TERM $$ ;;`, `esac`))
	sameTasks(t, map[int]slurm.TaskState{
		0: {State: slurm.Completed, Exit: "0:0"},
		1: {State: slurm.Failed, Exit: "7:0"},
		2: {State: slurm.Failed, Exit: "255:0"},
		3: {State: slurm.Failed, Exit: "0:9"},
		4: {State: slurm.Failed, Exit: "0:15"},
	}, end(t, executor, id, 5))
}

func testStdin(t *testing.T, executor slurm.Executor) {
	dir := folder(t)
	id := submitScript(t, executor, compose(dir, "0", "", `readlink "/proc/$$/fd/0" >"$dir/stdin"`))
	end(t, executor, id, 1)
	if diff := cmp.Diff([]string{"/dev/null"}, lines(t, filepath.Join(dir, "stdin"))); diff != "" {
		t.Errorf("stdin (-want +got):\n%s", diff)
	}
}

func testOutput(t *testing.T, executor slurm.Executor) {
	for mode, want := range map[string][]string{
		"append":   {"before", "out 1", "err 1"},
		"truncate": {"out 1", "err 1"},
	} {
		dir := folder(t)
		if err := os.WriteFile(filepath.Join(dir, "log 1"), []byte("before\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		more := option("--open-mode", mode) + option("--output", literal(dir)+"/log %a")
		id := submitScript(t, executor, compose(dir, "1", more, `echo "out $SLURM_ARRAY_TASK_ID"`, `echo "err $SLURM_ARRAY_TASK_ID" >&2`))
		end(t, executor, id, 1)
		if diff := cmp.Diff(want, lines(t, filepath.Join(dir, "log 1"))); diff != "" {
			t.Errorf("--open-mode=%s: output (-want +got):\n%s", mode, diff)
		}
	}
	dir := folder(t)
	id := submitScript(t, executor, compose(dir, "0-1", "", `echo "task $SLURM_ARRAY_TASK_ID"`))
	end(t, executor, id, 2)
	for _, index := range []string{"0", "1"} {
		if diff := cmp.Diff([]string{"task " + index}, lines(t, filepath.Join(dir, id+"_"+index+".out"))); diff != "" {
			t.Errorf("%%A_%%a of task %s (-want +got):\n%s", index, diff)
		}
	}
}

func testNoOutputFolder(t *testing.T, executor slurm.Executor) {
	dir := folder(t)
	id := submitScript(t, executor, compose(dir, "0", option("--output", literal(dir)+"/missing/%A_%a.out"), `echo >"$dir/ran"`))
	sameTasks(t, map[int]slurm.TaskState{0: {State: slurm.Failed, Exit: "0:53"}}, end(t, executor, id, 1))
	if _, err := os.Stat(filepath.Join(dir, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a task without output has run: %v", err)
	}
}

// testCut cuts the script at the end of each line and in the middle of it, up to the line that calls the function.
func testCut(t *testing.T, executor slurm.Executor) {
	dir := folder(t)
	script := compose(dir, "0", "", `echo ran >>"$dir/ran"`, `if true; then`, `echo ran >>"$dir/ran"`, `fi`)
	last := bytes.LastIndex(script, []byte("main\n"))
	var cuts []int
	start := 0
	for line := range bytes.Lines(script[:last]) {
		cuts = append(cuts, start+len(line)/2, start+len(line))
		start += len(line)
	}
	var ids []string
	for _, cut := range cuts {
		// An executor may refuse it as well.
		if id, err := executor.Submit(t.Context(), script[:cut]); err == nil {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		end(t, executor, id, 1)
	}
	if got := lines(t, filepath.Join(dir, "ran")); !slices.Equal(got, []string{""}) {
		t.Errorf("of a script that was cut off this ran: %q", got)
	}
	end(t, executor, submitScript(t, executor, script), 1)
	if got := lines(t, filepath.Join(dir, "ran")); len(got) != 2 {
		t.Errorf("of the whole script this ran: %q", got)
	}
}

func testRefused(t *testing.T, executor slurm.Executor) {
	dir := folder(t)
	good := string(compose(dir, "0", "", `echo "$1" >>"$dir/ran"`))
	for name, script := range map[string]string{
		"empty":            "",
		"blank":            " \n\t\n",
		"no shebang":       strings.TrimPrefix(good, "#!/bin/bash\n"),
		"blank first line": "\n" + good,
		"DOS line breaks":  strings.ReplaceAll(good, "\n", "\r\n"),
		"one in the body":  strings.ReplaceAll(good, "main\n", "main\r\n"),
		"NUL":              good + "\x00",
		"reversed array":   string(compose(dir, "4-0", "", `echo >>"$dir/ran"`)),
		"unmatched quote":  strings.ReplaceAll(good, `.out"`, `.out`),
	} {
		id, err := executor.Submit(t.Context(), []byte(script))
		if err == nil {
			t.Errorf("%s: accepted as array %s", name, id)
		}
		if errors.Is(err, slurm.ErrNoAnswer) {
			t.Errorf("%s: refused, and yet: %v", name, err)
		}
	}
	// What had been started before this one would have run by its end.
	end(t, executor, submitScript(t, executor, []byte(good)), 1)
	if diff := cmp.Diff([]string{""}, lines(t, filepath.Join(dir, "ran"))); diff != "" {
		t.Errorf("what ran (-want +got):\n%s", diff)
	}
}

func testThrottle(t *testing.T, executor slurm.Executor) {
	const limit, n = 2, 6
	dir := folder(t)
	id := submitScript(t, executor, compose(dir, fmt.Sprintf("0-%d%%%d", n-1, limit), "", `echo start >>"$dir/log"`, `sleep 0.3`, `echo end >>"$dir/log"`))
	end(t, executor, id, n)
	running, most := 0, 0
	for _, line := range lines(t, filepath.Join(dir, "log")) {
		if line == "start" {
			running++
		} else {
			running--
		}
		most = max(most, running)
	}
	if running != 0 || most > limit || most == 0 {
		t.Errorf("%d tasks ran at the same time, %d are open; want 1 to %d, and 0", most, running, limit)
	}
}

// testCancel has two tasks that ignore TERM; each holds a lock that the end of its last process gives back.
func testCancel(t *testing.T, executor slurm.Executor) {
	dir := folder(t)
	id := submitScript(t, executor, compose(dir, "0-4%2", "",
		`trap '' TERM`, `exec 9>"$dir/lock.$SLURM_ARRAY_TASK_ID"`, `flock 9`, `: >"$dir/started.$SLURM_ARRAY_TASK_ID"`, `while :; do sleep 0.2; done`))
	poll(t, executor, id, "running", func(map[int]slurm.TaskState) bool {
		started, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*", "started.*")) // no pattern characters in it
		return len(started) == 2
	})
	for range 2 {
		if err := executor.Cancel(t.Context(), id); err != nil {
			t.Fatalf("Cancel: %v", err)
		}
	}
	tasks := end(t, executor, id, 5)
	if err := executor.Cancel(t.Context(), id); err != nil {
		t.Errorf("Cancel after the end: %v", err)
	}
	for _, index := range slices.Sorted(maps.Keys(tasks)) {
		if tasks[index].State != slurm.Cancelled {
			t.Errorf("task %d: %+v, want it cancelled", index, tasks[index])
		}
		_, err := os.Stat(filepath.Join(dir, fmt.Sprintf("started.%d", index)))
		if ran := err == nil; ran != (index < 2) {
			t.Errorf("task %d has run: %v", index, ran)
		}
	}
	for _, index := range []int{0, 1} {
		awaitUnlocked(t, filepath.Join(dir, fmt.Sprintf("lock.%d", index)))
	}
}

// awaitUnlocked waits a moment for the last process that holds a file's lock: KILL takes effect when it is scheduled.
func awaitUnlocked(t *testing.T, path string) {
	t.Helper()
	lock, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Second)
	for {
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("the array is cancelled, and a process of it still holds %s", path)
			return
		}
	}
}

func testUnknown(t *testing.T, executor slurm.Executor) {
	const id = "99999999"
	tasks, err := executor.Tasks(t.Context(), id)
	if err != nil || len(tasks) != 0 {
		t.Errorf("Tasks: %v, %v; want none", tasks, err)
	}
	if err := executor.Cancel(t.Context(), id); err != nil {
		t.Errorf("Cancel: %v", err)
	}
}
