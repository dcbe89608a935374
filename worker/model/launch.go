package model

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
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
	ranks   []*rank
	failed  ending // why the processes could not even be started

	events   chan event      // from connections and processes
	over     context.Context // ends when nobody reads events any more
	end      context.CancelFunc
	talkers  sync.WaitGroup // goroutines that listen to ranks
	watchers sync.WaitGroup // ... that wait for processes
}

// rank is one process and what it has said.
type rank struct {
	child  *tree.Child // nil: it could not be started
	log    int64       // length of its log file before this execution
	gone   bool        // the process has ended
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
	ended bool           // its process ended
	exit  *os.ProcessState
}

// launch starts the ranks (launcher fork: all of them here, without srun). It does not wait for them. An execution
// that could not be started has failed set, and is to be closed like any other.
func (s *session) launch(setting plan.Setting, title string) *execution {
	e := &execution{
		s: s, setting: setting, began: time.Now(),
		ranks: make([]*rank, setting.Ranks), events: make(chan event, 16*setting.Ranks),
	}
	e.over, e.end = context.WithCancel(context.Background())
	for i := range e.ranks {
		e.ranks[i] = &rank{}
	}
	secret := make([]byte, 16)
	rand.Read(secret) // crypto/rand never fails
	e.token = hex.EncodeToString(secret)
	s.job.Log.Info("launch", "what", title, "ranks", setting.Ranks, "command", strings.Join(setting.Command, " "))
	if name := forbidden(setting.Env); name != "" {
		e.failed = failure("env sets "+name+", which the launcher sets itself", "")
		return e
	}
	var err error
	if e.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		e.failed = infra("no port for the ranks", err)
		return e
	}
	port, err := freePort(fmt.Sprint(s.job.Run.Dir, s.job.Task.Array, s.job.Task.Index, title))
	if err != nil {
		e.failed = infra("no port for the ranks", err)
		return e
	}
	e.talkers.Go(e.accept)
	for i := range e.ranks {
		if err := e.fork(i, port, title); err != nil {
			e.failed = s.startFailed(setting.Command[0], err)
			return e
		}
	}
	return e
}

// fork starts one rank with its output appended to its log.
func (e *execution) fork(i, port int, title string) error {
	argv := e.setting.Command
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = e.s.workdir()
	cmd.Env = e.environ(i, port)
	log, err := os.OpenFile(e.s.rankLog(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
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
	cmd.Stdout, cmd.Stderr = log, log
	child, err := tree.Start(cmd)
	if err != nil {
		return err
	}
	e.ranks[i].child, e.ranks[i].log = child, info.Size()
	e.watchers.Go(func() {
		child.Wait() //nolint:errcheck // the state says it all
		e.send(event{rank: i, ended: true, exit: cmd.ProcessState})
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
	for !e.all(func(r *rank) bool { return r.gone }) {
		select {
		case <-timer.C:
			e.s.job.Log.Warn("ranks did not end after stop")
			return
		case <-ctx.Done():
			return
		case ev := <-e.events:
			e.note(ev)
			if ev.ended && ev.exit != nil && !ev.exit.Success() {
				e.s.job.Log.Warn("after stop", "rank", ev.rank, "exit", ev.exit.String())
			}
		}
	}
}
