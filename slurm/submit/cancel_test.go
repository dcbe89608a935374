package submit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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

// TestLeftHandedOver: between the look at the ledger and that at the queue, a job that collects submits the next tasks and
// ends. Nothing that was in the ledger is in the queue then, and the run has not ended.
func TestLeftHandedOver(t *testing.T) {
	t.Parallel()
	s := newSite(t, `case "$*" in worker*"--attempt 2 "*) exec sleep 60 ;; esac`)
	s.must(s.submit(s.all()[:1], Options{}))
	s.ended()
	before, err := os.ReadFile(s.run.JobsFile())
	s.must(err)
	s.must(s.submit(s.all()[:1], Options{}))
	after := filepath.Join(s.TempDir(), "jobs.jsonl")
	s.must(os.Rename(s.run.JobsFile(), after))
	s.must(os.WriteFile(s.run.JobsFile(), before, 0o600))
	s.stub("squeue", `if [ -e "$AFTER" ]; then mv "$AFTER" "$LEDGER"; exit 0; fi; exec "$REAL/squeue" "$@"`)
	s.slurm.Env = append(s.slurm.Env, "AFTER="+after, "LEDGER="+s.run.JobsFile())
	left, err := Left(t.Context(), s.slurm, s.run)
	if s.must(err); left != 5 {
		t.Errorf("%d left, want four tasks and the job that collects", left)
	}
	s.must(s.with(func(session *Session) error { _, err := session.Cancel(t.Context(), false); return err }))
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
