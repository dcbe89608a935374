package node

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	joinLimit = 30 * time.Second // for an agent to connect: a step may have to wait for the scheduler
	farewell  = 10 * time.Second // for the agents to clean up and end after their connections have
)

var errClosed = errors.New("the session has ended")

// crew is the agents under way: the command that has started them, and the port to which they come.
type crew struct {
	f       *Fleet
	listen  net.Listener
	token   string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the command has ended
	talkers sync.WaitGroup
	late    *time.Timer
	over    context.Context // ends every conversation
	end     context.CancelFunc
}

// Srun is the launcher for a job of Slurm: one step on all the other nodes. It overlaps: it takes no CPU, no memory and
// no GPU from the steps of the ranks, and sees the devices of the job. An agent that fails ends no other one.
func Srun(hosts, agent []string) ([]string, error) {
	if os.Getenv("SLURM_JOB_ID") == "" {
		return nil, errors.New("this is no Slurm job")
	}
	n := strconv.Itoa(len(hosts))
	return append([]string{
		"srun", "--overlap", "-N", n, "-n", n, "--ntasks-per-node=1", "-c", "1", "--mem=0", "--nodelist=" + strings.Join(hosts, ","),
		"--input=none", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL", "--label", "--unbuffered",
	}, agent...), nil
}

// start starts the agents and returns at once.
func (f *Fleet) start() (*crew, error) {
	argv, err := f.cfg.Launch(f.cfg.Hosts[1:], f.cfg.Agent)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 16)
	rand.Read(secret) // crypto/rand never fails
	c := &crew{f: f, token: hex.EncodeToString(secret), ended: make(chan struct{})}
	c.over, c.end = context.WithCancel(context.Background())
	var connect string
	if c.listen, connect, err = Listen(f.cfg.Hosts); err != nil {
		return nil, err
	}
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Env = append(agentEnv(os.Environ()), EnvConnect+"="+connect, EnvToken+"="+c.token)
	output, err := os.OpenFile(f.cfg.Output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		defer output.Close() // the command has its own descriptor
		c.cmd.Stdout, c.cmd.Stderr = output, output
	}
	start := f.cfg.Self.Start
	if start == nil {
		start = func(cmd *exec.Cmd) (func() error, error) { return cmd.Wait, cmd.Start() }
	}
	wait, err := start(c.cmd)
	if err != nil {
		c.listen.Close()
		return nil, err
	}
	f.cfg.Log.Info("agents", "nodes", strings.Join(f.cfg.Hosts[1:], " "))
	c.talkers.Go(c.accept)
	c.late = time.AfterFunc(joinLimit, func() { c.tooLate(fmt.Errorf("its agent did not connect within %v", joinLimit)) })
	go func() {
		err := wait()
		c.tooLate(fmt.Errorf("the command that starts its agent ended (%s); see %s", exitText(err), filepath.Base(f.cfg.Output)))
		close(c.ended)
	}()
	return c, nil
}

// agentEnv is the environment without what marks or misleads the programs of an execution.
func agentEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "CPBENCH_TOKEN=") })
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// tooLate gives up the nodes that have not connected.
func (c *crew) tooLate(why error) {
	for _, m := range c.f.others {
		select {
		case <-m.ready:
		default:
			m.fail(why)
		}
	}
	c.listen.Close() // nobody is expected any more
}

// accept takes the connections of the agents.
func (c *crew) accept() {
	for {
		conn, err := c.listen.Accept()
		if err != nil {
			return
		}
		c.talkers.Go(func() { c.greet(conn) })
	}
}

// greet reads the hello of a connection and then hears what it says. A wrong token is dropped: somebody else has found
// the port.
func (c *crew) greet(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(c.over, func() { conn.Close() })
	defer stop()
	conn.SetReadDeadline(time.Now().Add(farewell)) //nolint:errcheck // the Scan tells
	scanner := bufio.NewScanner(conn)
	scanner.Buffer(nil, maxLine)
	var h hello
	if !scanner.Scan() || json.Unmarshal(scanner.Bytes(), &h) != nil || subtle.ConstantTimeCompare([]byte(h.Token), []byte(c.token)) != 1 {
		c.f.cfg.Log.Warn("dropped a stranger", "address", conn.RemoteAddr().String())
		return
	}
	conn.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	i := slices.IndexFunc(c.f.others, func(m *member) bool { return m.name == h.Node })
	if i < 0 || !c.f.others[i].joined(conn) {
		c.f.cfg.Log.Warn("dropped an agent that was not waited for", "node", h.Node)
		return
	}
	c.f.cfg.Log.Info("agent", "node", h.Node, "pid", h.PID)
	c.f.others[i].hear(scanner)
}

// close waits until the agents have ended after their connections have, and ends them otherwise.
func (c *crew) close() {
	c.late.Stop()
	c.listen.Close()
	c.end()
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Kill} {
		select {
		case <-c.ended:
			c.talkers.Wait()
			return
		case <-timer.C:
		}
		c.cmd.Process.Signal(signal) //nolint:errcheck // that it has ended is the only error
		timer.Reset(time.Second)
	}
	c.talkers.Wait()
	select {
	case <-c.ended:
	case <-timer.C: // it hangs in the kernel
	}
}
