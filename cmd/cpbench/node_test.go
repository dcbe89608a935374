package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/slurm/slurmtest"
	"cpbench/worker/result"
)

// twoNodes is a sweep of a rank in Python on two nodes of two GPUs, by one job step.
const twoNodes = `version: 1
name: two-nodes
matrix: {tokens: [16]}
workload:
  kind: model
  mode: inference
  command: [bash, -c, "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS exec python3 rank.py BEHAVIOUR"]
  launcher: srun
  ranks: 4
  topology: 1d
  point: {tokens: tokens}
  warmup: 1
  iterations: 5
  timeout: 2m
resources: {nodes: 2, gpus_per_node: 2, time: 5m, cpus_per_task: 4}
`

// rank is a rank that computes nothing. With wait it stays in its timed steps until the file go is there; with leave it
// leaves a process behind that has left its session.
const rank = `import json, os, signal, socket, subprocess, sys, time
behaviour, number = sys.argv[1], int(os.environ["RANK"])
host, port = os.environ["CPBENCH_CONNECT"].rsplit(":", 1)
link = socket.create_connection((host, int(port)))
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
worker = link.makefile("rw", encoding="utf-8", newline="\n")

def say(kind, **fields):
    worker.write(json.dumps({"type": kind, **fields}) + "\n")
    worker.flush()

if behaviour == "leave":
    left = subprocess.Popen(["sleep", "300"], start_new_session=True, close_fds=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
say("hello", protocol=1, token=os.environ["CPBENCH_TOKEN"], rank=number, world=int(os.environ["WORLD_SIZE"]),
    host=socket.gethostname(), pid=os.getpid(), device={"name": "none", "total_bytes": None})
for line in worker:
    m = json.loads(line)
    if m["type"] == "start":
        say("ready")
    elif m["type"] == "point":
        say("prepared", tokens=16, padded_tokens=16, atoms=None, msa=None, seconds=0.0)
    elif m["type"] == "step":
        if m["phase"] == "timed" and behaviour == "wait":
            open("timed", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.05)
        peak = {"allocated_bytes": 1, "reserved_bytes": None, "device_bytes": None}
        say("memory", cold=peak, warm=peak)
        say("steps", seconds=[0.01] * m["count"], finite=True)
    elif m["type"] == "stop":
        break
`

// onGPUs gives every node of the site a stand-in for nvidia-smi with the GPUs that the cluster's nodes have. Nobody uses
// them; which two of them Slurm gives to a job depends on the jobs beside it.
func (s *site) onGPUs() {
	s.Helper()
	text, err := os.ReadFile("../../worker/gpu/source/testdata/nvidia-smi")
	if err != nil {
		s.Fatal(err)
	}
	eight := strings.NewReplacer(
		`echo 'GPU-aaaa, 4242, 1024, /opt/a b/python3, x'`, ":", "for gpu in 0 1;", "for gpu in 0 1 2 3 4 5 6 7;",
		`[ "$2" = 0 ] && printf GPU-aaaa || printf GPU-bbbb`, `printf GPU-%s "$2"`,
		`[ "$2" = 0 ] && printf 00000000:1A:00.0 || printf 00000000:3B:00.0`, `printf 00000000:%sA:00.0 "$2"`,
	).Replace(string(text))
	slurmtest.Executable(s, filepath.Join(s.bin, "nvidia-smi"), eight)
}

