package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"cpbench/worker/model/reference"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// The test binary is also the ranks: of the reference model, and of programs that break the protocol.
//
// Tests with real processes must not run in parallel with one another: an execution ends all descendants of its
// process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "reference":
			os.Exit(reference.Main(context.Background(), os.Args[2:], os.Stderr))
		case "actor":
			os.Exit(act(os.Args[2], os.Args[3]))
		}
	}
	// Ranks that were built with the race detector would wait a second at their end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	m.Run()
}

// refer is a spec whose ranks are the reference model; with adds lines to the workload.
func refer(ranks int, flags string, with ...string) string {
	return spec(ranks, `["{cpbench}", reference, --channels, "2", --memory, 256KiB`+flags+`]`, with...)
}

// play is a spec whose ranks are actors.
func play(ranks int, behaviour, rank string, with ...string) string {
	return spec(ranks, `["{cpbench}", actor, `+behaviour+`, "`+rank+`"]`, with...)
}

func spec(ranks int, command string, with ...string) string {
	text := fmt.Sprintf(`version: 1
name: model
matrix: {tokens: [16]}
workload:
  kind: model
  command: %s
  ranks: %d
  point: {tokens: tokens, msa: 8}
`, command, ranks)
	last := ""
	for _, line := range append(with, "mode: inference", "timeout: 30s", "topology: 1d", "warmup: 2", "iterations: 5") {
		key, _, _ := strings.Cut(line, ":")
		switch {
		case key == "env":
			last += line + "\n"
		case !strings.Contains(text, "\n  "+key+":"):
			text += "  " + line + "\n"
		}
	}
	return text + last
}

// stage is an open session with what it writes.
type stage struct {
	t    testing.TB
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

// newStage plans a spec into a run folder of which the test binary is the cpbench.
func newStage(t testing.TB, text string) *stage {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), `it's a "run"`)
	run := foldertest.New(t, text, foldertest.Options{Runs: dir, Source: filepath.Join(dir, "sweep.yaml"), Binary: binary})
	task, err := run.Task(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	st := &stage{t: t, run: run, task: task}
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
			buf := make([]byte, 1<<16)
			st.t.Errorf("%d goroutines are left:\n%s", n-before, buf[:runtime.Stack(buf, true)])
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

// events are the worker's own lines with a message.
func (st *stage) events(msg string) []map[string]any {
	st.t.Helper()
	var list []map[string]any
	for line := range strings.Lines(st.log.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			st.t.Fatal(err)
		}
		if e["msg"] == msg {
			list = append(list, e)
		}
	}
	return list
}

// output is what a rank has written.
func (st *stage) output(rank int) string {
	st.t.Helper()
	text, err := os.ReadFile(filepath.Join(st.job.LogDir, fmt.Sprintf("rank-%d.log", rank)))
	if err != nil {
		st.t.Fatal(err)
	}
	return string(text)
}

func warned(r *result.Result, code catalogue.Code) bool {
	for _, w := range r.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}
