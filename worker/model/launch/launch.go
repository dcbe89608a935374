// Package launch says which processes the spec's launcher starts for the ranks of a model: their commands, in a job step
// and a container where the spec asks for one, their environments and their logs. It starts nothing. Use it where a set
// of ranks is started; package ranks does.
package launch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cpbench/plan"
	"cpbench/worker"
	"cpbench/worker/container"
	"cpbench/worker/model/protocol"
)

// Process is a process to be started.
type Process struct {
	Name  string // for people
	Argv  []string
	Env   []string
	Dir   string // its working folder
	Log   string // name of the file in the task's log folder that takes its output
	Ranks []int  // that it is or starts
}

// Order is what is to be started.
type Order struct {
	Job     worker.Job
	Setting plan.Setting
	Connect string // host:port at which the ranks find the worker
	Mark    string // NAME=SECRET, in the environment of every process
	Port    int    // free on the first node, for the ranks' own meeting
	Meeting string // name of the meeting, if torchrun needs one
}

// Processes lists the processes of the spec's launcher:
//
//   - fork: one for each rank, all here and without srun, because every srun is a request to the controller.
//   - torchrun: one torchrun on each node, which starts the ranks of its node. On one node it finds a free port by
//     itself; on several, one job step starts it on each, and they meet on the first node.
//   - srun: one job step with one task for each rank. All ranks of a node see all its GPUs; LOCAL_RANK picks.
//   - none: the command once, as it is.
//
// In a container of the spec runs what these start, torchrun included. pyxis makes one of a job step, so that there is
// a step even where one process on this node would do. The error says what the launcher needs and does not have here.
func (o Order) Processes() ([]Process, error) {
	argv, all := o.Setting.Command, make([]int, o.Setting.Ranks)
	for i := range all {
		all[i] = i
	}
	env := o.shared()
	switch launcher, nodes := o.workload().Launcher, o.nodes(); {
	case launcher == "fork":
		var list []Process
		world := strconv.Itoa(len(all))
		for i := range all {
			own := append(worker.OutsideStep(env), "RANK="+strconv.Itoa(i), "LOCAL_RANK="+strconv.Itoa(i), "WORLD_SIZE="+world, "LOCAL_WORLD_SIZE="+world)
			wrapped, own := o.inside(argv, own)
			list = append(list, Process{fmt.Sprintf("rank %d", i), wrapped, own, o.dir(), fmt.Sprintf("rank-%d.log", i), all[i : i+1]})
		}
		return list, nil
	case launcher == "none":
		return []Process{o.here("the command", argv, env, all)}, nil
	case launcher == "torchrun" && nodes == 1:
		return []Process{o.here("torchrun", o.torchrun("--nnodes=1", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv_id="+o.Meeting), env, all)}, nil
	case os.Getenv("SLURM_JOB_ID") == "":
		return nil, fmt.Errorf("launcher %s on %d nodes starts a job step, but this is no Slurm job; submit the script with sbatch", launcher, nodes)
	case launcher == "torchrun":
		meet := net.JoinHostPort(o.host(), strconv.Itoa(o.Port))
		run, env := o.inside(o.torchrun("--nnodes="+strconv.Itoa(nodes), "--rdzv_backend=c10d", "--rdzv_endpoint="+meet, "--rdzv_id="+o.Meeting), env)
		return []Process{{"torchrun", append(o.srun(nodes, nodes, o.cpus(), env), run...), env, o.dir(), sharedLog, all}}, nil
	case launcher == "srun":
		run, env := o.inside(argv, env)
		return []Process{{"srun", append(o.srun(nodes, len(all), o.cpus()/(len(all)/nodes), env), run...), env, o.dir(), sharedLog, all}}, nil
	}
	return nil, errors.New("unknown launcher " + o.workload().Launcher)
}

// sharedLog is the output of a launcher and of all ranks that it has started.
const sharedLog = "launcher.log"

// shared is the environment that every rank has: that of the task's programs, and what leads to the worker and to the
// rendezvous of the ranks.
func (o Order) shared() []string {
	return append(o.Job.Environ(o.Setting),
		"MASTER_ADDR="+o.host(), "MASTER_PORT="+strconv.Itoa(o.Port),
		protocol.EnvConnect+"="+o.Connect, o.Mark,
	)
}

// here is one process on this node that is, or starts, all ranks.
func (o Order) here(name string, argv, env []string, all []int) Process {
	run, env := o.inside(argv, worker.OutsideStep(env))
	if container.Of(o.Job.Run).InStep() {
		run = append(o.srun(1, 1, o.cpus(), env), run...)
	}
	return Process{name, run, env, o.dir(), sharedLog, all}
}

// inside is a program as the spec's container runs it.
func (o Order) inside(argv, env []string) (wrapped, environ []string) {
	return container.Of(o.Job.Run).Inside(argv, env, o.dir(), o.Setting.Resources.GPUsPerNode > 0)
}

// torchrun is the command of one torchrun. Its options are spelled with underscores, as releases before 2.0 know no
// others, and the meeting of one node takes any free port: --standalone of some releases, such as 1.13, takes 29400 for
// all. A rank that ended is never started again: a rank that ran out of memory has its say, and no other.
func (o Order) torchrun(options ...string) []string {
	argv := o.Setting.Command
	run := []string{"torchrun"}
	if strings.HasPrefix(filepath.Base(argv[0]), "python") { // the torchrun of the model's own Python
		run = []string{argv[0], "-m", "torch.distributed.run"}
	}
	run = append(run, options...)
	run = append(run, "--nproc_per_node="+strconv.Itoa(o.Setting.Ranks/o.nodes()), "--max_restarts=0", "--no_python")
	return append(run, argv...)
}

// srun is the beginning of a job step. -N, -n and -c always stand there: without them a step takes over what the job
// asked for, or runs on one core. A rank that fails ends the others; those that survive would hang in a collective.
func (o Order) srun(nodes, tasks, cpus int, env []string) []string {
	argv := []string{
		"srun", "-N", strconv.Itoa(nodes), "-n", strconv.Itoa(tasks), "--ntasks-per-node=" + strconv.Itoa(tasks/nodes),
		"-c", strconv.Itoa(max(cpus, 1)), "--kill-on-bad-exit=1", "--wait=60", "--export=ALL", "--label", "--unbuffered",
	}
	if cpus < 1 {
		argv = append(argv, "--overcommit")
	}
	if hosts := o.Job.Hosts; len(hosts) > nodes { // the step has to be where the worker is
		argv = append(argv, "--nodelist="+strings.Join(hosts[:nodes], ","))
	}
	return append(argv, container.Of(o.Job.Run).Step(env, o.dir())...)
}

// nodes is the number of nodes that the ranks need; the task may hold more, where points share an array.
func (o Order) nodes() int { return o.Setting.Resources.Nodes }

// cpus is the number of CPUs of the task on each node.
func (o Order) cpus() int { return o.Job.Run.Plan.Arrays[o.Job.Task.Array].Shape.CPUsPerTask }

// host is the name of the first node, where this worker runs.
func (o Order) host() string {
	if o.nodes() > 1 && len(o.Job.Hosts) > 0 {
		return o.Job.Hosts[0]
	}
	return "127.0.0.1"
}

// workload is that of the plan.
func (o Order) workload() plan.Workload { return o.Job.Run.Plan.Spec.Workload }

// dir is the folder in which the ranks run.
func (o Order) dir() string {
	if dir := o.workload().Workdir; filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(o.Job.Run.Plan.Dir, o.workload().Workdir)
}