// results reads all results of the only run.
func (s *site) results() []*result.Result {
	s.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/results/*/*.json"))
	if err != nil || len(found) == 0 {
		s.Fatalf("no results: %v\n%s", err, s.must("tail -n 20 cpbench-runs/*/logs/*.out cpbench-runs/*/logs/*/*"))
	}
	var list []*result.Result
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			s.Fatal(err)
		}
		r := &result.Result{}
		if err := json.Unmarshal(text, r); err != nil {
			s.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// onTwoNodes submits the sweep with a behaviour of its ranks, and returns the job.
func (s *site) onTwoNodes(behaviour string) string {
	s.Helper()
	s.onGPUs()
	s.spec("rank.py", rank)
	s.spec("sweep.yaml", strings.Replace(twoNodes, "BEHAVIOUR", behaviour, 1))
	return s.must("cpbench plan sweep.yaml | sbatch --parsable")
}

// told waits until the ranks have made a file.
func (s *site) told(name string) {
	s.Helper()
	s.until(time.Minute, func() bool { return exists(filepath.Join(s.dir, name)) }, name+" is not there")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// agents are the ids, on this machine, of the agents of the run.
func (s *site) agents() []int {
	s.Helper()
	return s.processes(func(argv []string) bool {
		return len(argv) > 3 && argv[1] == "node" && argv[2] == "--logs" && strings.HasPrefix(argv[3], s.dir)
	})
}

// processes are the ids of the processes of this machine whose command line is told to be one that is looked for.
func (s *site) processes(wanted func(argv []string) bool) []int {
	s.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		s.Fatal(err)
	}
	var pids []int
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil || !wanted(strings.Split(string(text), "\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			s.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// show prints what a failed test needs.
func (s *site) show() {
	s.Helper()
	if s.Failed() {
		s.Log(s.must("tail -n 50 cpbench-runs/*/logs/*.out cpbench-runs/*/logs/*/*.log cpbench-runs/*/logs/*/events.jsonl"))
	}
}

// TestSlurmAgent reads the GPUs of both nodes through an agent on the second.
func TestSlurmAgent(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	s.onGPUs()
	defer s.show()
	job := s.onTwoNodes("work")
	s.ended(job, 2*time.Minute)
	r := s.results()[0]
	if r.Outcome != catalogue.OK || r.Provenance["hosts"] != "n1 n2" || r.Provenance["gpu"] != "Fake H200" || r.Provenance["telemetry"] != "nvidia-smi" {
		t.Errorf("%s (%s) %s %v", r.Outcome, r.Reason, r.Evidence, r.Provenance)
	}
	if v := r.Metrics[catalogue.TemperatureMax]; v == nil || *v != 40 {
		t.Errorf("no temperature of the whole job: %v", r.Warnings)
	}
	for _, w := range r.Warnings {
		if strings.Contains(w.Text, "n2") && !strings.Contains(w.Text, "(n1, n2)") {
			t.Errorf("a doubt about the second node: %s", w.Text)
		}
	}
	for _, file := range []string{"telemetry.jsonl", "telemetry.n2.jsonl"} {
		if text := s.must("cat cpbench-runs/*/logs/*/" + file); !strings.Contains(text, `"kind":"edge"`) {
			t.Errorf("%s has no reading: %.300s", file, text)
		}
	}
	if left := s.must("squeue -h -s -j " + job); left != "" {
		t.Errorf("job steps are left: %s", left)
	}
	if pids := s.agents(); len(pids) > 0 {
		t.Errorf("agents are left: %v", pids)
	}
}

// TestSlurmAgentKilled kills the agent while the steps are timed: the run is good, its figures of all GPUs are not known.
func TestSlurmAgentKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	defer s.show()
	job := s.onTwoNodes("wait")
	s.told("timed")
	pids := s.agents()
	if len(pids) != 1 {
		t.Fatalf("agents: %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.spec("go", "")
	s.ended(job, 2*time.Minute)
	r := s.results()[0]
	if r.Outcome != catalogue.OK || r.Metrics[catalogue.StepSeconds] == nil {
		t.Errorf("%s (%s) %s", r.Outcome, r.Reason, r.Evidence)
	}
	for _, name := range []string{catalogue.TemperatureMax, catalogue.EnergyJoules, catalogue.PowerMedianWatts, catalogue.ThrottledFraction, catalogue.PeakDeviceBytes} {
		if v, ok := r.Metrics[name]; !ok || v != nil {
			t.Errorf("%s is not null", name)
		}
	}
	var told []string
	for _, w := range r.Warnings {
		if w.Code == catalogue.NoTelemetry && strings.Contains(w.Text, "n2: ") {
			told = append(told, w.Text)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "its agent has ended") {
		t.Errorf("told of the second node: %q", told)
	}
}

// TestSlurmAgentCleansUp ends what ranks have left on both nodes of a cluster whose Slurm does not.
func TestSlurmAgentCleansUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Start(t, slurmtest.Options{Extra: []string{"ProctrackType=proctrack/linuxproc"}}))
	defer s.show()
	job := s.onTwoNodes("leave")
	s.ended(job, 2*time.Minute)
	if r := s.results()[0]; r.Outcome != catalogue.OK {
		t.Errorf("%s (%s) %s", r.Outcome, r.Reason, r.Evidence)
	}
	events := s.must("cat cpbench-runs/*/logs/*/events.jsonl")
	for _, node := range []string{"n1: 2 processes ended", "n2: 2 processes ended"} {
		if !strings.Contains(events, node) {
			t.Errorf("not in the log: %s", node)
		}
	}
}

// TestSlurmNodeLost crashes a node in the middle of the timed steps: the failure is the machine's, and the point is run again.
func TestSlurmNodeLost(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Start(t, slurmtest.Options{})
	s := newSite(t, cluster)
	defer s.show()
	s.onTwoNodes("wait")
	s.told("timed")
	if err := cluster.Node("crash", "n2"); err != nil {
		t.Fatal(err)
	}
	s.until(time.Minute, func() bool {
		found, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/results/*/*.json"))
		return err == nil && len(found) > 0
	}, "there is no result")
	if r := s.results()[0]; r.Outcome != catalogue.Infra || !strings.Contains(r.Reason, "n2 no longer answers: ") {
		t.Errorf("%s (%s) %s", r.Outcome, r.Reason, r.Evidence)
	}
}

// TestSlurmAgentCommand looks at the GPUs of both nodes around a command that spreads itself by a step.
func TestSlurmAgentCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	defer s.show()
	s.onGPUs()
	s.spec("sweep.yaml", `version: 1
name: spread
matrix: {tokens: [16]}
workload:
  kind: command
  command: [srun, -N, "2", -n, "2", --ntasks-per-node=1, -c, "1", bash, -c, "echo on $SLURMD_NODENAME, $(printf %s $CPBENCH_TOKEN | wc -c)"]
  point: {tokens: tokens}
  ranks: 2
  warmup: 1
  iterations: 2
  timeout: 1m
resources: {nodes: 2, gpus_per_node: 2, time: 5m, cpus_per_task: 4}
`)
	s.ended(s.must("cpbench plan sweep.yaml | sbatch --parsable"), 2*time.Minute)
	r := s.results()[0]
	if r.Outcome != catalogue.OK || r.Provenance["hosts"] != "n1 n2" {
		t.Errorf("%s (%s) %s %v", r.Outcome, r.Reason, r.Evidence, r.Provenance)
	}
	if v := r.Metrics[catalogue.TemperatureMax]; v == nil || *v != 40 {
		t.Errorf("no temperature of the whole job: %v", r.Warnings)
	}
	if out := s.must("cat cpbench-runs/*/logs/*/*-run-2.log"); !strings.Contains(out, "on n1, 32") || !strings.Contains(out, "on n2, 32") {
		t.Errorf("the program's output: %s", out)
	}
}
