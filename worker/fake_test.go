package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/plan/folder/foldertest"
	"cpbench/worker/result"
)

// small has one task of three points for each repeat.
const small = `version: 1
name: small
matrix: {n: [1, 2, 3]}
pack: [n]
order: as-written
workload: {kind: model, mode: inference, command: [./model], ranks: 1}
resources: {time: 5m}
`

// newRun plans a spec into a run folder.
func newRun(t *testing.T, spec string) *folder.Run {
	t.Helper()
	return foldertest.New(t, spec, foldertest.Options{})
}

// fake is a workload whose phases are told by functions. It appends the name of each phase to one file.
type fake struct {
	t     *testing.T
	run   *folder.Run
	file  string
	open  func(ctx context.Context) error
	exec  func(ctx context.Context, pair plan.Pair, r *result.Result) []result.Sample
	close func() error
}

func newFake(t *testing.T, run *folder.Run) *fake {
	return &fake{t: t, run: run, file: filepath.Join(run.Dir, "order")}
}

func (f *fake) note(phase string) {
	file, err := os.OpenFile(f.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer file.Close()
	if _, err := fmt.Fprintln(file, phase); err != nil {
		f.t.Error(err)
	}
}

// order is the phases so far.
func (f *fake) order() string {
	text, err := os.ReadFile(f.file)
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// Workload is the worker.Workload of the fake.
func (f *fake) Workload(ctx context.Context, _ Job) (Session, error) {
	f.note("open")
	if f.open != nil {
		if err := f.open(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Run is one execution: ok unless exec says something else.
func (f *fake) Run(ctx context.Context, pair plan.Pair, r *result.Result) []result.Sample {
	f.note(f.name(pair))
	r.Outcome = catalogue.OK
	if f.exec != nil {
		return f.exec(ctx, pair, r)
	}
	return nil
}

func (f *fake) Close() error {
	f.note("close")
	if f.close != nil {
		return f.close()
	}
	return nil
}

// name is n=1, or n=1/2 in the second repeat.
func (f *fake) name(pair plan.Pair) string { return pairName(f.run, pair) }

func pairName(run *folder.Run, pair plan.Pair) string {
	var parts []string
	for _, p := range run.Plan.Params(pair.Point) {
		parts = append(parts, p.Name+"="+p.Value)
	}
	if pair.Repeat > 1 {
		parts = append(parts, fmt.Sprint("r", pair.Repeat))
	}
	return strings.Join(parts, ",")
}

// config runs task 0 of array 0 for the first time.
func (f *fake) config() Config {
	return Config{Run: f.run, Digest: f.run.Plan.Digest, Attempt: 1, Workload: f.Workload, Version: "v0"}
}

// outcomes lists the results that count, by pair, in the order of the plan; - is none.
func outcomes(t *testing.T, run *folder.Run) string {
	t.Helper()
	var list []string
	for a := range run.Plan.Arrays {
		tasks, err := run.Tasks(a)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			for _, pair := range task.Pairs {
				r, err := Last(run, pair)
				if err != nil {
					t.Fatal(err)
				}
				if r == nil {
					list = append(list, "-")
					continue
				}
				list = append(list, string(r.Outcome))
				if r.Ended.Before(r.Started) {
					t.Errorf("%s ended %v before its start", pairName(run, pair), r.Started.Sub(r.Ended))
				}
			}
		}
	}
	return strings.Join(list, " ")
}

// pairAt is one pair of a task.
func pairAt(t *testing.T, run *folder.Run, task, i int) plan.Pair {
	t.Helper()
	tk, err := run.Task(0, task)
	if err != nil {
		t.Fatal(err)
	}
	return tk.Pairs[i]
}

// only reads the result that counts of one pair.
func only(t *testing.T, run *folder.Run, task, i int) *result.Result {
	t.Helper()
	r, err := Last(run, pairAt(t, run, task, i))
	if err != nil {
		t.Fatal(err)
	}
	if r == nil {
		t.Fatalf("no result of pair %d of task %d", i, task)
	}
	return r
}

// leave puts a result of an earlier attempt into the folder.
func leave(t *testing.T, run *folder.Run, pair plan.Pair, attempt, restart int, o catalogue.Outcome, f *result.MaxFit) {
	t.Helper()
	r := &result.Result{
		Schema: result.Schema, Plan: run.Plan.Digest, Point: pair.ID, Case: pair.Case, Repeat: pair.Repeat,
		Attempt: attempt, Restart: restart, Outcome: o, MaxFit: f,
	}
	if err := result.Write(run.ResultsDir(), r); err != nil {
		t.Fatal(err)
	}
}

// signaller is a context that a test may end as a signal does.
func signaller(t *testing.T, signal error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(errors.New("test is over")) })
	var once sync.Once
	return ctx, func() { once.Do(func() { cancel(signal) }) }
}
