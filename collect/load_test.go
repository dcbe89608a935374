package collect

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/plan/folder/foldertest"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

const sweep = `version: 1
name: t
matrix: {cp: [1, 4], tokens: [64, 128]}
repeats: 2
order: as-written
pack: [tokens]
workload:
  kind: model
  mode: inference
  command: ["true"]
  ranks: cp
  topology: 2d
  dtype: bf16
  point: {tokens: tokens}
`

var stamp = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newRun freezes a sweep.
func newRun(t testing.TB, yaml string) *folder.Run {
	t.Helper()
	return foldertest.New(t, yaml, foldertest.Options{At: stamp})
}

// each gives every planned execution of the run, with a result to edit and write.
func each(t testing.TB, run *folder.Run, visit func(task plan.Task, pair plan.Pair, r *result.Result)) {
	t.Helper()
	for _, a := range run.Plan.Arrays {
		tasks, err := run.Tasks(a.Index)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			for _, pair := range task.Pairs {
				r := &result.Result{
					Schema: result.Schema, Plan: run.Plan.Digest, Key: run.Plan.Key, Run: run.Name(),
					Point: pair.ID, Case: pair.Case, Repeat: pair.Repeat, Attempt: 1, Array: task.Array, Task: task.Index,
					Outcome: catalogue.OK, Provenance: map[string]string{"host": "n1"}, Started: stamp, Ended: stamp.Add(time.Minute),
				}
				if pair.Case != "" {
					r.Key = run.Plan.CaseKey
				}
				for _, p := range run.Plan.Params(pair.Point) {
					r.Params = append(r.Params, result.Param(p))
				}
				visit(task, pair, r)
			}
		}
	}
}

