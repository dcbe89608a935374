package trail

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// started makes the logs of a task under Slurm whose worker has begun.
func started(t *testing.T) (*folder.Run, Execution) {
	t.Helper()
	run := &folder.Run{Dir: filepath.Join(t.TempDir(), "it's a run")}
	dir := run.LogDir(0, 0, 1, 0)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, folder.EventsFile), []byte(`{"time":"2026-11-30T12:00:00Z","msg":"start","job":"7_0","node":"n1"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return run, Execution{Pair: plan.Pair{Point: plan.Point{ID: "0123456789abcdef"}, Repeat: 1}}
}

// TestFollow asks the scheduler at once and after each silence, tells each word of it once, and ends with what it says.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run, of := started(t)
		var out strings.Builder
		var asked []time.Duration
		var said []string
		began := time.Now()
		fates := []Fate{{Words: "it waits"}, {Words: "it waits"}, {}, {Over: true, Words: "it was killed"}}
		fate := func(context.Context) Fate {
			asked = append(asked, time.Since(began).Round(time.Minute))
			return fates[len(asked)-1]
		}
		why, err := New(run, of, AllRanks, &out, filepath.Base).Follow(t.Context(), fate, func(words string) { said = append(said, words) })
		if err != nil || why != "it was killed" {
			t.Errorf("%q, %v", why, err)
		}
		if diff := cmp.Diff([]time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute}, asked); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"it waits"}, said); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if want := "==> events.jsonl <==\n2026-11-30T12:00:00Z start job=7_0 node=n1\n"; out.String() != want {
			t.Errorf("%q", out.String())
		}
	})
}

// TestFollowUntilMeasured: a result of the newest attempt ends it, also one that came while the scheduler was asked.
func TestFollowUntilMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run, of := started(t)
		shard := filepath.Join(run.ResultsDir(), of.ID[:2])
		if err := os.MkdirAll(shard, 0o755); err != nil {
			t.Fatal(err)
		}
		leave := func(attempt int) {
			if err := os.WriteFile(filepath.Join(shard, result.Name(of.ID, of.Repeat, attempt, 0)+result.Ext), nil, 0o644); err != nil {
				t.Error(err)
			}
		}
		leave(0) // of an older attempt
		fate := func(context.Context) Fate {
			leave(1)
			return Fate{Over: true, Words: "it has ended and left no result"}
		}
		var out strings.Builder
		why, err := New(run, of, AllRanks, &out, filepath.Base).Follow(t.Context(), fate, func(words string) { t.Errorf("said: %s", words) })
		if err != nil || why != "" || !strings.Contains(out.String(), "start") {
			t.Errorf("%q, %v, %q", why, err, out.String())
		}
	})
}

func TestFollowIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		run := &folder.Run{Dir: t.TempDir()}
		var said []string
		_, err := New(run, Execution{Pair: plan.Pair{Point: plan.Point{ID: "0123456789abcdef"}}}, AllRanks, &strings.Builder{}, filepath.Base).
			Follow(ctx, func(context.Context) Fate { return Fate{} }, func(words string) { said = append(said, words) })
		if diff := cmp.Diff([]string{"waiting for the task to start"}, said); !errors.Is(err, context.DeadlineExceeded) || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}
