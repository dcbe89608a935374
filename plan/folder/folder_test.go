package folder_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const spec = `version: 1
name: sweep
matrix: {n: [1, 2, 3, 4, 5], s: ["a b", "é"]}
repeats: 2
workload: {kind: model, mode: inference, command: [x], files: [sub/hooks.py]}
site: {max_array_size: 7}
`

// source writes a spec with its files and a binary, and plans it.
func source(t *testing.T) (p *plan.Plan, binary string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "it's here")
	for name, text := range map[string]string{"sub/hooks.py": "print(1)\n", "cpbench": "binary"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := plan.Load("sweep.yaml", []byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	files, err := folder.HashFiles(dir, s.Workload.Files)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err = plan.New(s, plan.Options{Source: filepath.Join(dir, "sweep.yaml"), Files: files})
	if err != nil {
		t.Fatal(err)
	}
	return p, filepath.Join(dir, "cpbench")
}

func create(t *testing.T) *folder.Run {
	t.Helper()
	p, binary := source(t)
	run, err := folder.Create(filepath.Join(t.TempDir(), "cpbench runs"), now, p, []byte(spec), binary)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestCreateAndOpen(t *testing.T) {
	t.Parallel()
	run := create(t)
	if run.Name() != "sweep-20260102T030405Z" {
		t.Errorf("name %s", run.Name())
	}
	back, err := folder.Open(run.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range run.Plan.Arrays {
		tasks, err := back.Tasks(i)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a.Tasks, tasks, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		for j, want := range a.Tasks {
			got, err := back.Task(i, j)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("task %d of array %d: %s", j, i, diff)
			}
		}
	}
	for path, want := range map[string]string{run.Binary(): "binary", filepath.Join(run.Lib(), "hooks.py"): "print(1)\n"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if info, err := os.Stat(run.Binary()); err != nil || info.Mode()&0o111 == 0 {
		t.Error("the binary cannot be run", err)
	}
}

func TestCreateTwiceInASecond(t *testing.T) {
	t.Parallel()
	p, binary := source(t)
	parent := t.TempDir()
	for _, want := range []string{"sweep-20260102T030405Z", "sweep-20260102T030405Z-2", "sweep-20260102T030405Z-3"} {
		run, err := folder.Create(parent, now, p, []byte(spec), binary)
		if err != nil {
			t.Fatal(err)
		}
		if run.Name() != want {
			t.Errorf("got %s, want %s", run.Name(), want)
		}
	}
}

func TestCreateLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	p, _ := source(t)
	parent := t.TempDir()
	if _, err := folder.Create(parent, now, p, []byte(spec), "/no/such/binary"); err == nil {
		t.Fatal("no error")
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := folder.Create(file, now, p, []byte(spec), file)
	if err == nil || !strings.Contains(err.Error(), "choose another place with --runs DIR") {
		t.Error(err)
	}
}

func TestFilesThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	p, binary := source(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(binary), "sub/hooks.py"), []byte("print(2)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := folder.Create(t.TempDir(), now, p, []byte(spec), binary)
	if err == nil || !strings.Contains(err.Error(), "changed while the sweep was planned") {
		t.Error(err)
	}
}

func TestLib(t *testing.T) {
	t.Parallel()
	p, binary := source(t)
	run, err := folder.Create(t.TempDir(), now, p, []byte(spec), binary, folder.LibFile{Name: "own.py", Text: []byte("pass\n")})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(run.Lib(), "own.py")); err != nil || string(text) != "pass\n" {
		t.Errorf("%q, %v", text, err)
	}
	p, binary = source(t)
	_, err = folder.Create(t.TempDir(), now, p, []byte(spec), binary, folder.LibFile{Name: "hooks.py"})
	if err == nil || !strings.Contains(err.Error(), "rename the file") {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(head string) string
		want   string
	}{
		"changed":  {func(h string) string { return strings.Replace(h, `"warmup":3`, `"warmup":4`, 1) }, "has changed since it was planned"},
		"cut":      {func(h string) string { return h[:len(h)/2] }, "is damaged"},
		"no plan":  {func(string) string { return "{}" }, "holds no plan"},
		"newer":    {func(h string) string { return strings.Replace(h, `"schema":1`, `"schema":7`, 1) }, "newer than this cpbench reads"},
		"replaced": {func(string) string { return "" }, "is damaged"},
	} {
		run := create(t)
		head, err := os.ReadFile(run.PlanFile())
		if err != nil {
			t.Fatal(err)
		}
		changed := tt.change(string(head))
		if changed == string(head) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(run.PlanFile(), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := folder.Open(run.Dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := folder.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not a run folder") {
		t.Error(err)
	}
}

func TestTasksThatWereNotPlanned(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"other value": func(s string) string { return strings.Replace(s, `"a b"`, `"a c"`, 1) },
		"cut":         func(s string) string { return s[:20] },
		"swapped": func(s string) string {
			lines := strings.SplitAfter(s, "\n")
			lines[0], lines[1] = lines[1], lines[0]
			return strings.Join(lines, "")
		},
	} {
		run := create(t)
		path := filepath.Join(run.Dir, "tasks-0.jsonl")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Tasks(0); err == nil || !strings.Contains(err.Error(), "plan the sweep again") {
			t.Errorf("%s: tasks: %v", name, err)
		}
		failed := false
		for i := range run.Plan.Arrays[0].Lengths {
			_, err := run.Task(0, i)
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("%s: every task can still be read", name)
		}
	}
	run := create(t)
	for _, at := range [][2]int{{-1, 0}, {9, 0}, {0, -1}, {0, 7}, {2, 6}} {
		if _, err := run.Task(at[0], at[1]); err == nil || !strings.Contains(err.Error(), "is not in") {
			t.Errorf("%v: %v", at, err)
		}
	}
}

func TestScriptsHaveAttemptsOfTheirOwn(t *testing.T) {
	t.Parallel()
	run := create(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	attempts := map[int]bool{}
	for range 8 {
		wg.Go(func() {
			text, attempt, err := run.AddScript(1, func(n int) ([]byte, error) { return fmt.Appendf(nil, "attempt %d", n), nil })
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if attempts[attempt] {
				t.Errorf("attempt %d twice", attempt)
			}
			attempts[attempt] = true
			onDisk, err := os.ReadFile(run.Script(1, attempt))
			if err != nil || string(onDisk) != string(text) || string(text) != fmt.Sprintf("attempt %d", attempt) {
				t.Errorf("attempt %d: %q on disk, %q returned, %v", attempt, onDisk, text, err)
			}
		})
	}
	wg.Wait()
	if run.Attempts(1) != 8 || run.Attempts(0) != 0 {
		t.Errorf("%d and %d attempts", run.Attempts(1), run.Attempts(0))
	}
	boom := errors.New("boom")
	if _, _, err := run.AddScript(1, func(int) ([]byte, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	p, binary := source(t)
	parent := t.TempDir()
	if _, err := folder.Newest(filepath.Join(parent, "none")); err == nil || !strings.Contains(err.Error(), "no runs here") {
		t.Error(err)
	}
	var runs []*folder.Run
	for i := range 3 { // the first two in the same second
		run, err := folder.Create(parent, now.Add(time.Duration(i/2)*time.Hour), p, []byte(spec), binary)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	if _, err := folder.Newest(parent); err == nil || !strings.Contains(err.Error(), "has started yet") {
		t.Error(err)
	}
	for i := range 2 { // the third was planned, but nothing of it has started
		if err := os.Mkdir(runs[i].LogDir(0, 0, 1, 0), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := folder.Newest(parent)
	if err != nil || got.Name() != runs[1].Name() {
		t.Errorf("%v, %v", got, err)
	}
}

func TestLogNames(t *testing.T) {
	t.Parallel()
	a, b, c, d, ok := folder.ParseLogName(folder.LogName(3, 41, 2, 1))
	if !ok || a != 3 || b != 41 || c != 2 || d != 1 {
		t.Error(a, b, c, d, ok)
	}
	for _, bad := range []string{"", "3-41-a2", "3-41-a2.1x", "x-1-a2.1", "123_4.out"} {
		if _, _, _, _, ok := folder.ParseLogName(bad); ok {
			t.Errorf("%q was taken for a log folder", bad)
		}
	}
}
