package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bigSweep writes a spec of n points, each a task of its own, and returns its path.
func bigSweep(b *testing.B, n int, command string) string {
	b.Helper()
	var values []string
	for i := range n / 100 {
		values = append(values, strconv.Itoa(64*(i+1)))
	}
	var variants []string
	for i := range 20 {
		variants = append(variants, strconv.Itoa(i))
	}
	path := filepath.Join(b.TempDir(), "sweep.yaml")
	err := os.WriteFile(path, fmt.Appendf(nil, `version: 1
name: big
matrix: {cp: [1, 4, 9, 16, 25], tokens: [%s], variant: [%s]}
derive: {gpus: cp, nodes: "ceil(gpus / 32)"}
workload: {kind: model, mode: inference, command: %s, ranks: "cp > 0 ? 1 : 4", topology: 2d, point: {tokens: tokens, atoms: tokens * 8}}
resources: {nodes: nodes, gpus_per_node: "min(gpus, 8)", time: "tokens > 5000 ? '1h' : '30m'", exclusive: true}
site: {gpus_per_node: 8}
`, strings.Join(values, ", "), strings.Join(variants, ", "), command), 0o644)
	if err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkPlanCommand is what a user waits for: a spec read, expanded, planned and frozen to disk, with its script.
func BenchmarkPlanCommand(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		path := bigSweep(b, n, `[./model, "{tokens}"]`)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				src, err := load(request{path: path})
				if err != nil {
					b.Fatal(err)
				}
				run, err := freeze(src, b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				info, err := os.Stat(run.Script(0, 1))
				if err != nil || info.Size() > 64<<10 {
					b.Fatal(err, info.Size())
				}
				b.ReportMetric(float64(info.Size()), "script-bytes")
			}
		})
	}
}

var stamped = regexp.MustCompile(`(?m)^(\d{19})$`)

// BenchmarkWorkerStart is the time from the start of a worker until the first program of the model runs, in a plan of
// so many tasks.
func BenchmarkWorkerStart(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "cpbench")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, n := range []int{100, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			src, err := load(request{path: bigSweep(b, n, `[date, "+%s%N"]`)})
			if err != nil {
				b.Fatal(err)
			}
			run, err := freeze(src, b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			var took []float64
			attempt := 0
			for b.Loop() {
				attempt++
				index := len(run.Plan.Arrays[0].Lengths) - attempt
				cmd := exec.CommandContext(context.Background(), binary, "worker", "--plan", run.PlanFile(), "--digest", run.Plan.Digest,
					"--array", "0", "--attempt", strconv.Itoa(attempt), "--task", strconv.Itoa(index))
				cmd.Stderr = io.Discard
				began := time.Now()
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				log, err := os.ReadFile(filepath.Join(run.LogDir(0, index, attempt, 0), "rank-0.log"))
				if err != nil {
					b.Fatal(err)
				}
				ns, err := strconv.ParseInt(stamped.FindString(string(log)), 10, 64)
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Unix(0, ns).Sub(began).Seconds()*1e3)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "ms-to-exec")
		})
	}
}
