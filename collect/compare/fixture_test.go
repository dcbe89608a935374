package compare_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"cpbench/collect/compare"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/plan/folder/foldertest"
	"cpbench/worker/result"
)

var stamp = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newRun(t testing.TB, yaml string) *folder.Run {
	t.Helper()
	return foldertest.New(t, yaml, foldertest.Options{At: stamp, Version: "v1"})
}

// world makes up the results of a run. value is the time of an execution in seconds; a negative one leaves no result.
type world struct {
	value func(pair plan.Pair, st plan.Setting) float64
	touch func(pair plan.Pair, st plan.Setting, r *result.Result) // may be nil
	begin time.Time                                               // zero: the stamp
	facts map[string]string                                       // of the task's own file; nil: there is none
}

// fill writes the results, each a minute after the one before.
func (w world) fill(t testing.TB, run *folder.Run) *folder.Run {
	t.Helper()
	at := w.begin
	if at.IsZero() {
		at = stamp
	}
	for _, a := range run.Plan.Arrays {
		tasks, err := run.Tasks(a.Index)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			for _, pair := range task.Pairs {
				st, err := run.Plan.At(pair.Point, 64)
				if err != nil {
					t.Fatal(err)
				}
				r := &result.Result{
					Schema: result.Schema, Plan: run.Plan.Digest, Key: run.Plan.Key, Run: run.Name(), Point: pair.ID, Case: pair.Case,
					Repeat: pair.Repeat, Start: pair.Start, Attempt: 1, Array: task.Array, Task: task.Index, Outcome: catalogue.OK,
					Provenance: map[string]string{"host": "n1", "cpbench": "v1"}, Started: at, Ended: at.Add(30 * time.Second),
				}
				at = at.Add(time.Minute)
				if pair.Case != "" {
					r.Key = run.Plan.CaseKey
				}
				v := w.value(pair, st)
				if v < 0 {
					continue
				}
				if st.Serving != nil {
					serve(pair, st.Serving.Group, r, v)
				} else {
					r.Set(catalogue.StepSeconds, v)
					r.Set(catalogue.PeakAllocatedBytes, 1<<30)
				}
				if w.touch != nil {
					w.touch(pair, st, r)
				}
				keep(t, run, r)
			}
			if w.facts != nil {
				f := result.NewFacts()
				f.Facts = w.facts
				if err := result.WriteFacts(filepath.Join(run.LogDir(task.Array, task.Index, 1, 0), folder.FactsFile), f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return run
}

// keep writes a result without waiting for the disk, which result.Write does.
func keep(t testing.TB, run *folder.Run, r *result.Result) {
	t.Helper()
	path, err := r.Path(run.ResultsDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := result.Encode(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serve makes up the result of a group with a TTFT of so many seconds.
func serve(pair plan.Pair, g plan.Group, r *result.Result, ttft float64) {
	cache, streams := "cold", g.Concurrency
	if g.Cache == "warm" && pair.Nth() > 1 {
		cache = "warm_repeat"
	}
	if g.Mixed != nil {
		streams = 3
		r.Set(catalogue.LongTTFTSeconds, 2*ttft)
	}
	r.Group = &result.Group{Cache: cache, Audit: "clean", Client: "client_ok", Streams: streams, Succeeded: streams, Counts: "server_usage", Prompts: "5a5a5a5a5a5a5a5a"}
	r.Set(catalogue.TTFTSeconds, ttft)
	r.Set(catalogue.DecodeTokensPerSecond, 4/ttft)
	for k, v := range map[string]string{
		"server": "vllm", "server_version": "0.25.1", "served_model": "m", "served_root": "/models/m", "served_limit_tokens": "32768", "prompts": "synth/1",
	} {
		r.Provenance[k] = v
	}
}

// jitter is a small spread that depends on the numbers alone.
func jitter(n int) float64 { return 1 + 0.004*float64((n*7)%5-2) }

// compared compares, and fails the test if that is not possible.
func compared(t testing.TB, a, b []*folder.Run, o compare.Options) *compare.Report {
	t.Helper()
	if o.Threshold == 0 {
		o.Threshold = 0.01
	}
	r, err := compare.New(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func one(run *folder.Run) []*folder.Run { return []*folder.Run{run} }

// copied copies a run folder under another name.
func copied(t *testing.T, run *folder.Run) *folder.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a \"copy\"")
	if err := os.CopyFS(dir, os.DirFS(run.Dir)); err != nil {
		t.Fatal(err)
	}
	other, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return other
}