func write(t testing.TB, run *folder.Run, r *result.Result) {
	t.Helper()
	if err := result.Write(run.ResultsDir(), r); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, runs ...*folder.Run) *Set {
	t.Helper()
	s, err := Load(runs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLoadNothing(t *testing.T) {
	t.Parallel()
	run := newRun(t, sweep)
	s := load(t, run)
	if len(s.Pairs) != 8 || len(s.Problems) != 0 {
		t.Fatalf("%d pairs, problems %v", len(s.Pairs), s.Problems)
	}
	for _, p := range s.Pairs {
		if p.Outcome != catalogue.Missing || p.Reason != "never started: no worker has left a log" {
			t.Errorf("%s %q", p.Outcome, p.Reason)
		}
	}
	if diff := cmp.Diff(map[catalogue.Outcome]int{catalogue.Missing: 8}, s.Counts()); diff != "" {
		t.Error(diff)
	}
}

func TestLoadPicksAttempt(t *testing.T) {
	t.Parallel()
	type attempt struct {
		attempt, restart int
		outcome          catalogue.Outcome
	}
	tests := []struct {
		name     string
		attempts []attempt
		want     attempt
	}{
		{"newest", []attempt{{1, 0, catalogue.Error}, {2, 0, catalogue.OOMDevice}}, attempt{2, 0, catalogue.OOMDevice}},
		{"newest restart", []attempt{{1, 1, catalogue.Error}, {1, 0, catalogue.Infra}}, attempt{1, 1, catalogue.Error}},
		{"newest ok", []attempt{{1, 0, catalogue.OK}, {2, 0, catalogue.OK}, {3, 0, catalogue.Cancelled}}, attempt{2, 0, catalogue.OK}},
		{"late zombie of an older attempt", []attempt{{2, 0, catalogue.OOMDevice}, {1, 0, catalogue.Error}}, attempt{2, 0, catalogue.OOMDevice}},
		{"late zombie that is ok as well", []attempt{{2, 0, catalogue.OK}, {1, 3, catalogue.OK}}, attempt{2, 0, catalogue.OK}},
		{"ten is after nine", []attempt{{10, 0, catalogue.OK}, {9, 0, catalogue.OK}}, attempt{10, 0, catalogue.OK}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, sweep)
			done := false
			each(t, run, func(_ plan.Task, _ plan.Pair, r *result.Result) {
				if done {
					return
				}
				done = true
				for _, a := range tt.attempts {
					r.Attempt, r.Restart, r.Outcome, r.Reason = a.attempt, a.restart, a.outcome, string(a.outcome)
					write(t, run, r)
				}
			})
			p := load(t, run).Pairs[0]
			if got := (attempt{p.Result.Attempt, p.Result.Restart, p.Outcome}); got != tt.want {
				t.Errorf("took %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLoadProblems(t *testing.T) {
	t.Parallel()
	run := newRun(t, sweep)
	var good []*result.Result
	each(t, run, func(_ plan.Task, _ plan.Pair, r *result.Result) {
		write(t, run, r)
		good = append(good, r)
	})
	damage := func(r *result.Result, f func(path string)) string {
		path, err := r.Path(run.ResultsDir())
		if err != nil {
			t.Fatal(err)
		}
		f(path)
		return path
	}
	want := map[string]string{}
	want[damage(good[0], func(path string) {
		if err := os.Truncate(path, 100); err != nil {
			t.Fatal(err)
		}
	})] = "cut off after 100 bytes"
	foreign := *good[1]
	foreign.Plan = "other"
	want[damage(good[1], func(string) { write(t, run, &foreign) })] = "belongs to another plan"
	key := *good[2]
	key.Key = "other"
	want[damage(good[2], func(string) { write(t, run, &key) })] = "measured something else"
	point := *good[3]
	point.Point = "ab" + point.Point[2:]
	write(t, run, &point)
	want[damage(&point, func(string) {})] = "is not in the plan"
	newer := *good[4]
	want[damage(&newer, func(path string) {
		if err := os.WriteFile(path, []byte(`{"schema":7}`), 0o644); err != nil {
			t.Fatal(err)
		}
	})] = "schema 7 is newer than this cpbench"
	strange := filepath.Join(run.ResultsDir(), "ab", `it's "mine".json`)
	want[strange] = "not a result file"
	outside := filepath.Join(run.ResultsDir(), "notes.txt")
	want[outside] = "outside the shards"
	for _, path := range []string{strange, outside, filepath.Join(run.ResultsDir(), "ab", ".tmp123"), filepath.Join(run.ResultsDir(), "ab", ".nfs0001")} {
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := result.WriteSamples(run.ResultsDir(), good[5], []result.Sample{{Iteration: 1, Seconds: []float64{1}}}); err != nil {
		t.Fatal(err)
	}
	s := load(t, run)
	for _, p := range s.Problems {
		if reason, ok := want[p.Path]; !ok || !strings.Contains(p.Reason, reason) {
			t.Errorf("problem %s: %s; want %q", p.Path, p.Reason, reason)
		}
		delete(want, p.Path)
	}
	if len(want) != 0 {
		t.Errorf("not reported: %v", want)
	}
	if n := s.Counts()[catalogue.OK]; n != 4 {
		t.Errorf("%d good results kept, want 4", n)
	}
}

func TestStartedWithoutResult(t *testing.T) {
	t.Parallel()
	run := newRun(t, sweep)
	dir := run.LogDir(0, 0, 1, 0)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	newest := run.LogDir(0, 0, 1, 1)
	if err := os.MkdirAll(newest, 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := json.Marshal(map[string]any{"time": stamp, "level": "INFO", "msg": "start", "job": "12_0", "node": "n7", "pid": 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(newest, folder.EventsFile), append(first, "\n{cut"...), 0o644); err != nil {
		t.Fatal(err)
	}
	s := load(t, run)
	if got, want := s.Pairs[0].Reason, "running or killed: started on n7 at 2026-01-02T03:04:05Z, left no result"; got != want {
		t.Errorf("reason = %q, want %q", got, want)
	}
	if got := s.Pairs[1]; got.Task != 0 || got.Reason != notReached {
		t.Errorf("second of the packed task: %+v", got)
	}
	s.Judge(func(_ *folder.Run, array, task int, files State) State {
		if array == 0 && task == 0 {
			if files.Node != "n7" || files.Restart != 1 {
				t.Errorf("state from files = %+v", files)
			}
			files.Word = "TIMEOUT"
		}
		return files
	})
	if got := s.Pairs[0].Outcome; got != catalogue.Timeout {
		t.Errorf("with the scheduler's help: %s", got)
	}
}

// TestResultsTellTheAttempt: a task that is wholly measured is not looked for in the logs, and still its results tell
// which attempt a state has to be about.
func TestResultsTellTheAttempt(t *testing.T) {
	t.Parallel()
	run := newRun(t, sweep)
	each(t, run, func(_ plan.Task, _ plan.Pair, r *result.Result) {
		r.Attempt, r.Restart = 2, 1
		write(t, run, r)
	})
	s := load(t, run)
	s.Judge(func(_ *folder.Run, _, _ int, files State) State {
		if files.Attempt != 2 || files.Restart != 1 || !files.Started {
			t.Errorf("state from files = %+v", files)
		}
		return State{Word: "OUT_OF_MEMORY", Attempt: 1}
	})
	for _, p := range s.Pairs {
		if p.Outcome != catalogue.OK || p.Reason != "" {
			t.Errorf("by a state of the attempt before: %s %s", p.Outcome, p.Reason)
		}
	}
}

// TestKilledTrial: a trial of a search that the kernel ended is why the scheduler takes the task for out of memory, and
// nothing that was measured is in doubt.
func TestKilledTrial(t *testing.T) {
	t.Parallel()
	run := newRun(t, sweep)
	first := true
	each(t, run, func(task plan.Task, _ plan.Pair, r *result.Result) {
		if task.Index == 0 && first {
			first = false
			r.MaxFit = &result.MaxFit{Axis: "tokens", Trials: []result.Trial{{N: 64, Outcome: catalogue.OK}, {N: 128, Outcome: catalogue.OOMHost}}}
		}
		write(t, run, r)
	})
	s := load(t, run)
	s.Judge(func(_ *folder.Run, _, _ int, files State) State {
		files.Word = "OUT_OF_MEMORY"
		return files
	})
	for _, p := range s.Pairs {
		if want := map[bool]catalogue.Outcome{true: catalogue.OK, false: catalogue.Error}[p.Task == 0]; p.Outcome != want {
			t.Errorf("task %d: %s %s", p.Task, p.Outcome, p.Reason)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	a := newRun(t, sweep)
	b := newRun(t, strings.Replace(sweep, "[64, 128]", "[64, 256]", 1))
	shared := 0
	for i, run := range []*folder.Run{a, b} {
		each(t, run, func(_ plan.Task, pair plan.Pair, r *result.Result) {
			r.Started = stamp.Add(time.Duration(i) * time.Hour)
			r.Provenance["host"] = fmt.Sprint("n", i)
			write(t, run, r)
			if i == 1 && pair.Values[1] == "64" {
				shared++
			}
		})
	}
	s := load(t, a, b)
	if len(s.Pairs) != 12 || s.Counts()[catalogue.OK] != 12 || len(s.Problems) != 0 || shared != 4 {
		t.Fatalf("pairs %d, counts %v, problems %v, shared %d", len(s.Pairs), s.Counts(), s.Problems, shared)
	}
	for _, p := range s.Pairs {
		if later := p.Point.Values[1] != "128"; later != (p.Run == b) {
			t.Errorf("tokens=%s taken from %s", p.Point.Values[1], p.Run.Name())
		}
	}
	if x, y := s.Unused(a), s.Unused(b); x != shared || y != 0 {
		t.Errorf("%d results of the first run are not used, and %d of the second", x, y)
	}
	if hosts, lack := s.Facts("host"); !cmp.Equal(hosts, []string{"n0", "n1"}) || lack != 0 {
		t.Errorf("hosts %v, %d without", hosts, lack)
	}
	if none, lack := s.Facts("gpu"); len(none) != 0 || lack != 12 {
		t.Errorf("gpu %v, %d without", none, lack)
	}
}

func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, old, new string
		want           []string
	}{
		{"dtype and mode", "mode: inference", "mode: training", []string{`workload.mode ("inference", "training")`}},
		{"dtype", "dtype: bf16", "dtype: fp32", []string{`workload.dtype ("bf16", "fp32")`}},
		{"command", `["true"]`, `["false"]`, []string{`workload.command (["true"], ["false"])`}},
		{"setup", "pack: [tokens]", "pack: [tokens]\nsetup: [module purge]", []string{`setup (absent, ["module purge"])`}},
		{"environment", "pack: [tokens]", "pack: [tokens]\nenv: {A: b}", []string{`env.A (absent, "b")`}},
		{"axes", "tokens: [64, 128]}", "tokens: [64, 128], data: [x]}", []string{"different axes", "cp, tokens and cp, tokens, data"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := newRun(t, sweep), newRun(t, strings.Replace(sweep, tt.old, tt.new, 1))
			_, err := Load([]*folder.Run{a, b})
			if err == nil {
				t.Fatal("merged")
			}
			for _, want := range append(tt.want, a.Name()) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v\nwant %q", err, want)
				}
			}
		})
	}
	if _, err := Load(nil); err == nil {
		t.Error("no run is no error")
	}
}

// BenchmarkLoad reads 100,000 results, warm. It reports the heap that the set holds and the largest one on the way.
func BenchmarkLoad(b *testing.B) {
	yaml := strings.NewReplacer(
		"[64, 128]", "["+strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers(5000))), ", "), "[]")+"]",
		"[1, 4]", "[1, 4, 9, 16]", "repeats: 2", "repeats: 5",
	).Replace(sweep)
	run := newRun(b, yaml)
	seconds := [][]float64{}
	for i := range 10 {
		seconds = append(seconds, []float64{0.842123456 + float64(i)*1e-6, 0.8431234, 0.8441, 0.842})
	}
	each(b, run, func(task plan.Task, _ plan.Pair, r *result.Result) {
		steps, _ := result.Summarize(seconds, 3)
		r.Steps = &steps
		for i, m := range catalogue.StepMetrics() {
			r.Set(m.Name, 1.234567e9/float64(i+1))
		}
		for _, key := range []string{"kernel", "cpu", "cpus_allowed", "go", "cpbench", "device", "torch", "cuda", "nccl", "slurm_partition", "node_shared", "clocks_locked", "gpu"} {
			r.Provenance[key] = key + " has some value"
		}
		r.Provenance["slurm_job"] = fmt.Sprint(100000 + task.Index)
		r.Warn(catalogue.Unsteady, "step times had not settled", "raise warmup")
		text, err := result.Encode(r)
		if err != nil {
			b.Fatal(err)
		}
		path, err := r.Path(run.ResultsDir())
		if err != nil {
			b.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			b.Fatal(err)
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		s := load(b, run)
		if s.Counts()[catalogue.OK] != 100_000 {
			b.Fatal(s.Counts())
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys)/(1<<20), "MiB-heap-from-system")
		runtime.KeepAlive(s)
	}
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = 64 * (i + 1)
	}
	return list
}
