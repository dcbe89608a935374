package model

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cpbench/worker"
)

// start is a process to be started for an execution.
type start struct {
	name  string // for people
	argv  []string
	env   []string
	log   string // name of its log file
	ranks []int  // that it is or starts
}

// starts lists the processes of the spec's launcher:
//
//   - fork: one for each rank, all here and without srun, because every srun is a request to the controller.
//   - torchrun: one torchrun on each node, which starts the ranks of its node. On one node it finds a free port by
//     itself; on several, one job step starts it on each, and they meet on the first node.
//   - srun: one job step with one task for each rank. All ranks of a node see all its GPUs; LOCAL_RANK picks.
//   - none: the command once, as it is.
func (e *execution) starts(port int) ([]start, error) {
	argv, all := e.setting.Command, make([]int, len(e.ranks))
	for i := range all {
		all[i] = i
	}
	env := e.shared(port)
	switch launcher, nodes := e.s.spec.Launcher, e.nodes(); {
	case launcher == "fork":
		var list []start
		world := strconv.Itoa(len(e.ranks))
		for i := range e.ranks {
			own := append(worker.OutsideStep(env), "RANK="+strconv.Itoa(i), "LOCAL_RANK="+strconv.Itoa(i), "WORLD_SIZE="+world, "LOCAL_WORLD_SIZE="+world)
			list = append(list, start{fmt.Sprintf("rank %d", i), argv, own, fmt.Sprintf("rank-%d.log", i), all[i : i+1]})
		}
		return list, nil
	case launcher == "none":
		return []start{{"the command", argv, worker.OutsideStep(env), launcherLog, all}}, nil
	case launcher == "torchrun" && nodes == 1:
		return []start{{"torchrun", e.torchrun("--standalone", "--nnodes=1"), worker.OutsideStep(env), launcherLog, all}}, nil
	case os.Getenv("SLURM_JOB_ID") == "":
		return nil, fmt.Errorf("launcher %s on %d nodes starts a job step, but this is no Slurm job; submit the script with sbatch", launcher, nodes)
	case launcher == "torchrun":
		meet := net.JoinHostPort(e.host(), strconv.Itoa(port))
		step := e.srun(nodes, nodes, e.s.cpus())
		return []start{{"torchrun", append(step, e.torchrun("--nnodes="+strconv.Itoa(nodes), "--rdzv_backend=c10d", "--rdzv_endpoint="+meet, "--rdzv_id="+e.token[:8])...), env, launcherLog, all}}, nil
	case launcher == "srun":
		perNode := len(e.ranks) / nodes
		return []start{{"srun", append(e.srun(nodes, len(e.ranks), e.s.cpus()/perNode), argv...), env, launcherLog, all}}, nil
	}
	return nil, errors.New("unknown launcher " + e.s.spec.Launcher)
}

// launcherLog is the output of a launcher and of all ranks that it has started.
const launcherLog = "launcher.log"

// torchrun is the command of one torchrun. Its options are spelled with underscores, as releases before 2.0 know no
// others. A rank that ended is never started again: a rank that ran out of memory has its say, and no other.
func (e *execution) torchrun(options ...string) []string {
	argv := e.setting.Command
	run := []string{"torchrun"}
	if strings.HasPrefix(filepath.Base(argv[0]), "python") { // the torchrun of the model's own Python
		run = []string{argv[0], "-m", "torch.distributed.run"}
	}
	run = append(run, options...)
	run = append(run, "--nproc_per_node="+strconv.Itoa(len(e.ranks)/e.nodes()), "--max_restarts=0", "--no_python")
	return append(run, argv...)
}

// srun is the beginning of a job step. -N, -n and -c always stand there: without them a step takes over what the job
// asked for, or runs on one core. A rank that fails ends the others; those that survive would hang in a collective.
func (e *execution) srun(nodes, tasks, cpus int) []string {
	argv := []string{
		"srun", "-N", strconv.Itoa(nodes), "-n", strconv.Itoa(tasks), "--ntasks-per-node=" + strconv.Itoa(tasks/nodes),
		"-c", strconv.Itoa(max(cpus, 1)), "--kill-on-bad-exit=1", "--wait=60", "--export=ALL", "--label", "--unbuffered",
	}
	if cpus < 1 {
		argv = append(argv, "--overcommit")
	}
	if hosts := e.s.job.Hosts; len(hosts) > nodes { // the step has to be where the worker is
		argv = append(argv, "--nodelist="+strings.Join(hosts[:nodes], ","))
	}
	return argv
}

// nodes is the number of nodes that the ranks of this point need; the task may hold more, where points share an array.
func (e *execution) nodes() int { return e.setting.Resources.Nodes }

// cpus is the number of CPUs of the task on each node.
func (s *session) cpus() int { return s.job.Run.Plan.Arrays[s.job.Task.Array].Shape.CPUsPerTask }

// host is the name of the first node, where this worker runs.
func (e *execution) host() string {
	if e.nodes() > 1 && len(e.s.job.Hosts) > 0 {
		return e.s.job.Hosts[0]
	}
	return "127.0.0.1"
}

// connect is where the ranks find the worker.
func (e *execution) connect() string {
	_, port, err := net.SplitHostPort(e.listen.Addr().String())
	if err != nil {
		return e.listen.Addr().String()
	}
	return net.JoinHostPort(e.host(), port)
}

// address is what the worker listens on: loopback, or for ranks on several nodes the address of this node's name.
// Where that name means loopback here but the other nodes have real addresses, it is every address of this node; the
// token keeps strangers out.
func (e *execution) address() (string, error) {
	hosts := e.s.job.Hosts
	if e.nodes() < 2 || len(hosts) < 2 {
		return "127.0.0.1", nil
	}
	own, err := net.LookupHost(hosts[0])
	if err != nil {
		return "", err
	}
	if !net.ParseIP(own[0]).IsLoopback() {
		return own[0], nil
	}
	for _, other := range hosts[1:] {
		if found, err := net.LookupHost(other); err != nil || !net.ParseIP(found[0]).IsLoopback() {
			return "", nil
		}
	}
	return own[0], nil
}
