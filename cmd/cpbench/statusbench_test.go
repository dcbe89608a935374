package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/collect/picture"
	"cpbench/plan/catalogue"
	"cpbench/slurm"
	"cpbench/worker/result"
)

// BenchmarkStatus is what status costs for 10,000 points, half of them measured, with a squeue and a sacct that print a
// row for each task at once.
func BenchmarkStatus(b *testing.B) {
	src, err := load(request{path: bigSweep(b, 10_000, `[./model, "{tokens}"]`)})
	if err != nil {
		b.Fatal(err)
	}
	run, err := freeze(src, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	var queue, books strings.Builder
	points := 0
	for _, a := range run.Plan.Arrays {
		tasks, err := run.Tasks(a.Index)
		if err != nil {
			b.Fatal(err)
		}
		name := slurm.Job{Run: run, Array: a.Index, Attempt: 1}.Name()
		for _, t := range tasks {
			points += len(t.Pairs)
			if t.Index%2 == 0 {
				fmt.Fprintf(&books, "|%d_%d|%[2]d|COMPLETED|0:0|2026-11-30T11:00:00|2026-11-30T11:00:01|2026-11-30T11:00:05|00:10:00|n2|gpu|4G|None|%s\n", a.Index+7, t.Index, name)
				for _, pair := range t.Pairs {
					r := result.Result{
						Schema: result.Schema, Plan: run.Plan.Digest, Key: run.Plan.Key, Run: run.Name(), Point: pair.ID, Repeat: pair.Repeat, Attempt: 1,
						Array: t.Array, Task: t.Index, Outcome: catalogue.OK, Metrics: map[string]*float64{}, Warnings: []result.Warning{},
						Provenance: map[string]string{"host": "n2"}, Started: time.Now().UTC(), Ended: time.Now().UTC(),
					}
					for _, p := range run.Plan.Params(pair.Point) {
						r.Params = append(r.Params, result.Param(p))
					}
					writeUnsynced(b, run.ResultsDir(), &r)
				}
				continue
			}
			fmt.Fprintf(&queue, "|%d|%d|9|PENDING|0|0|2026-11-30T11:00:00|N/A|N/A|10:00||gpu|4G|Priority|%s|\n", a.Index+7, t.Index, name)
		}
	}
	bin := b.TempDir()
	for name, text := range map[string]string{"squeue": queue.String(), "sacct": books.String()} {
		if err := os.WriteFile(filepath.Join(bin, name+".rows"), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexec cat \"$0.rows\"\n"), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	b.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for b.Loop() {
		p, err := takePicture(b.Context(), run)
		if err != nil {
			b.Fatal(err)
		}
		counts := p.Set.Counts()
		if len(p.Doubts) > 0 || len(p.Set.Problems) > 0 || counts[catalogue.OK] < points/3 || counts[catalogue.OK]+counts[catalogue.Pending] != points {
			b.Fatal(counts, p.Doubts, len(p.Set.Problems))
		}
		if err := p.Write(io.Discard, picture.Usual); err != nil {
			b.Fatal(err)
		}
	}
}

// writeUnsynced puts a result where it belongs; thousands of syncs would only delay a benchmark.
func writeUnsynced(b *testing.B, dir string, r *result.Result) {
	b.Helper()
	path, err := r.Path(dir)
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		b.Fatal(err)
	}
}
