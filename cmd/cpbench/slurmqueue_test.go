package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// testManyPoints is an array of 200 tasks, some of which fail in two ways.
func testManyPoints(s *site) {
	var points []string
	want := map[string]string{}
	for n := range 200 {
		points = append(points, fmt.Sprint(n))
		outcome := "ok"
		if n%10 == 7 || n%100 == 50 {
			outcome = "error"
		}
		want[fmt.Sprintf("n=%d", n)] = outcome
	}
	s.spec("many.yaml", `version: 1
name: many
matrix: {n: [`+strings.Join(points, ", ")+`]}
workload: {kind: command, command: [bash, -c, "case {n} in *7) exit 3;; *50) kill -SEGV $$;; esac"], warmup: 0, iterations: 1, timeout: 1m}
resources: {time: 5m, cpus_per_task: 4}
`)
	s.must("cpbench submit many.yaml")
	told := s.await(4*time.Minute, "cpbench-runs/*", want)
	s.because(told, "n=7", "exit code 3")
	s.because(told, "n=150", "signal 11")
	s.agree("cpbench-runs/*", told)
	nodes := map[string]bool{}
	for _, row := range s.raw() {
		nodes[row["host"]] = true
	}
	if len(nodes) != 4 {
		s.Errorf("the tasks ran on %v", nodes)
	}
}

// testRefusedSubmit is a partition that is not there.
func testRefusedSubmit(s *site) {
	s.spec("quick.yaml", fmt.Sprintf(quick, "[0, 1]", "true")+"slurm: {partition: gpuu}\n")
	_, errs, err := s.sh("cpbench submit quick.yaml")
	if cmdExit(err) != exitError || !strings.Contains(errs, "was not submitted") || !strings.Contains(errs, `there is no partition "gpuu"; choose from gpu`) {
		s.Errorf("%v: %s", err, errs)
	}
	told := s.await(time.Second, "cpbench-runs/*", map[string]string{"n=0": "missing", "n=1": "missing"})
	s.because(told, "n=0", "never started")
	s.agree("cpbench-runs/*", told)
}

// testWillNotStart asks for more time than the partition allows, which Slurm takes and never starts.
func testWillNotStart(s *site) {
	s.spec("quick.yaml", fmt.Sprintf(quick, "[0, 1]", "true")+"slurm: {partition: short}\n")
	s.must("cpbench submit quick.yaml")
	told := s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "pending", "n=1": "pending"})
	s.because(told, "n=1", "will not start: it asks for more time ") // PartitionTimeLimit or, from some schedulers' passes, PartitionConfig
	if e := told["n=1"]; !e.WontStart || !strings.Contains(e.Advice, "lower resources.time") {
		s.Errorf("%+v: %q", e, e.Advice)
	}
	// Nothing stirs any more: a script that waits for the run may stop here.
	if _, _, err := s.sh("cpbench status cpbench-runs/*"); cmdExit(err) != exitIncomplete {
		s.Errorf("%v", err)
	}
	s.must("cpbench cancel cpbench-runs/*")
	told = s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "cancelled", "n=1": "cancelled"})
	s.because(told, "n=0", "before its start")
	s.agree("cpbench-runs/*", told)
}

// testQueueLimit is a QOS that lets a user queue three jobs.
func testQueueLimit(s *site) {
	s.spec("quick.yaml", fmt.Sprintf(quick, "[0, 1, 2, 3]", "true")+"slurm: {qos: small}\n")
	s.become("nobody") // root is let over the limits of a QOS
	_, errs, err := s.sh("cpbench submit quick.yaml")
	if cmdExit(err) != exitError || !strings.Contains(errs, "QOS small lets a user queue at once (3)") || !strings.Contains(errs, "submit --keep-queued 3 goes on by itself") {
		s.Errorf("%v: %s", err, errs)
	}
	want := map[string]string{"n=0": "missing", "n=1": "missing", "n=2": "missing", "n=3": "missing"}
	s.await(time.Second, "cpbench-runs/*", want)
	if errs := s.errors("cpbench submit --run cpbench-runs/* --keep-queued 3"); !strings.Contains(errs, "2 tasks of 4; the job that collects goes on with the others") {
		s.Errorf("%s", errs)
	}
	for point := range want {
		want[point] = "ok"
	}
	s.agree("cpbench-runs/*", s.await(2*time.Minute, "cpbench-runs/*", want))
}

