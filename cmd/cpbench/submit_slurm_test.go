package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// threeArrays has three shapes, and one task whose program fails.
const threeArrays = `version: 1
name: three
matrix: {cp: [1, 2, 4], word: [good, bad]}
exclude: [{where: "cp != 2 && word == 'bad'"}]
order: as-written
workload: {kind: command, command: [test, "{word}", "=", good], warmup: 0, iterations: 1, timeout: 1m}
resources: {gpus_per_node: cp, time: 5m}
slurm: {multi_shape: error, parallel: 2}
`

func TestSlurmSubmit(t *testing.T) {
	t.Parallel()
	for name, cluster := range map[string]func(*testing.T) *slurmtest.Cluster{
		"with accounting":    func(t *testing.T) *slurmtest.Cluster { return slurmtest.Start(t, slurmtest.Options{Accounting: true}) },
		"without accounting": func(t *testing.T) *slurmtest.Cluster { return slurmtest.Shared(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, cluster(t))
			s.spec("sweep.yaml", threeArrays)
			_, errs, err := s.sh("SBATCH_PARTITION=short SLURM_ARRAY_TASK_ID=7 cpbench submit sweep.yaml --wait")
			if code := cmdExit(err); code != exitIncomplete {
				t.Fatalf("%v\n%s", err, errs)
			}
			if diff := cmp.Diff(map[string]int{"ok": 3, "error": 1}, s.outcomes()); diff != "" {
				t.Errorf("%s\n%s", diff, errs)
			}
			// The job that collects has run although a task failed.
			table := s.must("cat cpbench-runs/*/table.md cpbench-runs/*/logs/*_collect.out")
			if !strings.Contains(table, "| bad ") || !strings.Contains(table, "1 of 4 executions without a good result: 1 error") {
				t.Errorf("%s", table)
			}
			if n := s.must("grep -c submitted cpbench-runs/*/jobs.jsonl"); n != "4" {
				t.Errorf("%s jobs for three arrays", n)
			}
			if errs := s.errors("cpbench submit --run cpbench-runs/*"); !strings.Contains(errs, "every point has a good end") {
				t.Errorf("%s", errs)
			}
		})
	}
}

// errors is what a line that has to succeed says on stderr.
func (s *site) errors(line string) string {
	s.Helper()
	_, errs, err := s.sh(line)
	if err != nil {
		s.Fatalf("%s: %v\n%s", line, err, errs)
	}
	return errs
}

// queue is what the run has in the queue: names by state.
func (s *site) queue() string {
	s.Helper()
	return s.must(`squeue -h -r -o '%T' -n "$(sed -n 's/.*"name":"\([^"]*\)".*/\1/p' cpbench-runs/*/jobs.jsonl | sort -u | paste -sd,)" | sort | uniq -c`)
}

// What sbatch takes and never starts is told before.
func TestSlurmForesee(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	s.spec("sweep.yaml", threeArrays+"site: {max_queued: 9}\n")
	if errs := s.errors("sed 's/parallel: 2/partition: short/' sweep.yaml >short.yaml; cpbench submit short.yaml"); strings.Count(errs, "warning: resources.time: a task asks for 00:05:00, and partition short allows 00:01:00") != 1 {
		t.Errorf("%s", errs)
	}
	s.must("cpbench cancel")
	if errs := s.errors("cpbench submit sweep.yaml --dry-run"); strings.Contains(errs, "resources.time: ") {
		t.Errorf("%s", errs)
	}
}

func TestSlurmCancelRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	s.spec("sweep.yaml", fmt.Sprintf(sleeper, "10m")+"retry: {max: 1, on: [cancelled]}\n")
	s.must("cpbench submit sweep.yaml")
	s.started()
	if errs := s.errors("cpbench submit --run cpbench-runs/*"); !strings.Contains(errs, "2 tasks in the queue already") {
		t.Errorf("%s", errs)
	}
	errs := s.errors("cpbench cancel")
	if !strings.Contains(errs, "cancelled 2 tasks that ran and 0 that waited, and the job that collects") && !strings.Contains(errs, "cancelled 1 task that ran and 1 that waited") {
		t.Errorf("%s", errs)
	}
	s.until(time.Minute, func() bool { return s.queue() == "" }, "the run has not ended")
	if errs := s.errors("cpbench cancel"); !strings.Contains(errs, "is in the queue") {
		t.Errorf("%s", errs)
	}
	if got := s.outcomes(); got["cancelled"] != 2 {
		t.Errorf("%v", got)
	}
}

