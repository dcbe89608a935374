package node

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/worker/gpu"
)

// onGPUs puts a stand-in for nvidia-smi with two GPUs first on PATH.
func onGPUs(t *testing.T) {
	t.Helper()
	dir, err := filepath.Abs("../gpu/source/testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestReadings(t *testing.T) {
	onGPUs(t)
	c := gather(t, 3, nil)
	early := c.Ask(t.Context(), 3, Request{Do: Look})
	for _, r := range early {
		if r.Err == nil {
			t.Errorf("%s reads GPUs for which nobody has looked", r.Node)
		}
	}
	for i, r := range c.Ask(t.Context(), 3, Request{Do: Identify}) {
		if r.Err != nil || r.Identity == nil || r.Identity.Source != gpu.SMI || len(r.Identity.Devices) != 2 || r.Identity.Doubt == "" {
			t.Errorf("%d %s: %v %+v", i, r.Node, r.Err, r.Identity)
		}
		if want := []string{"localhost", "n2", "n3"}[i]; r.Node != want {
			t.Errorf("node %d is %s", i, r.Node)
		}
	}
	for _, r := range c.Ask(t.Context(), 3, Request{Do: Look}) {
		if r.Err != nil || r.Reading == nil || len(r.Reading.GPUs) != 2 || len(r.Processes) != 1 || r.Processes[0].PID != 4242 {
			t.Errorf("%s: %v %+v", r.Node, r.Err, r.Answer)
		}
	}
	for _, r := range c.Ask(t.Context(), 3, Request{Do: After}) {
		if r.Err == nil || !strings.Contains(r.Err.Error(), "from before") {
			t.Errorf("%s: usage since when? %v", r.Node, r.Err)
		}
	}
	for _, do := range []Verb{Before, Watch} {
		for _, r := range c.Ask(t.Context(), 3, Request{Do: do, Pace: gpu.Untimed}) {
			if r.Err != nil {
				t.Errorf("%s: %s: %v", r.Node, do, r.Err)
			}
		}
	}
	for _, r := range c.Ask(t.Context(), 3, Request{Do: After}) {
		if r.Err != nil || r.Usage == nil || len(r.Usage.GPUs) != 2 || *r.Usage.TemperatureMax != 40 {
			t.Errorf("%s: %v %+v", r.Node, r.Err, r.Usage)
		}
	}
	for _, r := range c.Ask(t.Context(), 4, Request{Do: "dance"}) {
		if r.Err == nil {
			t.Errorf("%s can do what nobody knows", r.Node)
		}
	}
}

func TestWitness(t *testing.T) {
	root := t.TempDir()
	counter := filepath.Join(root, "sys/fs/cgroup/memory.events")
	for path, text := range map[string]string{filepath.Join(root, "proc/self/cgroup"): "0::/\n", counter: "oom_kill 5\n"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CPBENCH_TEST_ROOT", root)
	c := gather(t, 2, func(cfg *Config) { cfg.Self.Root = t.TempDir() }) // nobody counts here
	c.Ask(t.Context(), 2, Request{Do: Begin})
	if k := c.Kills(t.Context(), 2); k != (Killed{}) {
		t.Errorf("before: %+v", k)
	}
	if err := os.WriteFile(counter, []byte("oom_kill 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if k := c.Kills(t.Context(), 2); k.N != 2 || k.Where != "/sys/fs/cgroup/memory.events on n2" {
		t.Errorf("after: %+v", k)
	}
	if k := c.Kills(t.Context(), 1); k != (Killed{}) {
		t.Errorf("of this node alone: %+v", k)
	}
}

func TestCleanUp(t *testing.T) {
	c := gather(t, 2, nil)
	mark := "CPBENCH_NODE_TEST=clean up " + rand.Text()
	c.Ask(t.Context(), 2, Request{Do: Begin, Mark: mark})
	left := stray(t, mark)
	a, err := c.others[0].do(t.Context(), Request{Do: Clean, Mark: mark})
	if err != nil || a.Cleaned == nil || a.Cleaned.Told != 1 || alive(left) {
		t.Errorf("%v %+v, left: %v", err, a.Cleaned, alive(left))
	}
	if told, killed, lines := c.CleanUp(t.Context(), 2, mark); told != 0 || killed != 0 || len(lines) != 0 {
		t.Errorf("once more: %d %d %q", told, killed, lines)
	}
	if !alive(c.pid("n2")) {
		t.Error("the agent has ended itself")
	}
}

// An agent whose worker has gone ends what the worker can no longer end.
func TestWorkerGone(t *testing.T) {
	c := gather(t, 2, nil)
	mark := "CPBENCH_NODE_TEST=worker gone " + rand.Text()
	c.Ask(t.Context(), 2, Request{Do: Begin, Mark: mark})
	left, agent := stray(t, mark), c.pid("n2")
	c.others[0].fail(errors.New("test"))
	gone(t, "the process of the execution", left)
	gone(t, "the agent", agent)
}

func TestAgentKilled(t *testing.T) {
	onGPUs(t)
	c := gather(t, 3, nil)
	c.Ask(t.Context(), 3, Request{Do: Identify})
	c.Begin(t.Context(), 3, "")
	if k := c.Kills(t.Context(), 3); k.Lost != "" {
		t.Errorf("lost before: %q", k.Lost)
	}
	if err := syscall.Kill(c.pid("n2"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	replies := c.Ask(t.Context(), 3, Request{Do: Look})
	if replies[0].Err != nil || replies[2].Err != nil {
		t.Errorf("of the others: %v, %v", replies[0].Err, replies[2].Err)
	}
	if err := replies[1].Err; err == nil || !strings.Contains(err.Error(), "agent") {
		t.Errorf("of the one that was killed: %v", err)
	}
	if k := c.Kills(t.Context(), 3); !strings.HasPrefix(k.Lost, "n2 no longer answers: ") || strings.Contains(k.Lost, "n3") {
		t.Errorf("lost: %q", k.Lost)
	}
	c.Begin(t.Context(), 3, "")
	if k := c.Kills(t.Context(), 3); k.Lost != "" {
		t.Errorf("an execution without the agent has lost %q", k.Lost)
	}
}

func TestNoAgents(t *testing.T) {
	tests := map[string]struct {
		with func(*Config)
		want string
	}{
		"no launcher here": {func(cfg *Config) {
			cfg.Launch = func([]string, []string) ([]string, error) { return nil, errors.New("this is no Slurm job") }
		}, "could not be started: this is no Slurm job"},
		"no such program": {func(cfg *Config) {
			cfg.Launch = func([]string, []string) ([]string, error) { return []string{"/nonexistent/srun"}, nil }
		}, "could not be started"},
		"ends at once": {func(cfg *Config) {
			cfg.Launch = func([]string, []string) ([]string, error) { return []string{"bash", "-c", "exit 3"}, nil }
		}, "the command that starts its agent ended (exit status 3); see it's nodes.log"},
		"no address": {func(cfg *Config) { cfg.Hosts[0] = "no such host.invalid" }, "could not be started"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := gather(t, 2, tt.with)
			replies := c.Ask(t.Context(), 2, Request{Do: Begin})
			if replies[0].Err != nil {
				t.Errorf("this node: %v", replies[0].Err)
			}
			if err := replies[1].Err; err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the other node: %v", err)
			}
			_, _, lines := c.CleanUp(t.Context(), 2, "CPBENCH_NODE_TEST=nobody "+rand.Text())
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "n2: ") {
				t.Errorf("clean-up: %q", lines)
			}
		})
	}
}

// Nothing is started for a task of one node, or before another node is asked.
func TestLazy(t *testing.T) {
	c := gather(t, 2, func(cfg *Config) {
		cfg.Launch = func([]string, []string) ([]string, error) { panic("started") }
	})
	if r := c.Ask(t.Context(), 1, Request{Do: Begin}); len(r) != 1 || r[0].Err != nil || r[0].Node != "localhost" {
		t.Errorf("%+v", r)
	}
}

// Who does not know the secret, or was not waited for, is not listened to.
func TestStrangers(t *testing.T) {
	c := gather(t, 2, nil)
	c.Ask(t.Context(), 2, Request{Do: Begin})
	agent, address := c.others[0], c.crew.listen.Addr().String()
	for _, line := range []string{
		`{"token":"guess","node":"n2"}`, `{"node":"n2"}`, "GET / HTTP/1.1\r\n",
		fmt.Sprintf(`{"token":%q,"node":"n2"}`, c.crew.token), fmt.Sprintf(`{"token":%q,"node":"n7"}`, c.crew.token),
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(conn, line)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: was listened to", line)
		}
		conn.Close()
	}
	if _, err := agent.do(t.Context(), Request{Do: Kills}); err != nil {
		t.Errorf("the agent was lost: %v", err)
	}
}

// An agent that hangs costs its limit once.
func TestAgentHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMember("n2")
		ours, theirs := net.Pipe()
		go func() { // reads, and never answers
			for s := bufio.NewScanner(theirs); s.Scan(); {
			}
		}()
		m.joined(ours)
		go m.hear(bufio.NewScanner(ours))
		began := time.Now()
		haste, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("in a hurry"))
		defer cancel()
		if _, err := m.do(haste, Request{Do: Look}); err == nil || err.Error() != "in a hurry" {
			t.Errorf("a caller in a hurry: %v", err)
		}
		for range 2 {
			if _, err := m.do(t.Context(), Request{Do: Look}); err == nil || !strings.Contains(err.Error(), `did not answer "look" within 20s`) {
				t.Errorf("%v", err)
			}
		}
		if took := time.Since(began); took != 21*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// An agent that came late, but in time, has the whole limit of its first request: it did not have to answer before.
func TestAgentComesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMember("n2")
		ours, theirs := net.Pipe()
		go func() {
			time.Sleep(joinLimit - time.Second)
			m.joined(ours)
			go m.hear(bufio.NewScanner(ours))
		}()
		go func() {
			s := bufio.NewScanner(theirs)
			s.Scan()
			time.Sleep(Begin.limit() - time.Second)
			fmt.Fprintln(theirs, `{"id":1}`)
			s.Scan()
		}()
		if _, err := m.do(t.Context(), Request{Do: Begin}); err != nil {
			t.Errorf("it was given up: %v", err)
		}
		m.fail(errClosed)
	})
}

// A node that answers nonsense, or too long a line, is given up.
func TestAgentTalksNonsense(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"no JSON": "driver says no\n", "no id": "{}\n", "long": strings.Repeat("x", maxLine+1) + "\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMember("n2")
			ours, theirs := net.Pipe()
			go func() {
				if bufio.NewScanner(theirs).Scan() {
					theirs.Write([]byte(answer))
				}
			}()
			m.joined(ours)
			scanner := bufio.NewScanner(ours)
			scanner.Buffer(nil, maxLine)
			go m.hear(scanner)
			if _, err := m.do(t.Context(), Request{Do: Look}); err == nil {
				t.Error("it was believed")
			}
		})
	}
}
