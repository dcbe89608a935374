package submit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/slurmtest"

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
	s.must(s.with(func(*Session) error {
		queued, err := Queued(t.Context(), s.slurm)
		if queued != 5 {
			t.Errorf("%d in the queue", queued)
		}
		return err
	}))
}

// TestAnotherName: a job that a person has given another name is known by what its worker has said, and by its id, as
// others may have that name.
func TestAnotherName(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.stub("squeue", `printf '%s\n' '|12|0|12|RUNNING|0|0|2026-11-30T11:00:00|2026-11-30T11:00:01|N/A|10:00|n2|gpu|4G|None|mine|' '|13|1|13|RUNNING|0|0|2026-11-30T11:00:00|2026-11-30T11:00:01|N/A|10:00|n2|gpu|4G|None|mine|'`)
	dir := s.run.LogDir(0, 0, 1, 0)
	s.must(os.MkdirAll(dir, 0o755))
	s.must(os.WriteFile(filepath.Join(dir, folder.EventsFile), []byte(`{"msg":"start","job":"12_0","name":"mine"}`+"\n"), 0o644))
	s.must(s.with(func(session *Session) error {
		if !session.Busy(0, 0) || session.Busy(0, 1) {
			t.Errorf("busy: %v, and one of another job: %v", session.Busy(0, 0), session.Busy(0, 1))
		}
		ended, err := session.Cancel(t.Context(), false)
		if diff := cmp.Diff([]string{"12"}, ended.IDs); diff != "" {
			t.Errorf("cancelled (-want +got):\n%s", diff)
		}
		return err
	}))
}

// TestQueueSilent: accounting's rows come late, so that without the queue's word a task that waits may seem to be gone.
func TestQueueSilent(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.must(s.submit(s.all()[:1], Options{}))
	s.stub("squeue", "echo 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2; exit 1")
	s.must(os.Remove(filepath.Join(s.slurm.Bin, "sacct")))
	slurmtest.Executable(t, filepath.Join(s.slurm.Bin, "sacct"), "#!/bin/sh\n")
	err := s.with(func(*Session) error { t.Error("it goes on"); return nil })
	if err == nil || !strings.Contains(err.Error(), "Socket timed out") {
		t.Errorf("%v", err)
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
