// Package ranks owns one set of rank processes, from their start until none of them is left: it starts them as the
// spec's launcher says, carries what the worker says to each and what each says back, and tells how they ended. What
// is asked of them, and what the answers are worth, is the affair of worker/model.
package ranks

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cpbench/plan"
	"cpbench/worker"
	"cpbench/worker/model/launch"
	"cpbench/worker/model/protocol"
	"cpbench/worker/node"
	"cpbench/worker/tree"
)

// Set is one set of rank processes. Its methods are called from one goroutine, and Close at the end whatever happened.
type Set struct {
	Setting plan.Setting // with which they were started
	Began   time.Time    // when
	Ranks   []*Rank      // by number

	job     worker.Job
	nodes   *node.Fleet
	token   string
	listen  net.Listener
	connect string  // where the ranks find it
	procs   []*proc // what the worker has started
	failed  Ending  // why the processes could not even be started

	events   chan event      // from connections and processes
	over     context.Context // ends when nobody reads events any more
	end      context.CancelFunc
	talkers  sync.WaitGroup // goroutines that listen to ranks
	watchers sync.WaitGroup // ... that wait for processes
}

// Rank is what one rank has said.
type Rank struct {
	Hello   *protocol.Hello   // nil: nothing yet
	Ready   *protocol.Ready   // nil: the model is not built yet
	Memory  *protocol.Memory  // after the newest steps; nil: nothing
	Figures []protocol.Figure // of the program's own, as last told

	proc   *proc // that it is, or that has started it; nil: it could not be started
	conn   *protocol.Conn
	silent bool // its connection has ended
	echoed bool // it said that another rank had failed before it

	heard time.Time // when it last said anything
	beats bool      // it gives signs of life; the next are what it said of itself with the newest
	where string
	there time.Time // when it first said so
	done  *int
}

// proc is a process that the worker has started: one rank, or a launcher that starts all of them.
type proc struct {
	name  string
	rank  int // the rank that it is; that it speaks for, if it is a launcher
	child *tree.Child
	log   string // file of its output
	from  int64  // length of that file before this set
	gone  bool   // it has ended
}

// event is something that a rank said or that happened to it. Exactly one of msg, err and ended is set.
type event struct {
	rank  int
	msg   protocol.Message
	at    time.Time      // when msg came
	conn  *protocol.Conn // with the Hello that opens a connection
	err   error          // its connection ended or carried nonsense
	ended *proc          // this process ended
	exit  *os.ProcessState
}

// Launch starts the ranks of a setting on the first of the task's nodes and does not wait for them. title heads what they
// write into their logs. Why they could not be started is the ending of the first question; the set is to be closed like
// any other. ctx bounds only the wait for the agents on other nodes.
func Launch(ctx context.Context, job worker.Job, nodes *node.Fleet, setting plan.Setting, title string) *Set {
	s := &Set{
		job: job, nodes: nodes, Setting: setting, Began: time.Now(),
		Ranks: make([]*Rank, setting.Ranks), events: make(chan event, 16*setting.Ranks),
	}
	s.over, s.end = context.WithCancel(context.Background())
	for i := range s.Ranks {
		s.Ranks[i] = &Rank{}
	}
	secret := make([]byte, 16)
	rand.Read(secret) // crypto/rand never fails
	s.token = hex.EncodeToString(secret)
	job.Log.Info("launch", "what", title, "ranks", setting.Ranks, "command", strings.Join(setting.Command, " "))
	nodes.Begin(ctx, s.Nodes(), s.mark())
	hosts := job.Hosts[:min(s.Nodes(), len(job.Hosts))]
	var err error
	if s.listen, s.connect, err = node.Listen(hosts); err != nil {
		s.failed = infra("no port for the ranks", err)
		return s
	}
	port, err := node.FreePort(hosts, fmt.Sprint(job.Run.Dir, job.Task.Array, job.Task.Index, title))
	if err != nil {
		s.failed = infra("no port for the ranks", err)
		return s
	}
	order := launch.Order{Job: job, Setting: setting, Connect: s.connect, Mark: s.mark(), Port: port, Meeting: rand.Text()[:8]}
	list, err := order.Processes()
	if err != nil {
		s.failed = Failure("the launcher cannot be used here", err.Error())
		return s
	}
	s.talkers.Go(s.accept)
	for _, p := range list {
		if err := s.start(p, title); err != nil {
			s.failed = startFailed(p, err)
			return s
		}
	}
	return s
}

// Nodes is the number of nodes that the ranks need; the task may hold more, where points share an array.
func (s *Set) Nodes() int { return s.Setting.Resources.Nodes }

// mark is the entry in the environment of every process of this set, on whichever node.
func (s *Set) mark() string { return protocol.EnvToken + "=" + s.token }

// start starts one process with its output appended to its log.
func (s *Set) start(st launch.Process, title string) error {
	p := &proc{name: st.Name, rank: st.Ranks[0], log: filepath.Join(s.job.LogDir, st.Log)}
	cmd := exec.Command(st.Argv[0], st.Argv[1:]...)
	cmd.Dir, cmd.Env = st.Dir, st.Env
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor
	if _, err := fmt.Fprintf(log, "== %s, %s\n", title, time.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	info, err := log.Stat()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr, p.from = log, log, info.Size()
	if p.child, err = tree.Start(cmd); err != nil {
		return err
	}
	s.procs = append(s.procs, p)
	for _, i := range st.Ranks {
		s.Ranks[i].proc = p
	}
	s.watchers.Go(func() {
		p.child.Wait() //nolint:errcheck // the state says it all
		s.send(event{rank: p.rank, ended: p, exit: cmd.ProcessState})
	})
	return nil
}

// spec is the workload of the plan.
func (s *Set) spec() plan.Workload { return s.job.Run.Plan.Spec.Workload }
