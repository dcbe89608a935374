package model

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cpbench/plan"
	"cpbench/worker/model/protocol"
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
	events  chan event // from connections and processes; closed by nobody
	done    chan struct{}
	hello   []*protocol.Hello
	memory  []*protocol.Memory  // as last told, by rank
	own     [][]protocol.Figure // figures of the program's own, as last told, by rank
	failed  ending              // why the processes could not even be started
}

// rank is one process.
type rank struct {
	child *tree.Child
	conn  *protocol.Conn
	log   int64 // length of its log file before this execution
	gone  bool  // the process has ended
	exit  *os.ProcessState
}

// event is something that a rank said or that happened to it. Exactly one of msg, err and exit is set.
type event struct {
	rank int
	msg  protocol.Message
	err  error            // its connection ended or carried nonsense
	exit *os.ProcessState // its process ended
	conn *protocol.Conn   // with a Hello
}

// launch starts the ranks (launcher fork: all of them here, without srun). It does not wait for them.
func (s *session) launch(ctx context.Context, setting plan.Setting, title string) *execution {
	e := &execution{
		s: s, setting: setting, began: time.Now(), done: make(chan struct{}),
		ranks: make([]*rank, setting.Ranks), hello: make([]*protocol.Hello, setting.Ranks),
		memory: make([]*protocol.Memory, setting.Ranks), own: make([][]protocol.Figure, setting.Ranks),
		events: make(chan event, 16*setting.Ranks),
	}
	secret := make([]byte, 16)
	rand.Read(secret) // crypto/rand never fails
	e.token = hex.EncodeToString(secret)
	var err error
	if e.listen, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		e.failed = infra("no port for the ranks", err)
		return e
	}
	port, err := freePort(fmt.Sprint(s.job.Run.Dir, s.job.Task.Array, s.job.Task.Index, title))
	if err != nil {
		e.failed = infra("no port for the ranks", err)
		return e
	}
	s.job.Log.Info("launch", "what", title, "ranks", setting.Ranks, "command", strings.Join(setting.Command, " "))
	for i := range e.ranks {
		if err := e.fork(i, port, title); err != nil {
			e.failed = startFailed(setting.Command[0], err)
			return e
		}
	}
	go e.accept()
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
	e.ranks[i] = &rank{child: child, log: info.Size()}
	go func() {
		err := child.Wait()
		state := cmd.ProcessState
		if err != nil && state == nil {
			state = &os.ProcessState{}
		}
		e.send(event{rank: i, exit: state})
	}()
	return nil
}

func (s *session) workdir() string {
	dir := s.spec.Workdir
	if dir == "" {
		return s.job.Run.Plan.Dir
	}
	if strings.HasPrefix(dir, "/") {
		return dir
	}
	return s.job.Run.Plan.Dir + "/" + dir
}

// misleading are the variables of a batch step that make a program believe that srun has started it.
var misleading = []string{"SLURM_PROCID=", "SLURM_LOCALID=", "SLURM_NODEID=", "SLURM_NTASKS=", "SLURM_NPROCS=", "SLURM_TASK_PID=", "SLURM_GTIDS=", "SLURM_STEP"}

// environ is the environment of a rank: the worker's, without the scheduler's task variables, with what PyTorch's
// env:// rendezvous needs, and with the spec's own variables last.
func (e *execution) environ(i, port int) []string {
	var env []string
	for _, kv := range os.Environ() {
		keep := true
		for _, m := range misleading {
			keep = keep && !strings.HasPrefix(kv, m)
		}
		if keep {
			env = append(env, kv)
		}
	}
	lib := e.s.job.Run.Lib()
	if old := os.Getenv("PYTHONPATH"); old != "" {
		lib += ":" + old
	}
	env = append(env,
		"PYTHONPATH="+lib,
		"RANK="+strconv.Itoa(i), "LOCAL_RANK="+strconv.Itoa(i),
		"WORLD_SIZE="+strconv.Itoa(e.setting.Ranks), "LOCAL_WORLD_SIZE="+strconv.Itoa(e.setting.Ranks),
		"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+strconv.Itoa(port),
		protocol.EnvConnect+"="+e.listen.Addr().String(), protocol.EnvToken+"="+e.token,
	)
	for name, value := range e.setting.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// freePort finds a port that nobody listens on. It starts at a place that depends on the task and stays below the
// kernel's own range for outgoing connections, so that two tasks of one node hardly ever meet.
func freePort(seed string) (int, error) {
	low := 32768
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if f := strings.Fields(string(data)); len(f) == 2 {
			if n, err := strconv.Atoi(f[0]); err == nil && n > 12000 {
				low = n
			}
		}
	}
	const first = 10000
	h := fnv.New32a()
	h.Write([]byte(seed)) // never fails
	span := low - first
	start := int(h.Sum32() % uint32(span))
	for i := range span {
		port := first + (start+i)%span
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
		if !isAddrInUse(err) {
			return 0, err
		}
	}
	return 0, syscall.EADDRINUSE
}
