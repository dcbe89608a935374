package ranks

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cpbench/worker"
	"cpbench/worker/container"
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
//
// In a container of the spec runs what these start, torchrun included. pyxis makes one of a job step, so that there is
// a step even where one process on this node would do.
func (s *Set) starts(port int) ([]start, error) {
	argv, all := s.Setting.Command, make([]int, len(s.Ranks))
	for i := range all {
		all[i] = i
	}
	env := s.shared(port)
	switch launcher, nodes := s.spec().Launcher, s.Nodes(); {
	case launcher == "fork":
		var list []start
		world := strconv.Itoa(len(s.Ranks))
		for i := range s.Ranks {
			own := append(worker.OutsideStep(env), "RANK="+strconv.Itoa(i), "LOCAL_RANK="+strconv.Itoa(i), "WORLD_SIZE="+world, "LOCAL_WORLD_SIZE="+world)
			wrapped, own := s.inside(argv, own)
			list = append(list, start{fmt.Sprintf("rank %d", i), wrapped, own, fmt.Sprintf("rank-%d.log", i), all[i : i+1]})
		}
		return list, nil
	case launcher == "none":
		return []start{s.here("the command", argv, env, all)}, nil
	case launcher == "torchrun" && nodes == 1:
		return []start{s.here("torchrun", s.torchrun("--standalone", "--nnodes=1"), env, all)}, nil
	case os.Getenv("SLURM_JOB_ID") == "":
		return nil, fmt.Errorf("launcher %s on %d nodes starts a job step, but this is no Slurm job; submit the script with sbatch", launcher, nodes)
	case launcher == "torchrun":
		meet := net.JoinHostPort(s.host(), strconv.Itoa(port))
		run, env := s.inside(s.torchrun("--nnodes="+strconv.Itoa(nodes), "--rdzv_backend=c10d", "--rdzv_endpoint="+meet, "--rdzv_id="+s.token[:8]), env)
		return []start{{"torchrun", append(s.srun(nodes, nodes, s.cpus(), env), run...), env, launcherLog, all}}, nil
	case launcher == "srun":
		perNode := len(s.Ranks) / nodes
		run, env := s.inside(argv, env)
		return []start{{"srun", append(s.srun(nodes, len(s.Ranks), s.cpus()/perNode, env), run...), env, launcherLog, all}}, nil
	}
	return nil, errors.New("unknown launcher " + s.spec().Launcher)
}

// here is one process on this node that is, or starts, all ranks.
func (s *Set) here(name string, argv, env []string, all []int) start {
	run, env := s.inside(argv, worker.OutsideStep(env))
	if container.Of(s.job.Run).InStep() {
		run = append(s.srun(1, 1, s.cpus(), env), run...)
	}
	return start{name, run, env, launcherLog, all}
}

// inside is a program as the spec's container runs it.
func (s *Set) inside(argv, env []string) (wrapped, environ []string) {
	return container.Of(s.job.Run).Inside(argv, env, s.workdir(), s.Setting.Resources.GPUsPerNode > 0)
}

// launcherLog is the output of a launcher and of all ranks that it has started.
const launcherLog = "launcher.log"

// torchrun is the command of one torchrun. Its options are spelled with underscores, as releases before 2.0 know no
// others. A rank that ended is never started again: a rank that ran out of memory has its say, and no other.
func (s *Set) torchrun(options ...string) []string {
	argv := s.Setting.Command
	run := []string{"torchrun"}
	if strings.HasPrefix(filepath.Base(argv[0]), "python") { // the torchrun of the model's own Python
		run = []string{argv[0], "-m", "torch.distributed.run"}
	}
	run = append(run, options...)
	run = append(run, "--nproc_per_node="+strconv.Itoa(len(s.Ranks)/s.Nodes()), "--max_restarts=0", "--no_python")
	return append(run, argv...)
}

// srun is the beginning of a job step. -N, -n and -c always stand there: without them a step takes over what the job
// asked for, or runs on one core. A rank that fails ends the others; those that survive would hang in a collective.
func (s *Set) srun(nodes, tasks, cpus int, env []string) []string {
	argv := []string{
		"srun", "-N", strconv.Itoa(nodes), "-n", strconv.Itoa(tasks), "--ntasks-per-node=" + strconv.Itoa(tasks/nodes),
		"-c", strconv.Itoa(max(cpus, 1)), "--kill-on-bad-exit=1", "--wait=60", "--export=ALL", "--label", "--unbuffered",
	}
	if cpus < 1 {
		argv = append(argv, "--overcommit")
	}
	if hosts := s.job.Hosts; len(hosts) > nodes { // the step has to be where the worker is
		argv = append(argv, "--nodelist="+strings.Join(hosts[:nodes], ","))
	}
	return append(argv, container.Of(s.job.Run).Step(env, s.workdir())...)
}

// Nodes is the number of nodes that the ranks need; the task may hold more, where points share an array.
func (s *Set) Nodes() int { return s.Setting.Resources.Nodes }

// cpus is the number of CPUs of the task on each node.
func (s *Set) cpus() int { return s.job.Run.Plan.Arrays[s.job.Task.Array].Shape.CPUsPerTask }

// host is the name of the first node, where this worker runs.
func (s *Set) host() string {
	if s.Nodes() > 1 && len(s.job.Hosts) > 0 {
		return s.job.Hosts[0]
	}
	return "127.0.0.1"
}
