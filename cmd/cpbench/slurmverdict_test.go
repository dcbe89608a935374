package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// fate is what `cpbench status --json` tells of one execution; what is not known is empty.
type fate struct {
	Outcome, Reason, State, Exit, Node, Advice string
	Attempt                                    int
	WontStart                                  bool `json:"wont_start"`
	Values                                     map[string]string
}

// standing is what it tells of each point of a run.
type standing map[string]fate

// outcomes leaves out all but the verdicts.
func (f standing) outcomes() map[string]string {
	all := map[string]string{}
	for point, e := range f {
		all[point] = e.Outcome
	}
	return all
}

// standing asks how a run stands, as a user does. A point is named by its values, such as cp=1,n=2.
func (s *site) standing(run string) standing {
	s.Helper()
	out, errs, err := s.sh("cpbench status --json " + run)
	if err != nil && cmdExit(err) != exitIncomplete {
		s.Fatalf("status %s: %v\n%s", run, err, errs)
	}
	var told struct{ Executions []fate }
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		s.Fatalf("status %s: %v\n%s", run, err, out)
	}
	all := standing{}
	for _, e := range told.Executions {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(e.Values)) {
			parts = append(parts, name+"="+e.Values[name])
		}
		all[strings.Join(parts, ",")] = e
	}
	if len(all) != len(told.Executions) {
		s.Fatalf("%d executions of %d points:\n%s", len(told.Executions), len(all), out)
	}
	return all
}

// await asks until every point has the verdict that is wanted. Whatever is seen on the way, nothing may be lost that is
// not wanted so: what Slurm still has, or ended with a moment ago, is not lost.
func (s *site) await(limit time.Duration, run string, want map[string]string) standing {
	s.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for lost := false; ; <-tick.C {
		got := s.standing(run)
		for point, e := range got {
			if e.Outcome == "lost" && want[point] != "lost" {
				lost = true
				s.Errorf("%s is lost: %s (%s %s)", point, e.Reason, e.State, e.Exit)
			}
		}
		diff := cmp.Diff(want, got.outcomes())
		if diff == "" {
			return got
		}
		if time.Now().After(deadline) || lost {
			s.Fatalf("after %v (-want +got):\n%s\n%s", limit, diff, s.must("cpbench status "+run+" || true; squeue; tail -n 20 cpbench-runs/*/logs/*.out || true"))
		}
	}
}

// agree compares the table with what status has told.
func (s *site) agree(run string, told standing) {
	s.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, e := range told {
		want[e.Outcome]++
	}
	for _, row := range s.rawOf(run) {
		got[row["outcome"]]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("status and collect differ (-status +collect):\n%s", diff)
	}
}

// because asserts a part of the reason for a verdict.
func (s *site) because(told standing, point, part string) {
	s.Helper()
	if reason := told[point].Reason; !strings.Contains(reason, part) {
		s.Errorf("%s is %s because of %q, want %q", point, told[point].Outcome, reason, part)
	}
}

// idle waits until nothing of the user's folder is in the queue: the job that collects may come after the verdicts.
func (s *site) idle() {
	s.Helper()
	s.until(2*time.Minute, func() bool { return s.must(`squeue -h -o %Z | grep -cFx "$PWD" || true`) == "0" }, "the queue is not empty")
}

// gate is a program that waits to be let go. Each copy of a point takes the next number; the number that is let go with
// is its exit code.
const gate = `#!/bin/bash
copy=1
until mkdir "$1.$copy" 2>/dev/null; do copy=$((copy + 1)); done
until [ -e "$1.$copy/go" ]; do sleep 0.1; done
echo "copy: $copy"
exit "$(cat "$1.$copy/go")"
`

// gated is a sweep of such programs, one on each node.
const gated = `version: 1
name: %s
matrix: {n: %s}
order: as-written
workload:
  kind: command
  command: [bash, ./gate.sh, "%[1]s{n}"]
  workdir: .
  metrics: [{name: copy, regex: "copy: ([0-9]+)"}]
  warmup: 0
  iterations: 1
  timeout: 9m
resources: {time: 10m, exclusive: true}
`

// gates writes a sweep of gated programs for the points of a list.
func (s *site) gates(name, points, more string) {
	s.Helper()
	s.spec("gate.sh", gate)
	s.spec(name+".yaml", fmt.Sprintf(gated, name, points)+more)
}

// begun waits for the copies of points.
func (s *site) begun(copies ...string) {
	s.Helper()
	s.until(2*time.Minute, func() bool {
		return !slices.ContainsFunc(copies, func(name string) bool {
			_, err := os.Stat(filepath.Join(s.dir, name))
			return err != nil
		})
	}, "not all of "+strings.Join(copies, ", ")+" have begun")
}

// let lets copies of points go, with exit code 0.
func (s *site) let(copies ...string) {
	s.Helper()
	for _, name := range copies {
		s.must("echo 0 >" + name + "/went && mv " + name + "/went " + name + "/go")
	}
}

// measured is the copy whose figure counts for each point of a run.
func (s *site) measured(run string) map[string]string {
	s.Helper()
	all := map[string]string{}
	for _, row := range s.rawOf(run) {
		all["n="+row["axis n"]] = row["figure copy"]
	}
	return all
}

// TestSlurmVerdicts brings tasks to every ending that a real Slurm has: on a cluster with accounting what leaves the
// cluster as it is, and on others what breaks it. What has to wait for Slurm's limits, which count in minutes, is
// submitted first and looked at last.
func TestSlurmVerdicts(t *testing.T) {
	t.Parallel()
	books := slurmtest.Start(t, slurmtest.Options{Accounting: true, Nodes: 4, Enforce: "associations,limits,qos"})
	for _, words := range []string{"add qos small MaxSubmitJobsPerUser=3", "add account proj", "add user nobody account=proj QOS=normal,small DefaultQOS=normal"} {
		if out, err := books.Command("sacctmgr", append([]string{"-i"}, strings.Fields(words)...)...).CombinedOutput(); err != nil {
			t.Fatalf("sacctmgr %s: %v: %s", words, err, out)
		}
	}
	limits, bare := submitLimits(newSite(t, books)), submitLimits(newSite(t, slurmtest.Shared(t)))
	t.Run("meanwhile", func(t *testing.T) {
		for name, test := range map[string]func(*site){
			"200 points":          testManyPoints,
			"scancel":             testScancel,
			"over its memory":     testOverMemory,
			"out of memory":       testOutOfMemory,
			"no folder for logs":  testNoLogs,
			"a result comes late": testLateResult,
			"refused":             testRefusedSubmit,
			"will not start":      testWillNotStart,
			"as many as a QOS":    testQueueLimit,
			"two at once":         testTwoSubmits,
			"calls":               testCalls,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, books)
				test(s)
				s.idle()
			})
		}
		for name, broken := range map[string]struct {
			options slurmtest.Options
			test    func(*site)
		}{
			"nodes fail":           {slurmtest.Options{Nodes: 9, NodeTimeout: 5 * time.Second}, testNodesFail},
			"requeued":             {slurmtest.Options{Nodes: 3, Accounting: true}, testRequeued},
			"the controller fails": {slurmtest.Options{NodeTimeout: 5 * time.Second}, testControllerFails},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				broken.test(newSite(t, slurmtest.Start(t, broken.options)))
			})
		}
	})
	t.Run("time limit", func(t *testing.T) { checkLimits(t, limits) })
	t.Run("time limit without accounting", func(t *testing.T) { checkLimits(t, bare) })
}
