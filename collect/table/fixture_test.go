package table

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/plan/folder/foldertest"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

var stamp = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func newRun(t testing.TB, yaml string) *folder.Run {
	t.Helper()
	return foldertest.New(t, yaml, foldertest.Options{At: stamp, Version: "v0-test"})
}

// measure writes a result for every planned execution for which visit returns true.
func measure(t testing.TB, run *folder.Run, visit func(pair plan.Pair, st plan.Setting, r *result.Result) bool) {
	t.Helper()
	for _, a := range run.Plan.Arrays {
		tasks, err := run.Tasks(a.Index)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			for _, pair := range task.Pairs {
				st, err := run.Plan.At(pair.Point, 512)
				if err != nil {
					t.Fatal(err)
				}
				r := &result.Result{
					Schema: result.Schema, Plan: run.Plan.Digest, Key: run.Plan.Key, Run: run.Name(),
					Point: pair.ID, Case: pair.Case, Repeat: pair.Repeat, Attempt: 1, Array: task.Array, Task: task.Index,
					Outcome: catalogue.OK, Provenance: map[string]string{"host": "n1"}, Started: stamp, Ended: stamp.Add(90 * time.Second),
					Sizes: result.Sizes{Ranks: st.Ranks, Topology: st.Topology},
				}
				if pair.Case != "" {
					r.Key = run.Plan.CaseKey
				} else if n := whole(st.Point["tokens"]); n != nil {
					r.Sizes.Tokens, r.Sizes.PaddedTokens = n, n
				}
				if visit(pair, st, r) {
					if err := result.Write(run.ResultsDir(), r); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// timed sets the metrics of a good execution whose n steps take about so many seconds.
func timed(r *result.Result, seconds float64, n int, peak float64) {
	var steps [][]float64
	for i := range n {
		steps = append(steps, []float64{seconds * (1 + 0.001*float64(i*7%5))})
	}
	s, warnings := result.Summarize(steps, 3)
	r.Steps = &s
	r.Set(catalogue.StepSeconds, s.Median)
	r.Set(catalogue.PeakAllocatedBytes, peak)
	r.Warnings = append(r.Warnings, warnings...)
}

func build(t testing.TB, runs ...*folder.Run) *Table {
	t.Helper()
	s, err := collect.Load(runs)
	if err != nil {
		t.Fatal(err)
	}
	return New(s)
}

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
