package command

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/node"
	"cpbench/worker/result"
)

// quick is less than the grace for TERM.
const quick = 3 * time.Second

// Every way in which a program ends has its outcome, and nothing is left running.
func TestEndings(t *testing.T) {
	const torch = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"
	tests := []struct {
		name     string
		text     string
		outcome  catalogue.Outcome
		reason   string
		evidence string
		warning  catalogue.Code
	}{
		{"good", spec("good"), catalogue.OK, "", "", ""},
		{"no file asked for", spec("quiet", "artifact: none"), catalogue.OK, "", "", ""},
		{"no file", spec("quiet"), catalogue.NoArtifact, `the program ended with exit code 0, but no file matches "out/*/model.cif"`, "", ""},
		{"empty file", spec("empty"), catalogue.NoArtifact, "the program ended with exit code 0, but out/a/model.cif is empty", "", ""},
		{"exit code", spec("exit"), catalogue.Error, "the program ended with exit code 3", "something is wrong", ""},
		{"signal", spec("abort"), catalogue.Error, "the program was ended by signal 6 (aborted)", "", ""},
		{"killed", spec("kill"), catalogue.Error, "the program was ended by signal 9 (killed); nothing shows that memory was the reason", "", ""},
		{"killed below a shell", spec("shell-kill"), catalogue.Error, "the program ended with exit code 137, as shells tell signal 9", "", ""},
		{"out of memory", spec("oom"), catalogue.OOMDevice, "the program ended with exit code 1", torch, ""},
		{"swallowed", spec("swallow"), catalogue.OOMDevice, `the program ended with exit code 0, but no file matches "out/*/model.cif"`, "ran out of memory: CUDA out of memory. Tried to allocate 2.00 GiB, skipping batch", ""},
		{"words of its own", spec("own-words"), catalogue.NoArtifact, "", "not enough space", ""},
		{"words of its own, declared", spec("own-words", "oom_patterns: [no such, 'not enough .* accelerator']"), catalogue.OOMDevice, "", "not enough space on the accelerator", ""},
		{"recovered", spec("pressure"), catalogue.OK, "", "", catalogue.MemoryPressure},
		{"declared words of a good run", spec("good", "oom_patterns: [sampling]"), catalogue.OK, "", "", catalogue.MemoryPressure},
		{"suspect twice", spec("suspect"), catalogue.OOMSuspect, "the program ended with exit code 1", "CUBLAS_STATUS_ALLOC_FAILED", ""},
		{"refused twice what is free", spec("oom-free"), catalogue.OOMDevice, "the program ended with exit code 1; the request is not larger than the memory that is free", "of which 2.00 GiB is free", ""},
		{"suspect once", spec("suspect-once, '16', STATE"), catalogue.OK, "", "", ""},
		{"a limit", spec("too-big"), catalogue.TooBig, "the program ended with exit code 1", "RuntimeError: CUDA error: invalid configuration argument", ""},
		{"left behind", spec("leftover"), catalogue.OK, "", "", ""},
		{"too long", spec("hang", "timeout: 500ms"), catalogue.Timeout, "one run took longer than workload.timeout (500ms)", "waiting", ""},
		{"too long after a memory error", spec("hang-oom", "timeout: 500ms"), catalogue.OOMDevice, "ran out of memory and did not end by itself", "torch.OutOfMemoryError", ""},
		{"too long after a warning", spec("hang-warning", "timeout: 500ms"), catalogue.Timeout, "one run took longer than workload.timeout (500ms)", "trying again", ""},
		{"does not want to end", spec("stubborn", "timeout: 500ms"), catalogue.Timeout, "one run took longer than workload.timeout (500ms)", "waiting", catalogue.LateKill},
		{"no program", strings.Replace(spec("good"), "bash", "./none", 1), catalogue.Error, "the program could not be started", "./none: ", ""},
		{"no folder", spec("good", "workdir: not/there"), catalogue.Error, "the program could not be started in workload.workdir", "not/there", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, r, took := only(t, tt.text)
			if r.Outcome != tt.outcome || tt.reason != "" && r.Reason != tt.reason || !strings.Contains(r.Evidence, tt.evidence) {
				t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
			}
			if tt.outcome == catalogue.OK && (r.Reason != "" || r.Evidence != "" || r.Steps == nil || r.Steps.N != 1) {
				t.Errorf("%q, %q, %+v", r.Reason, r.Evidence, r.Steps)
			}
			// One run is few, of which every good result has to warn; beside that there is one warning or none.
			few := tt.outcome == catalogue.OK
			want := 0
			for _, given := range []bool{few, tt.warning != ""} {
				if given {
					want++
				}
			}
			if tt.warning != "" && !warned(r, tt.warning) || warned(r, catalogue.NSmall) != few || len(r.Warnings) != want {
				t.Errorf("warnings %v, want %q", r.Warnings, tt.warning)
			}
			limit := quick
			if tt.warning == catalogue.LateKill {
				limit = 10 * time.Second
			}
			if took > limit {
				t.Errorf("took %v, want less than %v", took, limit)
			}
		})
	}
}

