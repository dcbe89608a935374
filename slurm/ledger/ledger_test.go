package ledger_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/slurm/ledger"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func path(t *testing.T) string { return filepath.Join(t.TempDir(), `it's a "ledger".jsonl`) }

func open(t *testing.T, path string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), path, func() { t.Error("the ledger is not free") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // closed by the test already, most often
	return l
}

func add(t *testing.T, l *ledger.Ledger, lines ...ledger.Line) {
	t.Helper()
	for _, line := range lines {
		if err := l.Append(line); err != nil {
			t.Fatal(err)
		}
	}
}

func at(i int) *int { return &i }

var ignoreTimes = cmpopts.IgnoreFields(ledger.Job{}, "Asked", "Changed")

func TestJobs(t *testing.T) {
	t.Parallel()
	file := path(t)
	l := open(t, file)
	argv := []string{"sbatch", "it's"}
	add(
		t, l,
		ledger.Line{Event: ledger.Submitting, Name: "s.0.a1", Array: at(0), Attempt: 1, Tasks: "0-2,7", Argv: argv},
		ledger.Line{Event: ledger.Submitted, Name: "s.0.a1", Array: at(0), Attempt: 1, ID: "12"},
		ledger.Line{Event: ledger.Submitting, Name: "s.1.a1", Array: at(1), Attempt: 1, Tasks: "0"},
		ledger.Line{Event: ledger.Refused, Name: "s.1.a1", Array: at(1), Attempt: 1, Reason: "QOSMax"},
		ledger.Line{Event: ledger.Submitting, Name: "s.collect.a1", Attempt: 1},
		ledger.Line{Event: ledger.Cancelled, Name: "s.0.a1", Array: at(0), Attempt: 1, ID: "12"},
	)
	want := []ledger.Job{
		{Name: "s.0.a1", Array: 0, Attempt: 1, Tasks: []int{0, 1, 2, 7}, Argv: argv, Event: ledger.Cancelled, ID: "12"},
		{Name: "s.1.a1", Array: 1, Attempt: 1, Tasks: []int{0}, Event: ledger.Refused, Reason: "QOSMax"},
		{Name: "s.collect.a1", Array: ledger.Collect, Attempt: 1, Event: ledger.Submitting},
	}
	if diff := cmp.Diff(want, l.Jobs(), ignoreTimes); diff != "" {
		t.Errorf("Jobs while it is open (-want +got):\n%s", diff)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ledger.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, ignoreTimes); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
	if j := got[0]; !j.In() || j.Open() || !j.Changed.After(time.Time{}) || j.Asked.After(j.Changed) {
		t.Errorf("%+v", j)
	}
	if j := got[1]; j.In() || j.Open() {
		t.Errorf("%+v", j)
	}
	if j := got[2]; j.In() || !j.Open() {
		t.Errorf("%+v", j)
	}
	if ledger.Find(got, "s.1.a1") != &got[1] || ledger.Find(got, "s.1") != nil {
		t.Error("Find")
	}
}