// become makes another user type, whose folder it then is.
func (s *site) become(user string) {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	// A copy, because another user may not walk the path of a test binary.
	s.must("cp --remove-destination '" + self + "' \"$(command -v cpbench)\" && chown -R " + user + " .")
	for _, dir := range []string{s.dir, s.bin} {
		for ; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.user = user
}

// wrap puts a command of Slurm behind a line of bash.
func (s *site) wrap(name, line string) {
	s.Helper()
	slurmtest.Executable(s, filepath.Join(s.bin, name), fmt.Sprintf("#!/bin/bash\n%s\nexec %s/%s \"$@\"\n", line, s.cluster.Bin, name))
}

// testTwoSubmits has two people go on with one run at the same time.
func testTwoSubmits(s *site) {
	s.spec("three.yaml", threeArrays)
	if _, errs, err := s.sh("cpbench plan three.yaml"); cmdExit(err) != exitError || !strings.Contains(errs, "needs 3 arrays") { // the run folder stays
		s.Errorf("%v: %s", err, errs)
	}
	s.must("cpbench submit --run cpbench-runs/* 2>first & cpbench submit --run cpbench-runs/* 2>second && wait $!")
	told := s.await(time.Minute, "cpbench-runs/*", map[string]string{"cp=1,word=good": "ok", "cp=2,word=bad": "error", "cp=2,word=good": "ok", "cp=4,word=good": "ok"})
	s.agree("cpbench-runs/*", told)
	if n := s.must("grep -c '\"submitted\"' cpbench-runs/*/jobs.jsonl"); n != "4" {
		s.Errorf("%s jobs for three arrays:\n%s", n, s.must("cat first second"))
	}
	if n := s.must("ls -d cpbench-runs/*/logs/*-a*.* | wc -l"); n != "4" {
		s.Errorf("%s attempts at 4 tasks", n)
	}
}

// testCalls counts what is asked of Slurm.
func testCalls(s *site) {
	for _, name := range []string{"sbatch", "squeue", "sacct", "scontrol", "sinfo", "sacctmgr", "scancel", "srun", "sstat"} {
		s.wrap(name, `[ "$1" = --version ] || [ -n "$SLURM_JOB_ID" ] || echo `+name+` >>"`+strings.ReplaceAll(s.bin, `"`, `\"`)+`/calls"`)
	}
	calls := func() string {
		return s.must(`cd "$(dirname "$(command -v cpbench)")"; sort calls | uniq -c | awk '{printf "%s%d %s", sep, $1, $2; sep = ", "}'; rm calls`)
	}
	s.spec("three.yaml", threeArrays)
	s.must("cpbench submit three.yaml")
	// One sbatch for each array and one for the job that collects. The rest is one look at the site, however many arrays.
	if diff := cmp.Diff("2 sacctmgr, 4 sbatch, 3 scontrol, 1 sinfo", calls()); diff != "" {
		s.Errorf("submit (-want +got):\n%s", diff)
	}
	s.standing("cpbench-runs/*")
	if diff := cmp.Diff("1 sacct, 1 squeue", calls()); diff != "" {
		s.Errorf("status (-want +got):\n%s", diff)
	}
	s.await(time.Minute, "cpbench-runs/*", map[string]string{"cp=1,word=good": "ok", "cp=2,word=bad": "error", "cp=2,word=good": "ok", "cp=4,word=good": "ok"})
}
