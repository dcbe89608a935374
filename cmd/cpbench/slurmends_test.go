package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/slurm/slurmtest"
)

// quick is a sweep whose programs end at once, but where `how` says otherwise.
const quick = `version: 1
name: quick
matrix: {n: %s}
order: as-written
workload: {kind: command, command: [bash, -c, "%s"], warmup: 0, iterations: 1, timeout: 9m}
resources: {time: 10m}
`

// submitLimits submits what will run into its time limit: a program, and a set-up that only KILL ends.
func submitLimits(s *site) *site {
	s.Helper()
	for name, setup := range map[string]string{"handled": "true", "deaf": "trap '' TERM USR2; sleep 600"} {
		text := strings.Replace(fmt.Sprintf(quick, "[0]", "sleep 600"), "name: quick", "name: "+name, 1)
		text = strings.Replace(text, "time: 10m", "time: 1m", 1) + fmt.Sprintf("slurm: {signal_before: 5s}\nsetup: [%q]\n", setup)
		s.spec(name+".yaml", text)
		s.must("cpbench submit " + name + ".yaml")
	}
	return s
}

// checkLimits waits for what submitLimits has submitted.
func checkLimits(t *testing.T, s *site) {
	s.T = t
	for name, reason := range map[string]string{"handled": "", "deaf": "killed before it could write on n"} {
		run := "cpbench-runs/" + name + "-*"
		told := s.await(3*time.Minute, run, map[string]string{"n=0": "timeout"})
		s.because(told, "n=0", reason)
		s.agree(run, told)
		handled := "the task's time of 1m0s was used up" // or, if Slurm's signal comes a minute early:
		if got := told["n=0"].Reason; name == "handled" && got != handled && !strings.HasSuffix(got, "near the job's time limit") {
			s.Errorf("the worker left %q", got)
		}
	}
	s.idle()
}

// testScancel ends one task that runs, one that waits, and then all of them.
func testScancel(s *site) {
	s.gates("one", "[0, 1, 2, 3]", "slurm: {parallel: 2}\n")
	s.must("sed -i 's/exclusive: true/cpus_per_task: 1/' one.yaml")
	s.must("cpbench submit one.yaml")
	s.begun("one0.1", "one1.1")
	job := s.must(`sed -n 's/.*"submitted".*"array":0.*"id":"\([0-9]*\)".*/\1/p' cpbench-runs/*/jobs.jsonl`)
	s.must("scancel " + job + "_0 " + job + "_3")
	// 22.05 keeps no record of a task that was cancelled while it waited.
	told := s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "cancelled", "n=1": "running", "n=2": "running", "n=3": "cancelled"})
	s.because(told, "n=3", "CANCELLED before its start")
	s.because(told, "n=0", "stopped; the task is CANCELLED")
	s.let("one1.1")
	s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "cancelled", "n=1": "ok", "n=2": "running", "n=3": "cancelled"})
	s.must("scancel " + job)
	told = s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "cancelled", "n=1": "ok", "n=2": "cancelled", "n=3": "cancelled"})
	s.agree("cpbench-runs/*", told)
}

// testOverMemory is a worker that Slurm ends because its task uses more memory than it asked for. Slurm's own words in the
// task's log are the only witness: the state is FAILED 0:9.
func testOverMemory(s *site) {
	s.spec("fat.yaml", strings.ReplaceAll(fmt.Sprintf(quick, "[0]", "head -c 300M /dev/zero | tail | sleep 60"), "name: quick", "name: fat"))
	s.must("sed -i 's/time: 10m/time: 10m, mem: 100M/' fat.yaml")
	s.must("cpbench submit fat.yaml")
	told := s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "oom_host"})
	s.because(told, "n=0", "exceeded memory limit")
	s.agree("cpbench-runs/*", told)
}

// testOutOfMemory has the state that Slurm gives where the kernel kept the limit. This cluster cannot have it, so that it
// is put into the books, and the controller is made to know nothing: as it is a month later.
func testOutOfMemory(s *site) {
	s.spec("oom.yaml", strings.ReplaceAll(fmt.Sprintf(quick, "[0, 1, 2]", "if [ {n} = 0 ]; then kill -KILL $PPID; fi; exit {n}"), "name: quick", "name: oom"))
	s.must("sed -i 's/time: 10m/time: 10m, mem: 200M/; s/exit {n}/exit $(({n} - 1))/' oom.yaml")
	job := s.must("cpbench plan oom.yaml | sbatch --parsable")
	s.ended(job, time.Minute)
	s.until(time.Minute, func() bool {
		return s.must("sacct -n -X -P -j "+job+" -o JobID,State | grep -c '_[012]|\\(COMPLETED\\|FAILED\\)' || true") == "3"
	}, "the books do not know the ends")
	if _, err := s.cluster.SQL("update cpbench_job_table set state=11, exit_code=125 where id_array_job=" + job); err != nil {
		s.Fatal(err)
	}
	slurmtest.Executable(s, filepath.Join(s.bin, "squeue"), "#!/bin/sh\n")
	told := s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "oom_host", "n=1": "error", "n=2": "error"})
	s.because(told, "n=0", "killed for host memory, witness: the scheduler on n")
	s.because(told, "n=0", "asked for 200M")
	s.because(told, "n=1", "a process of the task was killed for host memory on n") // its program has ended with 0 all the same
	s.because(told, "n=2", "exit")
	s.agree("cpbench-runs/*", told)
}

// testNoLogs takes the folder of the logs away before the task starts.
func testNoLogs(s *site) {
	s.spec("quick.yaml", fmt.Sprintf(quick, "[0, 1]", "true"))
	job := s.must("cpbench plan quick.yaml | sbatch --parsable --hold")
	told := s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "pending", "n=1": "pending"})
	s.because(told, "n=0", "will not start: it is held")
	if advice := told["n=0"].Advice; advice != "scontrol release "+job+" lets it go" && !strings.Contains(advice, "ask the site's support to release it") {
		s.Errorf("advice %q", advice)
	}
	s.must("rmdir cpbench-runs/*/logs && scontrol release " + job)
	told = s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "infra", "n=1": "infra"})
	s.because(told, "n=1", "the log folder is missing or not writable on n")
	s.agree("cpbench-runs/*", told)
	s.must("cpbench submit --run cpbench-runs/*")
	told = s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "ok", "n=1": "ok"})
	if told["n=0"].Attempt != 2 {
		s.Errorf("%+v is not of a second attempt", told["n=0"])
	}
}

// testLateResult takes a result away until after its task's end: a shared file system may show it that late.
func testLateResult(s *site) {
	s.spec("quick.yaml", fmt.Sprintf(quick, "[0, 1]", "true"))
	job := s.must("cpbench plan quick.yaml | sbatch --parsable")
	s.ended(job, time.Minute)
	id := s.must(`grep -l '"value":"1"' cpbench-runs/*/results/*/*.json | head -1`)
	s.must("mv '" + id + "' late")
	told := s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "ok", "n=1": "running"})
	s.because(told, "n=1", "ended a moment ago; its file may not be visible yet")
	s.agree("cpbench-runs/*", told)
	if errs := s.errors("cpbench submit --run cpbench-runs/*"); !strings.Contains(errs, "ended so recently") {
		s.Errorf("submitted again: %s", errs)
	}
	s.must("mv late '" + id + "'")
	told = s.await(time.Second, "cpbench-runs/*", map[string]string{"n=0": "ok", "n=1": "ok"})
	s.agree("cpbench-runs/*", told)
}
