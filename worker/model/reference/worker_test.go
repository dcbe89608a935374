package reference_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/worker/model/protocol"
	"cpbench/worker/model/reference"
)

// asRank makes the test binary a rank.
const asRank = "CPBENCH_TEST_RANK"

func TestMain(m *testing.M) {
	if os.Getenv(asRank) != "" {
		os.Exit(reference.Main(context.Background(), os.Args[1:], os.Stderr))
	}
	m.Run()
}

// patience bounds every wait for a rank. It is long because the machine may be busy; no test waits for it to pass.
const patience = time.Minute

// child is a rank as the worker sees it.
type child struct {
	cmd    *exec.Cmd
	stderr string // file
	conn   *protocol.Conn
	hello  *protocol.Hello
	ended  chan struct{} // closed when the process has ended
}

// launch starts world ranks and returns them in order, after their hellos.
func launch(t *testing.T, world int, args ...string) []*child {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), `a "log" folder`)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	token := fmt.Sprintf("%s %d", t.Name(), time.Now().UnixNano())
	children := make([]*child, world)
	for r := range children {
		children[r] = spawn(t, dir, r, world, args,
			protocol.EnvConnect+"="+l.Addr().String(), protocol.EnvToken+"="+token)
	}
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for range children {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn := protocol.NewConn(c)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		m, err := conn.Receive()
		if err != nil {
			t.Fatal(err)
		}
		hello, ok := m.(*protocol.Hello)
		if !ok || hello.Token != token {
			t.Fatalf("first message %#v", m)
		}
		children[hello.Rank].conn, children[hello.Rank].hello = conn, hello
	}
	return children
}

// spawn starts one rank, which is killed at the end of the test at the latest.
func spawn(t *testing.T, dir string, rank, world int, args []string, env ...string) *child {
	t.Helper()
	c := &child{
		cmd:    exec.Command(os.Args[0], args...),
		stderr: filepath.Join(dir, fmt.Sprintf("rank-%d.log", rank)),
		ended:  make(chan struct{}),
	}
	log, err := os.Create(c.stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.cmd.Stderr = log
	c.cmd.Env = append(append(os.Environ(), env...), asRank+"=1", "RANK="+strconv.Itoa(rank),
		"WORLD_SIZE="+strconv.Itoa(world), "LOCAL_RANK="+strconv.Itoa(rank))
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // the status is in cmd.ProcessState
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		if c.conn != nil {
			c.conn.Close()
		}
	})
	return c
}

// send gives every rank the same message.
func send(t *testing.T, children []*child, m protocol.Message) {
	t.Helper()
	for r, c := range children {
		if err := c.conn.Send(m); err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

// receive returns the next message that is no sign of life.
func (c *child) receive() (protocol.Message, error) {
	for {
		m, err := c.conn.Receive()
		if _, alive := m.(*protocol.Alive); !alive {
			return m, err
		}
	}
}

// expect returns the next message of every rank, which has to be a T.
func expect[T any](t *testing.T, children []*child) []*T {
	t.Helper()
	var all []*T
	for r, c := range children {
		m, err := c.receive()
		got, ok := m.(any).(*T)
		if err != nil || !ok {
			t.Fatalf("rank %d: got %#v, %v; want %T; stderr: %s", r, m, err, got, c.log(t))
		}
		all = append(all, got)
	}
	return all
}

// log returns what the rank wrote to stderr.
func (c *child) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(c.stderr)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exit waits for the end of the process and returns its status as a shell gives it: 128 and more for a signal.
func (c *child) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		t.Fatalf("pid %d does not end", c.cmd.Process.Pid)
	}
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// stop ends ranks that are well.
func stop(t *testing.T, children []*child) {
	t.Helper()
	send(t, children, protocol.Stop{})
	for r, c := range children {
		if code := c.exit(t); code != 0 {
			t.Errorf("rank %d: exit status %d; stderr: %s", r, code, c.log(t))
		}
	}
}

// result is what a request of steps gave.
type result struct {
	metrics []*protocol.Metrics
	memory  []*protocol.Memory
	steps   []*protocol.Steps
}

// run asks for steps.
func run(t *testing.T, children []*child, phase string, count int) result {
	t.Helper()
	send(t, children, protocol.Step{Phase: phase, Count: count})
	var r result
	for _, c := range children {
		one := []*child{c}
		r.metrics = append(r.metrics, expect[protocol.Metrics](t, one)...)
		r.memory = append(r.memory, expect[protocol.Memory](t, one)...)
		r.steps = append(r.steps, expect[protocol.Steps](t, one)...)
	}
	return r
}

// sum adds up a metric of all ranks.
func (r result) sum(t *testing.T, name string) float64 {
	t.Helper()
	total := 0.0
	for rank, m := range r.metrics {
		found := false
		for _, f := range m.Metrics {
			if f.Name == name {
				total, found = total+f.Value, true
			}
		}
		if !found {
			t.Errorf("rank %d does not report %s", rank, name)
		}
	}
	return total
}

// begin starts the ranks and brings them to the point tokens.
func begin(t *testing.T, world int, topology, mode string, tokens int, args ...string) []*child {
	t.Helper()
	children := launch(t, world, args...)
	send(t, children, protocol.Start{Mode: mode, Topology: topology})
	expect[protocol.Ready](t, children)
	send(t, children, point(tokens))
	expect[protocol.Prepared](t, children)
	return children
}

func point(tokens int) protocol.Point {
	return protocol.Point{Params: map[string]any{"tokens": tokens}}
}

// lost reports whether err is the end of a connection.
func lost(err error) bool {
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !strings.HasPrefix(err.Error(), "decode")
}
