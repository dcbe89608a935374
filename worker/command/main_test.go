package command

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/plan/folder/foldertest"
	"cpbench/worker"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// Tests with real processes must not run in parallel with one another: a run ends all descendants of its process.

// stage is an open session with what it writes.
type stage struct {
	t    testing.TB
	dir  string // of the spec
	run  *folder.Run
	task plan.Task
	job  worker.Job
	log  lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// prog is the program of most tests: a shell script with its behaviour as the first argument and the size as the
// second. It writes what a predictor writes.
const prog = `
case $1 in
good) mkdir -p out/a; echo "data_$2" >out/a/model.cif; echo "sampling took 0.5 s"; echo "sampling took 1.25 s"; echo '{"plddt": {"mean": 0.75}, "runs": [{"ms": 12}]}' >out/confidence.json;;
empty) mkdir -p out/a; : >out/a/model.cif;;
quiet) ;;
exit) echo "something is wrong"; exit 3;;
abort) kill -ABRT $$;;
kill) kill -KILL $$;;
kernel) echo "oom_kill 6" >"$3"; kill -KILL $$;;
shell-kill) bash -c 'kill -KILL $$'; exit 137;;
oom) echo "Traceback (most recent call last):" >&2; echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free." >&2; exit 1;;
oom-free) echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 2.00 GiB is free." >&2; exit 1;;
swallow) echo "| WARNING: ran out of memory: CUDA out of memory. Tried to allocate 2.00 GiB, skipping batch"; exit 0;;
own-words) echo "not enough space on the accelerator"; exit 0;;
pressure) mkdir -p out/a; echo "WARNING: CUDA out of memory. Tried to allocate 2.00 GiB, trying again in chunks"; echo data >out/a/model.cif;;
suspect) echo "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"; exit 1;;
suspect-once) if mkdir "$3" 2>/dev/null; then echo "CUBLAS_STATUS_ALLOC_FAILED"; exit 1; fi; mkdir -p out/a; echo data >out/a/model.cif;;
too-big) echo "RuntimeError: CUDA error: invalid configuration argument"; exit 1;;
hang) sleep 60 & setsid sleep 61 & echo waiting; wait;;
hang-oom) echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."; sleep 60;;
hang-warning) echo "WARNING: CUDA out of memory, trying again"; sleep 60;;
stubborn) trap '' TERM; echo waiting; while :; do sleep 1; done;;
leftover) sleep 60 & mkdir -p out/a; echo data >out/a/model.cif;;
third) n=$(cat "$3" 2>/dev/null || echo 0); echo $((n+1)) >"$3"; mkdir -p out/a; echo data >out/a/model.cif; [ "$n" -lt 3 ];;
late) n=$(cat "$3" 2>/dev/null || echo 0); echo $((n+1)) >"$3"; if [ "$n" = 3 ]; then exec bash "$0" suspect; fi; exec bash "$0" good;;
stale-json) mkdir -p out/a; echo data >out/a/model.cif;;
above) if [ "$2" -gt "$3" ]; then exec bash "$0" oom; fi; exec bash "$0" good "$2";;
free-above) if [ "$2" -gt "$3" ]; then exec bash "$0" oom-free; fi; exec bash "$0" good "$2";;
oom-spoilt) : >"$USED.spoilt"; exec bash "$0" oom;;
tell) echo "peak $2 MiB"; exec bash "$0" above "$2" "$3";;
swallow-above) if [ "$2" -gt "$3" ]; then exec bash "$0" swallow; fi; exec bash "$0" good "$2";;
big-above) if [ "$2" -gt "$3" ]; then exec bash "$0" too-big; fi; exec bash "$0" good "$2";;
exit-above) if [ "$2" -gt "$3" ]; then exec bash "$0" exit; fi; exec bash "$0" good "$2";;
hang-above) if [ "$2" -gt "$3" ]; then exec bash "$0" hang; fi; exec bash "$0" good "$2";;
greedy) printf %s "$2" >"$USED"; until grep -q "\"memory_used_bytes\":$(($2 << 20))[,}]" "$TELEMETRY"; do sleep 0.05; done; printf 1024 >"$USED"
  if [ "$2" -gt "$3" ]; then exec bash "$0" oom; fi; exec bash "$0" good "$2";;
nap) sleep 0.3; exec bash "$0" good "$2";;
nap-above) if [ "$2" -gt "$3" ]; then sleep 1.5; fi; exec bash "$0" good "$2";;
env) env; mkdir -p out/a; echo data >out/a/model.cif;;
pwd) pwd; mkdir -p out/a; echo data >out/a/model.cif;;
*) echo "unknown behaviour $1"; exit 99;;
esac
`

// spec is a sweep with one size that runs prog; with adds lines to the workload or, as `env:`, beside it.
func spec(behaviour string, with ...string) string {
	text := "version: 1\nname: command\nmatrix: {tokens: [16]}\nworkload:\n  kind: command\n  command: [bash, PROG, " + behaviour + "]\n  point: {tokens: tokens}\n"
	last := ""
	for _, line := range append(with, "timeout: 20s", "warmup: 0", "iterations: 1", "artifact: out/*/model.cif") {
		key, _, _ := strings.Cut(line, ":")
		switch {
		case key == "env":
			last += line + "\n"
		case line == "artifact: none":
			text += "  # artifact:\n"
		case !strings.Contains(text, "\n  "+key+":") && !strings.Contains(text, "# "+key+":"):
			text += "  " + line + "\n"
		}
	}
	return text + last
}

// newStage plans a spec into a run folder. PROG in its text is the path of prog, DIR that of the spec.
func newStage(t testing.TB, text string) *stage {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `it's a "run" [1]`)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	quoted := func(path string) string {
		q, err := json.Marshal(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(q)
	}
	program := filepath.Join(dir, "prog.sh")
	if err := os.WriteFile(program, []byte(prog), 0o600); err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "PROG", quoted(program))
	text = strings.ReplaceAll(text, "STATE", quoted(filepath.Join(dir, "state")))
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := foldertest.New(t, text, foldertest.Options{Runs: dir, Source: filepath.Join(dir, "sweep.yaml"), Binary: binary})
	task, err := run.Task(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	st := &stage{t: t, dir: dir, run: run, task: task}
	st.job = worker.Job{Run: run, Task: task, LogDir: run.LogDir(0, 0, 1, 0), Log: slog.New(slog.NewJSONHandler(&st.log, nil))}
	if err := os.MkdirAll(st.job.LogDir, 0o700); err != nil {
		t.Fatal(err)
	}
	return st
}

// perform runs pair i of the task and checks that nothing is left of it. The time is that of Run.
func (st *stage) perform(ctx context.Context, i int) (*result.Result, []result.Sample, time.Duration) {
	st.t.Helper()
	session, err := Open(ctx, st.job)
	if err != nil {
		st.t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	r := &result.Result{
		Schema: result.Schema, Plan: st.run.Plan.Digest, Point: st.task.Pairs[i].ID, Repeat: 1, Attempt: 1,
		Metrics: map[string]*float64{}, Provenance: map[string]string{"host": "here"},
	}
	began := time.Now()
	samples := session.Run(ctx, st.task.Pairs[i], r)
	took := time.Since(began)
	if err := session.Close(); err != nil {
		st.t.Error(err)
	}
	if left, err := tree.Descendants(); err != nil || len(left) > 0 {
		st.t.Errorf("processes are left: %v, %v", left, err)
	}
	for n := runtime.NumGoroutine(); n > before; n = runtime.NumGoroutine() {
		if time.Since(began) > took+5*time.Second {
			st.t.Errorf("%d goroutines are left", n-before)
			break
		}
		time.Sleep(time.Millisecond) // a goroutine that has called its last function may still be counted
	}
	if err := result.Write(st.run.ResultsDir(), r); err != nil {
		st.t.Errorf("the result cannot be written: %v", err)
	}
	st.t.Logf("%s after %v: %s\n%s", r.Outcome, took.Round(time.Millisecond), r.Reason, r.Evidence)
	return r, samples, took
}

// only performs the single pair of a spec.
func only(t *testing.T, text string) (*stage, *result.Result, time.Duration) {
	t.Helper()
	st := newStage(t, text)
	r, _, took := st.perform(t.Context(), 0)
	return st, r, took
}

// logs are the outputs of the runs, by the end of their names.
func (st *stage) logs() map[string]string {
	st.t.Helper()
	found, err := filepath.Glob(filepath.Join(escape(st.job.LogDir, `*?[\`), "*.log"))
	if err != nil {
		st.t.Fatal(err)
	}
	logs := map[string]string{}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			st.t.Fatal(err)
		}
		_, name, _ := strings.Cut(filepath.Base(path), "-")
		logs[strings.TrimSuffix(name, ".log")] = string(text)
	}
	return logs
}

func warned(r *result.Result, code catalogue.Code) bool {
	for _, w := range r.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}