// The kernel's counter makes a killed process an out-of-memory of the host; other failures stay what they are.
func TestWitnessOfAKill(t *testing.T) {
	t.Parallel()
	f := finish{kills: node.Killed{N: 1, Where: "/sys/fs/cgroup/memory.events"}, missing: "no file"}
	for name, tt := range map[string]struct {
		text string
		want catalogue.Outcome
	}{
		"a launcher tells":   {"ChildFailedError\n exitcode  : -9 (pid: 7)", catalogue.OOMHost},
		"another failure":    {"ValueError: no such file", catalogue.Error},
		"the device as well": {"exitcode : -9\nCUDA out of memory", catalogue.OOMDevice},
	} {
		f.text = tt.text
		if end := f.judge(); end.Outcome != tt.want || tt.want == catalogue.OOMHost && !strings.HasPrefix(end.Evidence, "oom_kill +1 in /sys/fs/cgroup/memory.events\n") {
			t.Errorf("%s: %+v", name, end)
		}
	}
	f.kills, f.text = node.Killed{}, "exitcode : -9"
	if end := f.judge(); end.Outcome != catalogue.Error {
		t.Errorf("without a kill: %+v", end)
	}
	f.kills.Lost = "n2 no longer answers: its agent has ended"
	if end := f.judge(); end.Outcome != catalogue.Infra || !strings.HasSuffix(end.Reason, "; "+f.kills.Lost) {
		t.Errorf("a node was lost: %+v", end)
	}
	r := &result.Result{}
	finish{kills: node.Killed{N: 2}}.doubts(r)
	if !warned(r, catalogue.MemoryPressure) {
		t.Error("no warning about a good run in which a process was killed")
	}
}

// A whole run with a kernel that counts.
func TestKilledByTheKernel(t *testing.T) {
	st := newStage(t, spec("kernel, '16', STATE"))
	root := filepath.Join(st.dir, "root")
	for name, text := range map[string]string{"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.events": "oom_kill 5\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "sys/fs/cgroup/job/memory.events"), filepath.Join(st.dir, "state")); err != nil {
		t.Fatal(err)
	}
	open, err := Open(t.Context(), st.job)
	if err != nil {
		t.Fatal(err)
	}
	s := open.(*session)
	s.nodes.Close()
	s.nodes = node.Open(node.Config{Self: node.Options{Root: root}, Log: st.job.Log})
	r := &result.Result{}
	open.Run(t.Context(), st.task.Pairs[0], r)
	want := "the program was ended by signal 9 (killed): the kernel killed for lack of host memory"
	if r.Outcome != catalogue.OOMHost || r.Reason != want || r.Evidence != "oom_kill +1 in /sys/fs/cgroup/job/memory.events" {
		t.Errorf("%s: %q: %q", r.Outcome, r.Reason, r.Evidence)
	}
}

// A signal ends the run: what was measured before stays, with the doubt.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	st := newStage(t, spec("hang"))
	go func() {
		for ctx.Err() == nil {
			if found, _ := filepath.Glob(filepath.Join(escape(st.job.LogDir, `*?[\`), "*-run-1.log")); len(found) == 1 && strings.Contains(tail(found[0], 100), "waiting") {
				cancel(worker.ErrSignal)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r, samples, took := st.perform(ctx, 0)
	if r.Outcome != catalogue.Cancelled || r.Reason != worker.ErrSignal.Error() || took > quick || len(samples) > 0 {
		t.Errorf("%s: %q after %v, %d samples", r.Outcome, r.Reason, took, len(samples))
	}
	// A TERM that reached the program a moment earlier than the worker.
	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	st = newStage(t, spec("exit"))
	time.AfterFunc(300*time.Millisecond, func() { cancel(worker.ErrSignal) })
	if r, _, _ := st.perform(ctx, 0); r.Outcome != catalogue.Cancelled {
		t.Errorf("%s: %q", r.Outcome, r.Reason)
	}
}

// A failure within the timed runs keeps those before it.
func TestFailureAfterTimedRuns(t *testing.T) {
	st := newStage(t, spec("third, '16', STATE", "warmup: 1", "iterations: 5"))
	r, samples, _ := st.perform(t.Context(), 0)
	if r.Outcome != catalogue.Error || r.Steps == nil || r.Steps.N != 2 || len(samples) != 2 || !warned(r, catalogue.Interrupted) {
		t.Errorf("%s, %+v, %d samples, %v", r.Outcome, r.Steps, len(samples), r.Warnings)
	}
	if r.Metrics[catalogue.FirstStepSeconds] == nil || r.Metrics[catalogue.StepSeconds] == nil {
		t.Errorf("metrics %v", r.Metrics)
	}
	var names []string
	for name := range st.logs() {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"r1-run-1", "r1-run-2", "r1-run-3", "r1-warmup-1"}; !slices.Equal(names, want) {
		t.Errorf("logs %v, want %v", names, want)
	}
	// Of good runs only the last folder would stay; here the last good one is not the last of the pair.
	left, err := os.ReadDir(filepath.Join(st.job.LogDir, "work"))
	if err != nil || len(left) != 1 || !strings.HasSuffix(left[0].Name(), "-r1-run-3") {
		t.Errorf("folders %v, %v", left, err)
	}
}

// What a program cannot be asked to do ends in Open, in words.
func TestOpenRefuses(t *testing.T) {
	for text, want := range map[string]string{
		spec("good", "metrics: [{name: step_seconds, regex: 'took ([0-9.]+)', unit: parsec}]"): `workload.metrics[0]: step_seconds is in seconds, and the unit "parsec" cannot be converted to that`,
	} {
		st := newStage(t, text)
		if s, err := Open(t.Context(), st.job); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %s", s, err, want)
		}
	}
}

// Where a second execution settles a suspicion, nothing is left of the first.
func TestSuspicionAfterTimedRuns(t *testing.T) {
	st := newStage(t, spec("late, '16', STATE", "warmup: 1", "iterations: 5"))
	r, samples, _ := st.perform(t.Context(), 0)
	if r.Outcome != catalogue.OK || r.Steps == nil || r.Steps.N != 5 || len(samples) != 5 || warned(r, catalogue.Interrupted) {
		t.Errorf("%s, %+v, %d samples, %v", r.Outcome, r.Steps, len(samples), r.Warnings)
	}
}
