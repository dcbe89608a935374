package submit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/slurm"
	"cpbench/slurm/ledger"

	"github.com/google/go-cmp/cmp"
)

func TestSubmit(t *testing.T) {
	t.Parallel()
	s := newSite(t, `echo "$@" >>"$(dirname "$0")/../ran"`)
	s.must(s.submit(s.all(), Options{Exclude: []string{"n3"}, GoOn: []string{"--go-on", "it's"}}))
	want := []string{
		"--array=0-3%2 --exclude=n9,n3 array-0.sbatch",
		"--array=0-1%1 --exclude=n9,n3 array-1.sbatch",
		"--array=0 --exclude=n9,n3 array-2.sbatch",
		"--dependency=afterany:1:5:7 --kill-on-invalid-dep=yes collect.sbatch",
	}
	if diff := cmp.Diff(want, s.calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	s.ended()
	ran, err := os.ReadFile(filepath.Join(s.run.Dir, "ran"))
	s.must(err)
	if lines := strings.Split(strings.TrimSpace(string(ran)), "\n"); len(lines) != 9 ||
		!strings.HasPrefix(lines[7], "collect "+s.run.Dir) || lines[8] != "submit --run "+s.run.Dir+" --go-on it's" {
		t.Errorf("not seven tasks, then the table, then the rest:\n%s", ran)
	}
	// Again: what has ended is known, so that each task would be another attempt; that is for the caller to decide.
	s.must(s.with(func(session *Session) error {
		if session.Busy(0, 0) || session.Tries()[[2]int{0, 3}] != 1 || !session.Snapshot().Known(slurm.Job{Run: s.run, Array: 1, Attempt: 1}.Name()) {
			t.Errorf("busy %v, tries %v", session.Busy(0, 0), session.Tries())
		}
		return session.Submit(t.Context(), nil, Options{})
	}))
	if n := len(s.calls()); n != 4 {
		t.Errorf("nothing was wanted, and there are %d calls", n)
	}
	s.must(s.submit([]Want{{Array: 1, Tasks: []int{1}, Again: []string{"error", "timeout"}}}, Options{}))
	if diff := cmp.Diff([]string{"--array=1 array-1.a2.sbatch", "--dependency=afterany:9 --kill-on-invalid-dep=yes collect.a2.sbatch"}, s.calls()[4:]); diff != "" {
		t.Errorf("another attempt (-want +got):\n%s", diff)
	}
	script, err := os.ReadFile(s.run.Script(1, 2))
	s.must(err)
	if !strings.Contains(string(script), "--attempt 2 --again error,timeout --task") {
		t.Errorf("%s", script)
	}
}

// A task that waits or runs is busy, and a job that collects comes after it even if nothing else is submitted.
func TestBusy(t *testing.T) {
	t.Parallel()
	s := newSite(t, `[ "$1" != worker ] || sleep 60`)
	// A person has given a script to sbatch.
	script, err := os.ReadFile(s.run.Script(0, 1))
	s.must(err)
	_, err = s.slurm.Submit(t.Context(), script)
	s.must(err)
	s.must(s.with(func(session *Session) error {
		if !session.Busy(0, 3) || session.Busy(1, 0) {
			t.Error("busy")
		}
		return session.Submit(t.Context(), nil, Options{})
	}))
	if got := s.calls()[1:]; len(got) != 1 || got[0] != "--dependency=afterany:1 --kill-on-invalid-dep=yes collect.sbatch" {
		t.Errorf("calls %q", got)
	}
	s.must(s.submit(nil, Options{}))
	if got := s.calls(); len(got) != 2 {
		t.Errorf("a job that collects is there already: %q", got)
	}
	s.must(s.with(func(session *Session) error {
		queued, err := session.Queued(t.Context())
		if queued != 5 {
			t.Errorf("%d in the queue", queued)
		}
		return err
	}))
}

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

func TestRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.trouble("refuse:.1.a1")
	err := s.submit(s.all(), Options{})
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Job == nil || refused.Job.Array != 1 || len(refused.In) != 1 || !strings.Contains(err.Error(), "QOSMaxSubmitJobPerUserLimit") {
		t.Fatalf("%v %+v", err, refused)
	}
	want := []string{"--array=0-3%2 array-0.sbatch", "--array=0-1%1 array-1.sbatch", "--dependency=afterany:1 --kill-on-invalid-dep=yes collect.sbatch"}
	if diff := cmp.Diff(want, s.calls()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.trouble("")
	s.must(s.submit(s.all()[1:], Options{}))
	if diff := cmp.Diff([]string{"--array=0-1 array-1.sbatch", "--array=0 array-2.sbatch"}, s.calls()[3:5]); diff != "" {
		t.Errorf("an attempt that was refused is free (-want +got):\n%s", diff)
	}
	// The job that collects is refused: the arrays stay.
	s = newSite(t, "")
	s.trouble("refuse:collect")
	err = s.submit(s.all(), Options{})
	if !errors.As(err, &refused) || refused.Job != nil || len(refused.In) != 3 {
		t.Errorf("%v %+v", err, refused)
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

// Two at once: the second waits, and then finds everything in the queue.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, `[ "$1" != worker ] || sleep 60`)
	first, err := Open(t.Context(), s.slurm, s.run, s.say)
	s.must(err)
	waits, result := make(chan struct{}), make(chan error)
	go func() {
		second, err := Open(t.Context(), s.slurm, s.run, func(string, ...any) { close(waits) })
		if err == nil {
			err = second.Look(t.Context())
		}
		if err == nil && (!second.Busy(0, 0) || !second.Busy(2, 0)) {
			err = errors.New("the tasks of the first are not seen")
		}
		if err == nil {
			err = second.Submit(t.Context(), nil, Options{})
		}
		result <- errors.Join(err, second.Close())
	}()
	<-waits
	s.must(first.Submit(t.Context(), s.all(), Options{}))
	s.must(first.Close())
	s.must(<-result)
	if got := s.calls(); len(got) != 4 {
		t.Errorf("calls %q", got)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		parallel int
		tasks    []int
		want     []int
	}{
		{0, []int{5, 5}, []int{0, 0}},
		{4, []int{10, 10}, []int{2, 2}},
		{8, []int{100, 1, 100}, []int{3, 1, 4}},
		{5, []int{10, 10, 10}, []int{1, 2, 2}},
		{2, []int{9, 9, 9}, []int{1, 1, 1}},
		{9, []int{2, 3}, []int{2, 3}},
		{7, []int{50}, []int{7}},
	} {
		var wants []Want
		for i, n := range tt.tasks {
			wants = append(wants, Want{Array: i, Tasks: indices(n)})
		}
		got := share(tt.parallel, wants)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("share(%d, %v) (-want +got):\n%s", tt.parallel, tt.tasks, diff)
		}
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	wants := []Want{{Array: 0, Tasks: []int{3, 4, 5}}, {Array: 2, Tasks: []int{0, 1}}}
	for n, want := range map[int][]Want{
		-1: nil, 0: nil,
		2: {{Array: 0, Tasks: []int{3, 4}}},
		4: {{Array: 0, Tasks: []int{3, 4, 5}}, {Array: 2, Tasks: []int{0}}},
		9: wants,
	} {
		got, rest := Room(wants, n)
		if diff := cmp.Diff(want, got); diff != "" || Count(got) > max(n, 0) {
			t.Errorf("Room(%d) (-want +got):\n%s", n, diff)
		}
		tasks := map[[2]int]bool{}
		for _, w := range append(got, rest...) {
			for _, task := range w.Tasks {
				tasks[[2]int{w.Array, task}] = true
			}
		}
		if Count(got)+Count(rest) != 5 || len(tasks) != 5 {
			t.Errorf("Room(%d) loses or repeats tasks: %v and %v", n, got, rest)
		}
	}
}

func TestTasksText(t *testing.T) {
	t.Parallel()
	text := TasksText([]Want{{Array: 0, Tasks: []int{3, 4, 5, 9}}, {Array: 12, Tasks: []int{0}}})
	if text != "0:3-5,9/12:0" {
		t.Error(text)
	}
	got, err := ParseTasks(text)
	want := map[[2]int]bool{{0, 3}: true, {0, 4}: true, {0, 5}: true, {0, 9}: true, {12, 0}: true}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"", "3-5", "a:1", "0:5-3", "0:1/", "0:x"} {
		if got, err := ParseTasks(bad); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

// Where the queue has no room, the job that collects looks again later, once; and it ends with the run.
func TestLater(t *testing.T) {
	t.Parallel()
	s := newSite(t, "sleep 60")
	later := Options{GoOn: []string{"--go-on", "0:1"}, Later: 10 * time.Minute}
	s.must(s.submit(nil, later))
	if diff := cmp.Diff([]string{"--begin=now+600 collect.sbatch"}, s.calls()); diff != "" || !s.heard("looks again in 10m0s") {
		t.Errorf("told %q (-want +got):\n%s", s.told, diff)
	}
	s.must(s.with(func(session *Session) error {
		ended, err := session.Cancel(t.Context(), true)
		if len(ended.IDs) != 1 || ended.Collectors != 1 {
			t.Errorf("it would go on by itself: %+v", ended)
		}
		return err
	}))
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

func TestDryRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.must(s.submit(s.all()[:1], Options{}))
	session, err := Peek(t.Context(), s.slurm, s.run)
	s.must(err)
	before, err := os.ReadFile(s.run.JobsFile())
	s.must(err)
	got, err := session.DryRun(s.all()[:2], Options{})
	s.must(err)
	for i, line := range got {
		got[i] = strings.ReplaceAll(strings.ReplaceAll(line, strings.ReplaceAll(s.run.Dir, "'", `'\''`), "RUN"), s.run.Dir, "RUN")
	}
	joined := strings.Join(got, "\n")
	for _, want := range []string{"job0=$(sbatch --parsable ", "array-0.a2.sbatch", "array-1.sbatch", `afterany:"$job0":"$job1" `, "collect.a2.sbatch"} {
		if !strings.Contains(joined, want) {
			t.Errorf("no %s in:\n%s", want, joined)
		}
	}
	after, err := os.ReadFile(s.run.JobsFile())
	if s.must(err); string(before) != string(after) || len(s.calls()) != 2 {
		t.Error("something was written")
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t, `[ "$1" != worker ] || exec sleep 60`)
	s.must(s.submit(s.all()[1:], Options{}))
	script, err := os.ReadFile(s.run.Script(0, 1))
	s.must(err)
	_, err = s.slurm.Submit(t.Context(), script) // by a person
	s.must(err)
	cancel := func(keep bool) Ended {
		t.Helper()
		var ended Ended
		s.must(s.with(func(session *Session) (err error) { ended, err = session.Cancel(t.Context(), keep); return err }))
		return ended
	}
	s.must(s.with(func(session *Session) error {
		if session.Stopped() {
			t.Error("nobody has cancelled yet")
		}
		return nil
	}))
	first := cancel(true)
	if len(first.IDs) != 3 || first.Running+first.Waiting != 7 || first.Collectors != 0 {
		t.Errorf("%+v", first)
	}
	s.ended()
	if again := cancel(false); len(again.IDs) != 0 {
		t.Errorf("a second time: %+v", again)
	}
	s.must(s.with(func(session *Session) error {
		if !session.Stopped() {
			t.Error("a job that collects would go on")
		}
		return session.Submit(t.Context(), s.all()[:1], Options{})
	}))
	s.must(s.with(func(session *Session) error {
		if session.Stopped() {
			t.Error("submitted anew, and still stopped")
		}
		return nil
	}))
	if last := cancel(false); len(last.IDs) != 2 || last.Collectors != 1 {
		t.Errorf("with the job that collects: %+v", last)
	}
	s.ended()
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
