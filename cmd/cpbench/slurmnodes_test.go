package main

import (
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// broke does something to a node or the controller, which has to succeed.
func (s *site) broke(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// testNodesFail has nodes that lose their power, and nodes whose slurmd dies while the tasks live on, of which Slurm says
// the same: then two copies of a task can run at the same time. What the old copy leaves never takes the place of what
// the new one has measured.
func testNodesFail(s *site) {
	s.gates("moves", "[0, 1, 2, 3]", "slurm: {requeue: true}\n")
	s.gates("stays", "[0, 1]", "slurm: {requeue: false}\n")
	s.must("cpbench submit moves.yaml && cpbench submit stays.yaml")
	s.begun("moves0.1", "moves1.1", "moves2.1", "moves3.1", "stays0.1", "stays1.1")
	moves, stays := s.standing("cpbench-runs/moves-*"), s.standing("cpbench-runs/stays-*")
	nodes := map[string]bool{}
	for verb, lost := range map[string][]fate{"crash": {moves["n=0"], stays["n=0"]}, "killd": {moves["n=1"], moves["n=2"], moves["n=3"], stays["n=1"]}} {
		for _, e := range lost {
			nodes[e.Node] = true
			s.broke(s.cluster.Node(verb, e.Node))
		}
	}
	if len(nodes) != 6 {
		s.Fatalf("not on six nodes: %v", nodes)
	}

	// Nothing is lost meanwhile: tasks run, then wait, then run again elsewhere, or have failed with their node.
	told := s.await(2*time.Minute, "cpbench-runs/stays-*", map[string]string{"n=0": "infra", "n=1": "infra"})
	s.because(told, "n=0", "node_fail on "+stays["n=0"].Node)
	s.agree("cpbench-runs/stays-*", told)
	s.let("stays1.1", "moves2.1") // both have never stopped
	told = s.await(time.Minute, "cpbench-runs/stays-*", map[string]string{"n=0": "infra", "n=1": "ok"})
	s.because(told, "n=1", "the task ended as NODE_FAIL")

	s.begun("moves0.2", "moves1.2", "moves3.2")
	told = s.await(2*time.Minute, "cpbench-runs/moves-*", map[string]string{"n=0": "running", "n=1": "running", "n=2": "ok", "n=3": "running"})
	for _, point := range []string{"n=0", "n=1", "n=3"} {
		if told[point].Node == moves[point].Node {
			s.Errorf("%s runs on %s again", point, told[point].Node)
		}
	}
	s.let("moves1.2", "moves0.2", "moves3.2")
	ok := map[string]string{"n=0": "ok", "n=1": "ok", "n=2": "ok", "n=3": "ok"}
	s.await(time.Minute, "cpbench-runs/moves-*", ok)
	s.let("moves1.1")                                     // this old copy ends well, after the new one
	s.broke(s.cluster.Node("resumed", moves["n=3"].Node)) // and this one is stopped
	s.until(time.Minute, func() bool { return s.must("ls cpbench-runs/moves-*/results/*/*-a1.0.json | wc -l") == "3" }, "the old copies have left no results")
	if n := s.must(`grep -l '"outcome":"cancelled"' cpbench-runs/moves-*/results/*/*-a1.0.json | wc -l`); n != "1" {
		s.Errorf("%s old copies were stopped", n)
	}
	s.agree("cpbench-runs/moves-*", s.await(time.Second, "cpbench-runs/moves-*", ok))
	// Of n=2 the old copy was the first to end, and the new one had nothing to do.
	if diff := cmp.Diff(map[string]string{"n=0": "2", "n=1": "2", "n=2": "1", "n=3": "2"}, s.measured("cpbench-runs/moves-*")); diff != "" {
		s.Errorf("the copies that count (-want +got):\n%s", diff)
	}

	s.must("cpbench submit --run cpbench-runs/stays-*")
	s.begun("stays0.2")
	s.let("stays0.2")
	s.agree("cpbench-runs/stays-*", s.await(time.Minute, "cpbench-runs/stays-*", map[string]string{"n=0": "ok", "n=1": "ok"}))
}

// testRequeued has a job of a better partition take the nodes of two tasks, and an administrator send a third one back.
func testRequeued(s *site) {
	s.gates("again", "[0]", "slurm: {requeue: true, partition: gpu-preempt}\n")
	s.gates("gone", "[0]", "slurm: {requeue: false, partition: gpu-preempt}\n")
	s.gates("back", "[0]", "slurm: {requeue: true}\n")
	s.must("cpbench submit again.yaml && cpbench submit gone.yaml && cpbench submit back.yaml")
	s.begun("again0.1", "gone0.1", "back0.1")
	s.must(`printf '#!/bin/bash\nuntil [ -e enough ]; do sleep 0.1; done\n' | sbatch --nodes=2 --exclusive --output=/dev/null`)
	told := s.await(time.Minute, "cpbench-runs/gone-*", map[string]string{"n=0": "infra"})
	s.because(told, "n=0", "preempted on n")
	s.agree("cpbench-runs/gone-*", told)
	told = s.await(time.Minute, "cpbench-runs/again-*", map[string]string{"n=0": "pending"})
	s.agree("cpbench-runs/again-*", told)

	s.must(`scontrol requeue "$(squeue -h -n "$(squeue -h -t R -o %j | grep '^back')" -o %F)_0"`)
	s.await(time.Minute, "cpbench-runs/back-*", map[string]string{"n=0": "pending"})
	s.must("touch enough")
	for _, name := range []string{"again", "back"} {
		s.begun(name + "0.2")
		s.let(name + "0.2")
		told := s.await(time.Minute, "cpbench-runs/"+name+"-*", map[string]string{"n=0": "ok"})
		s.agree("cpbench-runs/"+name+"-*", told)
		if copies := s.measured("cpbench-runs/" + name + "-*"); copies["n=0"] != "2" {
			s.Errorf("%s: %v", name, copies)
		}
	}
}

// testControllerFails has the controller killed while tasks run and others wait.
func testControllerFails(s *site) {
	s.gates("left", "[0, 1, 2, 3, 4, 5]", "slurm: {parallel: 2}\n")
	s.must("sed -i 's/exclusive: true/cpus_per_task: 1/' left.yaml")
	s.must("cpbench submit left.yaml")
	s.begun("left0.1", "left1.1")
	s.saved()
	s.broke(s.cluster.KillController())
	s.let("left0.1") // it ends while nobody watches
	s.until(time.Minute, func() bool { return s.must("ls cpbench-runs/*/results/*/*.json 2>/dev/null | wc -l || true") == "1" }, "no result")
	// The files alone decide, and it is said so.
	out, errs, err := s.sh("cpbench status cpbench-runs/*")
	if cmdExit(err) != exitIncomplete || !strings.Contains(errs, "Slurm was asked and gave no answer, so the files alone decide") || !strings.Contains(out, "6 executions: 1 ok, 5 missing") {
		s.Errorf("%v: %s%s", err, out, errs)
	}
	s.broke(s.cluster.StartController())
	s.await(time.Minute, "cpbench-runs/*", map[string]string{"n=0": "ok", "n=1": "running", "n=2": "running", "n=3": "pending", "n=4": "pending", "n=5": "pending"})
	s.let("left1.1")
	for _, copies := range [][]string{{"left2.1", "left3.1"}, {"left4.1", "left5.1"}} {
		s.begun(copies...)
		s.let(copies...)
	}
	ok := map[string]string{"n=0": "ok", "n=1": "ok", "n=2": "ok", "n=3": "ok", "n=4": "ok", "n=5": "ok"}
	s.agree("cpbench-runs/*", s.await(time.Minute, "cpbench-runs/*", ok))
	for point, copy := range s.measured("cpbench-runs/*") {
		if copy != "1" {
			s.Errorf("copy %s of %s", copy, point)
		}
	}
}

// saved waits until the controller has written down that the tasks run: what is younger is lost with it.
func (s *site) saved() {
	s.Helper()
	s.must("touch now")
	s.until(time.Minute, func() bool {
		return s.must(`find "$(dirname "$(dirname "$SLURM_CONF")")/state/job_state" -newer now`) != ""
	}, "the controller has not saved its state")
}
