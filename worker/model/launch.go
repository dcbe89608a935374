package model

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
	"cpbench/plan/catalogue"
	"cpbench/worker/evidence"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// execution is one set of rank processes, from their start until none of them is left.
type execution struct {
	s       *session
	setting plan.Setting
	token   string
	began   time.Time
	listen  net.Listener
	procs   []*proc // what the worker has started
	ranks   []*rank
	failed  ending                                  // why the processes could not even be started
	kills   func() (n int64, ok bool, where string) // processes that the kernel has killed for lack of host memory meanwhile

	events   chan event      // from connections and processes
	over     context.Context // ends when nobody reads events any more
	end      context.CancelFunc
	talkers  sync.WaitGroup // goroutines that listen to ranks
	watchers sync.WaitGroup // ... that wait for processes
}

// proc is a process that the worker has started: one rank, or a launcher that starts all of them.
type proc struct {
	name  string
	rank  int // the rank that it is; that it speaks for, if it is a launcher
	child *tree.Child
	log   string // file of its output
	from  int64  // length of that file before this execution
	gone  bool   // it has ended
}

// rank is what one rank has said.
type rank struct {
	proc   *proc // that it is, or that has started it; nil: it could not be started
	conn   *protocol.Conn
	silent bool // its connection has ended
	echoed bool // it said that another rank had failed before it
	hello  *protocol.Hello
	memory *protocol.Memory  // after the newest steps
	own    []protocol.Figure // figures of the program's own, as last told
}

// event is something that a rank said or that happened to it. Exactly one of msg, err and ended is set.
type event struct {
	rank  int
	msg   protocol.Message
	conn  *protocol.Conn // with the Hello that opens a connection
	err   error          // its connection ended or carried nonsense
	ended *proc          // this process ended
	exit  *os.ProcessState
}

// launch starts the ranks and does not wait for them. An execution that could not be started has failed set, and is
// to be closed like any other.
func (s *session) launch(setting plan.Setting, title string) *execution {
	e := &execution{
		s: s, setting: setting, began: time.Now(),
		ranks: make([]*rank, setting.Ranks), events: make(chan event, 16*setting.Ranks),
	}
	e.over, e.end = context.WithCancel(context.Background())
	e.kills = evidence.Delta("/")
	for i := range e.ranks {
		e.ranks[i] = &rank{}
	}
	secret := make([]byte, 16)
	rand.Read(secret) // crypto/rand never fails
	e.token = hex.EncodeToString(secret)
	s.job.Log.Info("launch", "what", title, "ranks", setting.Ranks, "command", strings.Join(setting.Command, " "))
	address, err := e.address()
	if err == nil {
		e.listen, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
	}
	if err != nil {
		e.failed = infra("no port for the ranks", err)
		return e
	}
	port, err := freePort(fmt.Sprint(s.job.Run.Dir, s.job.Task.Array, s.job.Task.Index, title))
	if err != nil {
		e.failed = infra("no port for the ranks", err)
		return e
	}
	starts, err := e.starts(port)
	if err != nil {
		e.failed = failure("the launcher cannot be used here", err.Error())
		return e
	}
	e.talkers.Go(e.accept)
	for _, st := range starts {
		if err := e.start(st, title); err != nil {
			e.failed = s.startFailed(st.argv[0], err)
			return e
		}
	}
	return e
}

// start starts one process with its output appended to its log.
func (e *execution) start(st start, title string) error {
	p := &proc{name: st.name, rank: st.ranks[0], log: filepath.Join(e.s.job.LogDir, st.log)}
	cmd := exec.Command(st.argv[0], st.argv[1:]...)
	cmd.Dir = e.s.workdir()
	cmd.Env = st.env
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
	e.procs = append(e.procs, p)
	for _, i := range st.ranks {
		e.ranks[i].proc = p
	}
	e.watchers.Go(func() {
		p.child.Wait() //nolint:errcheck // the state says it all
		e.send(event{rank: p.rank, ended: p, exit: cmd.ProcessState})
	})
	return nil
}

// stopGrace is how long ranks have to end by themselves after stop.
const stopGrace = 10 * time.Second

// close ends the execution: by stop if all went well, else at once. Afterwards nothing of it is left: no process, no
// connection, no goroutine.
func (e *execution) close(ctx context.Context, end ending, r *result.Result) {
	if end.outcome == "" {
		e.tell(ctx, &protocol.Stop{})
		e.waitGone(ctx)
	}
	if e.listen != nil {
		e.listen.Close() // no more ranks are expected
	}
	rep, err := tree.Kill(context.Background(), tree.DefaultGrace) // also when ctx has ended
	e.end()
	e.talkers.Wait()
	e.s.job.Log.Info("closed", "told", rep.Told, "killed", rep.Killed, "seconds", rep.Duration.Seconds())
	if err != nil {
		r.Warn(catalogue.LateKill, err.Error(), "look for processes in an uninterruptible state")
		return // waiting for them could take for ever
	}
	e.watchers.Wait()
	if rep.Killed > 0 {
		r.Warn(catalogue.LateKill, fmt.Sprintf("%d processes ignored TERM and had to be killed", rep.Killed), "")
	}
}

// waitGone gives the ranks time to end by themselves after stop. Their work is done and judged: what goes wrong now
// is only logged.
func (e *execution) waitGone(ctx context.Context) {
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	for !e.allGone() {
		select {
		case <-timer.C:
			e.s.job.Log.Warn("ranks did not end after stop")
			return
		case <-ctx.Done():
			return
		case ev := <-e.events:
			e.note(ev)
			if ev.ended != nil && ev.exit != nil && !ev.exit.Success() {
				e.s.job.Log.Warn("after stop", "process", ev.ended.name, "exit", ev.exit.String())
			}
		}
	}
}
