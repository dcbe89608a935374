package collect

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cpbench/plan/folder"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// emptyRun is a run folder of which only states.json matters.
func emptyRun(t *testing.T) *folder.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "it's a run-20261130T120000Z")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return &folder.Run{Dir: dir}
}

func endings(t *testing.T, run *folder.Run) *Endings {
	t.Helper()
	e, err := ReadEndings(run)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func saveEndings(t *testing.T, e *Endings) {
	t.Helper()
	if err := e.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestEndingsAreKept(t *testing.T) {
	t.Parallel()
	run := emptyRun(t)
	id := Attempt{Array: 0, Task: 3, Attempt: 1}
	first := Ending{Job: "121_3", Word: "FAILED", Exit: "200:0", Node: "n1", Start: noon, End: noon.Add(time.Minute)}
	e := endings(t, run)
	saveEndings(t, e) // nothing to keep
	if _, err := os.Stat(run.StatesFile()); err == nil {
		t.Error("an empty states.json was written")
	}
	e.Add(id, first)
	saveEndings(t, e)

	// Later accounting tells of the same end with an exit code that it has cut.
	cut := first
	cut.Exit, cut.Word = "72:0", "FAILED by accounting"
	e = endings(t, run)
	e.Add(id, cut)
	saveEndings(t, e)
	got, ok := endings(t, run).Of(id)
	if diff := cmp.Diff(first, got); diff != "" || !ok {
		t.Errorf("%v (-want +got):\n%s", ok, diff)
	}

	// A requeued task ends once more.
	again := Ending{Job: "121_3", Word: "COMPLETED", Exit: "0:0", Node: "n2", Start: noon.Add(time.Hour), End: noon.Add(2 * time.Hour), Restart: 1}
	e = endings(t, run)
	e.Add(id, again)
	saveEndings(t, e)
	e = endings(t, run)
	e.Add(id, first)
	saveEndings(t, e)
	if got, _ := endings(t, run).Of(id); got != again {
		t.Errorf("kept: %+v", got)
	}
	if n := len(endings(t, run).tasks); n != 1 {
		t.Errorf("%d endings", n)
	}
}

// TestEndingsOfMany: what several collect at the same time is all there afterwards.
func TestEndingsOfMany(t *testing.T) {
	t.Parallel()
	run := emptyRun(t)
	const many = 20
	read := make([]*Endings, many)
	for i := range read {
		read[i] = endings(t, run)
		read[i].Add(Attempt{Task: i, Attempt: 1}, Ending{Word: "COMPLETED", End: noon})
	}
	var all sync.WaitGroup
	errs := make([]error, many)
	for i, e := range read {
		all.Go(func() { errs[i] = e.Save(t.Context()) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if n := len(endings(t, run).tasks); n != many {
		t.Errorf("%d of %d endings are kept", n, many)
	}
}

func TestEndingsOfABadFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"schema":1,"tasks":{"0-0-a1":{"st`: "is damaged",
		`{"schema":9,"tasks":{}}`:            "newer than this cpbench reads",
	} {
		run := emptyRun(t)
		if err := os.WriteFile(run.StatesFile(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := ReadEndings(run)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		e.Add(Attempt{Attempt: 1}, Ending{Word: "COMPLETED", End: noon})
		if err := e.Save(t.Context()); err == nil {
			t.Errorf("%s was replaced", text)
		}
		if left, err := os.ReadFile(run.StatesFile()); err != nil || string(left) != text {
			t.Errorf("%s became %s (%v)", text, left, err)
		}
	}
}
