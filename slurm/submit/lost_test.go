package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/slurm"
	"cpbench/slurm/ledger"

	"github.com/google/go-cmp/cmp"
)

func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.trouble("lose:.1.a1")
	s.must(s.submit(s.all(), Options{}))
	if got := s.calls(); len(got) != 4 || !strings.Contains(got[3], "afterany:1:5:7") {
		t.Errorf("calls %q", got)
	}
	if !s.heard("is in as 5, although sbatch gave no answer") {
		t.Errorf("told %q", s.told)
	}
	text, err := os.ReadFile(s.run.JobsFile())
	if s.must(err); strings.Count(string(text), `"event":"unknown"`) != 1 {
		t.Errorf("%s", text)
	}
}

// What is not in after a lost answer is submitted once more, and no further time.
func TestLostRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.stub("sbatch", `echo >>"$MARKS/n"; [ $(wc -l <"$MARKS/n") = 1 ] || exec "$REAL/sbatch" "$@"; echo "Socket timed out" >&2; exit 1`)
	s.must(s.submit(s.all()[:1], Options{}))
	if got := s.calls(); len(got) != 2 || !s.heard("is not in: it is submitted once more") {
		t.Errorf("calls %q, told %q", got, s.told)
	}
	s = newSite(t, "")
	s.stub("sbatch", `echo "Socket timed out" >&2; exit 1`)
	err := s.submit(s.all(), Options{})
	var refused *Refusal
	if !errors.Is(err, slurm.ErrNoAnswer) || errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	jobs, err := ledger.Read(s.run.JobsFile())
	if s.must(err); len(jobs) != 1 || jobs[0].Event != ledger.Absent {
		t.Errorf("%+v", jobs)
	}
	if _, err := os.Stat(s.run.CollectScript(1)); err == nil {
		t.Error("there is nothing to collect")
	}
}

// A submission that was cut off: the line before the call stands there, and the job is in or not.
func TestCutOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	zero := 0
	job := slurm.Job{Run: s.run, Array: 0, Attempt: 1}
	l, err := ledger.Open(t.Context(), s.run.JobsFile(), func() {})
	s.must(err)
	s.must(l.Append(ledger.Line{Event: ledger.Submitting, Name: job.Name(), Array: &zero, Attempt: 1, Tasks: "0-3"}))
	s.must(l.Close())
	_, err = s.slurm.SubmitFile(t.Context(), s.run.Script(0, 1), "--array=0-3")
	s.must(err)
	s.must(s.with(func(*Session) error { return nil }))
	jobs, err := ledger.Read(s.run.JobsFile())
	if s.must(err); len(jobs) != 1 || jobs[0].Event != ledger.Submitted || jobs[0].ID != "1" {
		t.Errorf("%+v", jobs)
	}

	s = newSite(t, "")
	job.Run = s.run
	l, err = ledger.Open(t.Context(), s.run.JobsFile(), func() {})
	s.must(err)
	s.must(l.Append(ledger.Line{Event: ledger.Submitting, Name: job.Name(), Array: &zero, Attempt: 1, Tasks: "0-3"}))
	s.must(l.Close())
	s.must(s.submit(s.all()[:1], Options{}))
	if got := s.calls(); len(got) != 2 || got[0] != "--array=0-3 array-0.sbatch" {
		t.Errorf("what never came in is free: %q", got)
	}
}

// What Slurm has forgotten may have run all the same: it is another attempt.
func TestForgotten(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	zero := 0
	job := slurm.Job{Run: s.run, Array: 0, Attempt: 1}
	l, err := ledger.Open(t.Context(), s.run.JobsFile(), func() {})
	s.must(err)
	s.must(l.Append(ledger.Line{Event: ledger.Submitted, Name: job.Name(), Array: &zero, Attempt: 1, ID: "99"}))
	s.must(l.Close())
	s.must(s.submit(s.all()[:1], Options{}))
	if got := s.calls(); len(got) != 2 || got[0] != "--array=0-3 array-0.a2.sbatch" {
		t.Errorf("%q", got)
	}
}

// Whoever stops a submission in the middle of a call leaves a question open, and no job that collects.
func TestStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.stub("sbatch", `[ -e "$MARKS/first" ] || { echo >"$MARKS/first"; exec "$REAL/sbatch" "$@"; }; echo >"$MARKS/begun"; exec sleep 60`)
	session, err := Open(t.Context(), s.slurm, s.run, s.say)
	s.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- session.Submit(ctx, s.all(), Options{}) }()
	marks := s.slurm.Env[len(s.slurm.Env)-1]
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if _, err := os.Stat(filepath.Join(strings.TrimPrefix(marks, "MARKS="), "begun")); err == nil {
			break
		}
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	s.must(session.Close())
	jobs, err := ledger.Read(s.run.JobsFile())
	if s.must(err); len(jobs) != 2 || jobs[1].Event != ledger.Unknown || !jobs[1].Open() {
		t.Errorf("%+v", jobs)
	}
}