// A job that submits must not hand its own variables on.
func TestSlurmNestedSubmit(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	s.spec("sweep.yaml", threeArrays)
	job := s.must(`printf '#!/bin/bash\ncpbench submit sweep.yaml\n' | sbatch --parsable --array=5 --gres=gpu:4 --output=outer.out`)
	s.ended(job, time.Minute)
	s.until(time.Minute, func() bool { return len(s.raw()) == 4 && s.queue() == "" }, "the inner jobs have not ended\n"+s.must("cat outer.out"))
	if diff := cmp.Diff(map[string]int{"ok": 3, "error": 1}, s.outcomes()); diff != "" {
		t.Errorf("%s\n%s", diff, s.must("cat outer.out"))
	}
}

// The controller is killed between two calls of sbatch and comes back without the job that it took last. Its id goes to
// the next one; whatever happened, no task is lost in the end and none runs twice.
func TestSlurmControllerCrash(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Start(t, slurmtest.Options{}))
	s.spec("sweep.yaml", threeArrays)
	wrapper := `#!/bin/bash
d=$(dirname "$(dirname "$SLURM_CONF")")
if [ "$(cat calls 2>/dev/null)" = 2 ]; then # what was saved last is older than the second job
  kill -9 "$(cat "$d/run/slurmctld.pid")"
  NODES=2 ACCT=0 "$d/bin/up.sh" "$d" >/dev/null || exit 9
fi
echo $(($(cat calls 2>/dev/null) + 1)) >calls
exec /usr/bin/sbatch "$@"
`
	slurmtest.Executable(t, filepath.Join(s.bin, "sbatch"), wrapper)
	first := s.errors("cpbench submit sweep.yaml")
	idle := func() {
		s.until(2*time.Minute, func() bool { return s.must("squeue -h") == "" }, "the queue is not empty")
	}
	idle()
	// What the crash took is in no queue and has no result. A task without a trace may have ended a moment ago, so that
	// the ledger is made to look older than that.
	s.must(`sed -i 's/"time":"[^"]*"/"time":"2026-01-01T00:00:00Z"/' cpbench-runs/*/jobs.jsonl`)
	second := s.errors("cpbench submit --run cpbench-runs/*")
	idle()
	if diff := cmp.Diff(map[string]int{"ok": 3, "error": 1}, s.outcomes()); diff != "" {
		t.Errorf("%s\n%s\n%s", diff, first, second)
	}
	if n := s.must("ls -d cpbench-runs/*/logs/*-a*.* | wc -l"); n != "4" {
		t.Errorf("%s attempts at 4 tasks:\n%s%s%s", n, first, second, s.must("ls cpbench-runs/*/logs"))
	}
	t.Logf("%s", first)
}

// Where only four may be queued, the job that collects submits the rest from its node, and what failed once more.
func TestSlurmGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Start(t, slurmtest.Options{}))
	s.spec("sweep.yaml", threeArrays+"site: {max_queued: 4}\nretry: {max: 1, on: [error]}\n")
	errs := s.errors("cpbench submit sweep.yaml")
	if !strings.Contains(errs, "3 tasks of 4; the job that collects goes on with the others") {
		t.Errorf("%s", errs)
	}
	s.until(2*time.Minute, func() bool { return s.must("squeue -h") == "" }, "the queue is not empty")
	logs := s.must("cat cpbench-runs/*/logs/*_collect.out")
	if diff := cmp.Diff(map[string]int{"ok": 3, "error": 1}, s.outcomes()); diff != "" {
		t.Errorf("%s\n%s", diff, logs)
	}
	for _, row := range s.raw() {
		if row["axis word"] == "bad" && !strings.HasPrefix(row["attempt"], "2.") {
			t.Errorf("not tried again: %v\n%s", row, logs)
		}
	}
	if !strings.Contains(logs, "1 task failed after as many tries as retry.max allows") {
		t.Errorf("%s", logs)
	}
}