// A name that is submitted anew after a refusal has lost the old id and reason.
func TestSubmittedAgain(t *testing.T) {
	t.Parallel()
	l := open(t, path(t))
	add(
		t, l,
		ledger.Line{Event: ledger.Submitting, Name: "x", Array: at(0), Attempt: 1, Tasks: "0-9"},
		ledger.Line{Event: ledger.Submitted, Name: "x", Array: at(0), Attempt: 1, ID: "5"},
		ledger.Line{Event: ledger.Absent, Name: "x", Array: at(0), Attempt: 1, Reason: "gone"},
		ledger.Line{Event: ledger.Submitting, Name: "x", Array: at(0), Attempt: 1, Tasks: "3"},
	)
	want := []ledger.Job{{Name: "x", Attempt: 1, Tasks: []int{3}, Event: ledger.Submitting}}
	if diff := cmp.Diff(want, l.Jobs(), ignoreTimes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A writer that was killed leaves half a line, after which the next one begins a line of its own.
func TestCutOff(t *testing.T) {
	t.Parallel()
	file := path(t)
	l := open(t, file)
	add(t, l, ledger.Line{Event: ledger.Submitting, Name: "x", Array: at(0), Attempt: 1, Tasks: "0"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < len(whole); cut++ {
		if err := os.WriteFile(file, append(append([]byte(nil), whole...), whole[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		if jobs, err := ledger.Read(file); err != nil || len(jobs) != 1 {
			t.Fatalf("cut at %d: %v, %v", cut, jobs, err)
		}
		l := open(t, file)
		add(t, l, ledger.Line{Event: ledger.Submitted, Name: "x", Array: at(0), Attempt: 1, ID: "7"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		jobs, err := ledger.Read(file)
		if err != nil || len(jobs) != 1 || jobs[0].ID != "7" {
			t.Fatalf("cut at %d: %v, %v", cut, jobs, err)
		}
	}
}

// What is no line and was not cut off may speak of jobs that run: it is not passed over.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{\"event\":submitted}\n", "{\"event\":\"submitted\"}\n", "[]\n"} {
		file := path(t)
		if err := os.WriteFile(file, []byte("\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.Read(file); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := ledger.Open(t.Context(), file, func() {}); err == nil {
			t.Errorf("%q is opened", text)
		}
		// The error has given the lock free.
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := open(t, file).Close(); err != nil {
			t.Error(err)
		}
	}
}

// One that was opened and never written looks like no submission.
func TestNothingWritten(t *testing.T) {
	t.Parallel()
	file := path(t)
	if err := open(t, file).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
	if jobs, err := ledger.Read(file); err != nil || jobs != nil {
		t.Errorf("Read without a file: %v, %v", jobs, err)
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	file := path(t)
	first := open(t, file)
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	// The second is told that it waits, and gives up with its context.
	if _, err := ledger.Open(ctx, file, func() { told++; cancel() }); !errors.Is(err, context.Canceled) || told != 1 {
		t.Fatalf("%v, told %d times", err, told)
	}
	waits, got := make(chan struct{}), make(chan error)
	go func() {
		second, err := ledger.Open(t.Context(), file, func() { close(waits) })
		if err == nil && len(second.Jobs()) != 1 {
			err = errors.New("it does not see what the first has written")
		}
		if err == nil {
			err = second.Close()
		}
		got <- err
	}()
	<-waits
	add(t, first, ledger.Line{Event: ledger.Submitting, Name: "x", Attempt: 1})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// The one who waits gets a ledger of its own when the first has removed the empty one.
func TestLockedAndRemoved(t *testing.T) {
	t.Parallel()
	file := path(t)
	first := open(t, file)
	waits, got := make(chan struct{}), make(chan error)
	go func() {
		second, err := ledger.Open(t.Context(), file, func() { close(waits) })
		if err == nil {
			err = errors.Join(second.Append(ledger.Line{Event: ledger.Submitting, Name: "x", Attempt: 1}), second.Close())
		}
		got <- err
	}()
	<-waits
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if jobs, err := ledger.Read(file); err != nil || len(jobs) != 1 {
		t.Errorf("%v, %v", jobs, err)
	}
}

// Lock lets one in after the other, and leaves its file, so that nobody locks a file that is no longer there.
func TestLock(t *testing.T) {
	t.Parallel()
	file := path(t)
	release, err := ledger.Lock(t.Context(), file, func() { t.Error("nobody is there") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := ledger.Lock(ctx, file, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("two at once: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if release, err = ledger.Lock(t.Context(), file, func() { t.Error("it was given free") }); err != nil || release() != nil {
		t.Error(err)
	}
}

func TestParseRanges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{"": nil, "3": {3}, "0-2,7": {0, 1, 2, 7}, "7,0-1": {0, 1, 7}} {
		got, err := ledger.ParseRanges(text)
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"a", "3-1", "-1", "1-", "0-9999999999", ","} {
		if got, err := ledger.ParseRanges(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