// The job is in, and the line that says so cannot be written: that is no refusal.
func TestNotKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.stub("sbatch", `mkfifo "$MARKS/go"; echo >"$MARKS/begun"; read -r _ <"$MARKS/go"; exec "$REAL/sbatch" "$@"`)
	session, err := Open(t.Context(), s.slurm, s.run, s.say)
	s.must(err)
	result := make(chan error)
	go func() { result <- session.Submit(t.Context(), s.all(), Options{}) }()
	marks := strings.TrimPrefix(s.slurm.Env[len(s.slurm.Env)-1], "MARKS=")
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if _, err := os.Stat(filepath.Join(marks, "begun")); err == nil {
			break
		}
	}
	s.must(session.Close())
	s.must(os.WriteFile(filepath.Join(marks, "go"), []byte("go\n"), 0))
	err = <-result
	var refused *Refusal
	if errors.As(err, &refused) || err == nil || !strings.Contains(err.Error(), "0.a1 is in as job 1, but that is not written down: ") {
		t.Errorf("%v", err)
	}
	if got := s.calls(); len(got) != 1 {
		t.Errorf("it goes on without its ledger: %q", got)
	}
}

// A controller that crashed gives the id of the job that it lost to the next one.
func TestIDUsedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.stub("sbatch", `echo "$*" >>"$MARKS/../calls"; echo >>"$MARKS/n"; case $(wc -l <"$MARKS/n") in 1 | 2) echo 70 ;; 3) echo 72 ;; 4) echo 73 ;; *) echo 74 ;; esac`)
	s.must(s.submit(s.all(), Options{}))
	jobs, err := ledger.Read(s.run.JobsFile())
	s.must(err)
	got := map[string]string{}
	for _, j := range jobs {
		got[j.Name[strings.Index(j.Name, s.run.Plan.Tag)+len(s.run.Plan.Tag)+1:]] = string(j.Event) + " " + j.ID
	}
	want := map[string]string{"0.a1": "submitted 73", "1.a1": "submitted 70", "2.a1": "submitted 72", "collect.a1": "submitted 74"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := jobs[len(jobs)-1].Argv; !strings.Contains(strings.Join(last, " "), "afterany:70:72:73") {
		t.Errorf("%q", last)
	}
}

// The job that collects may be what gets the id of an array that was lost: it would wait for nobody.
func TestIDUsedByCollect(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.stub("sbatch", `echo >>"$MARKS/n"; case $(wc -l <"$MARKS/n") in 1) echo 70 ;; 2 | 3) echo 71 ;; 4) echo 72 ;; *) echo 73 ;; esac`)
	s.must(s.submit(s.all()[:2], Options{}))
	jobs, err := ledger.Read(s.run.JobsFile())
	s.must(err)
	var got []string
	for _, j := range jobs {
		got = append(got, fmt.Sprintf("%d.a%d %s %s", j.Array, j.Attempt, j.Event, j.ID))
	}
	if diff := cmp.Diff([]string{"0.a1 submitted 70", "1.a1 submitted 72", "-1.a1 submitted 71", "-1.a2 submitted 73"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := jobs[len(jobs)-1].Argv; !strings.Contains(strings.Join(last, " "), "afterany:72 ") {
		t.Errorf("%q", last)
	}
	// One that always loses what it took is not asked for ever.
	s = newSite(t, "")
	s.stub("sbatch", "echo 70")
	s.must(s.submit(s.all()[:1], Options{}))
}

// Stopped between two calls: no further one is made, and the caller hears of it.
func TestStoppedBetween(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.must(s.with(func(session *Session) error {
		ctx, cancel := context.WithCancel(t.Context())
		session.say = func(string, ...any) { cancel() } // what is told of the last array
		if err := session.Submit(ctx, s.all(), Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		return nil
	}))
	if got := s.calls(); len(got) != 1 {
		t.Errorf("%q", got)
	}
	s = newSite(t, "")
	s.must(s.with(func(session *Session) error {
		ctx, cancel := context.WithCancel(t.Context())
		session.say = func(string, ...any) { cancel() }
		if err := session.Submit(ctx, s.all()[:1], Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("the job that collects is missing in silence: %v", err)
		}
		return nil
	}))
}

// A ledger whose clock lies in the future must not keep the caller for longer than the wait itself.
func TestSettleIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	session := &Session{Run: s.run, slurm: s.slurm, say: s.say, settle: time.Millisecond}
	l, err := ledger.Open(t.Context(), s.run.JobsFile(), func() {})
	s.must(err)
	session.ledger = l
	id, err := session.clear(t.Context(), ledger.Job{Name: "x", Asked: time.Now().Add(time.Hour)})
	if s.must(err); id != "" {
		t.Errorf("%q", id)
	}
	s.must(session.Close())
}
