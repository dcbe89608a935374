package main

import (
	"strings"
	"testing"
	"time"

	"cpbench/slurm/slurmtest"
)

// fates is a sweep whose first point kills its worker outright, and whose others sleep.
const fates = `version: 1
name: fates
matrix: {n: [0, 1, 2, 3, 4]}
order: as-written
workload: {kind: model, mode: inference, command: [bash, -c, "if [ {n} = 0 ]; then kill -KILL $PPID; fi; exec sleep 600"], timeout: 9m}
resources: {time: 10m}
slurm: {parallel: 3, requeue: true}
`

// TestSlurmStatus follows a run through the states of its tasks on a real cluster with accounting.
func TestSlurmStatus(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Start(t, slurmtest.Options{Accounting: true, Nodes: 1}))
	s.spec("sweep.yaml", fates)
	job := s.must("cpbench plan sweep.yaml | sbatch --parsable")
	status := func() string {
		out, errs, err := s.sh("cpbench status cpbench-runs/*")
		if err != nil && cmdExit(err) != exitIncomplete {
			t.Fatalf("status: %v\n%s%s", err, out, errs)
		}
		return out
	}
	has := func(limit time.Duration, texts ...string) {
		t.Helper()
		s.until(limit, func() bool {
			out := status()
			for _, text := range texts {
				if !strings.Contains(out, text) {
					return false
				}
			}
			return true
		}, "status lacks one of "+strings.Join(texts, " | ")+":\n"+status())
	}
	has(time.Minute,
		"5 executions: 3 running, 1 pending, 1 error",
		"as many tasks of the array run as slurm.parallel allows (JobArrayTaskLimit)\n  n=4\n",
		"error (1): killed; nothing witnessed a lack of memory", "  n=0   on n1 started 20", "  n=1   on n1 since 20")

	// A requeued task waits again, whatever its first run has left.
	s.must("scontrol requeue " + job + "_1")
	has(time.Minute, "5 executions: 3 running, 1 pending, 1 error", "\n  n=1\n", "  n=4   on n1 since 20")
	_, errs, err := s.sh("cpbench logs n=1")
	if err != nil || !strings.Contains(errs, "array 0, task 1") {
		t.Errorf("%v: %s", err, errs)
	}

	s.must("scancel " + job)
	s.ended(job, time.Minute)
	has(time.Minute, "5 executions: 1 error, 4 cancelled", "CANCELLED after its start")
	// What Slurm has said is kept: the same without Slurm.
	if out := s.must("PATH=" + "$(dirname $(command -v cpbench)):$PWD/none; cpbench status cpbench-runs/* || [ $? = 3 ]"); !strings.Contains(out, "1 error, 4 cancelled") {
		t.Errorf("from states.json:\n%s", out)
	}
	counts := s.outcomes()
	if counts["cancelled"] != 4 || counts["error"] != 1 {
		t.Errorf("collect: %v", counts)
	}
}
