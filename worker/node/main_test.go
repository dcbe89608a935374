package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the agents.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 || os.Args[1] != "agent" {
		os.Exit(m.Run())
	}
	if err := Serve(context.Background(), Options{Root: os.Getenv("CPBENCH_TEST_ROOT")}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// here starts the agents on this machine, each under the name of its node, as a step does on others.
func here(hosts, agent []string) ([]string, error) {
	line := `for host in "$@"; do SLURMD_NODENAME=$host "$AGENT" agent & done; wait`
	return append([]string{"env", "AGENT=" + agent[0], "bash", "-c", line, "agents"}, hosts...), nil
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines are those with a message.
func (l *lockedBuffer) lines(t *testing.T, msg string) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []map[string]any
	for line := range strings.Lines(l.b.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e["msg"] == msg {
			list = append(list, e)
		}
	}
	return list
}

// crowd is a fleet of this process and agents on this machine.
type crowd struct {
	*Fleet
	t   *testing.T
	log lockedBuffer
	dir string
}

// gather opens a fleet of n nodes, n1 and so on. The first names have to mean loopback, so it is localhost.
func gather(t *testing.T, n int, with func(*Config)) *crowd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, dir: t.TempDir()}
	cfg := Config{Hosts: []string{"localhost"}, Launch: here, Agent: []string{binary}, Output: filepath.Join(c.dir, "it's nodes.log"), Log: slog.New(slog.NewJSONHandler(&c.log, nil))}
	for i := range n - 1 {
		cfg.Hosts = append(cfg.Hosts, fmt.Sprintf("n%d", i+2))
	}
	if with != nil {
		with(&cfg)
	}
	c.Fleet = Open(cfg)
	t.Cleanup(c.Close)
	return c
}

// pid is the process of the agent on a node.
func (c *crowd) pid(node string) int {
	c.t.Helper()
	for _, e := range c.log.lines(c.t, "agent") {
		if e["node"] == node {
			return int(e["pid"].(float64))
		}
	}
	c.t.Fatalf("no agent on %s", node)
	return 0
}

// stray starts a process with a mark that does not descend from this one.
func stray(t *testing.T, mark string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!")
	cmd.Env = append(os.Environ(), mark)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && len(env) > 0
}

// gone waits until a process has ended.
func gone(t *testing.T, what string, pid int) {
	t.Helper()
	for began := time.Now(); alive(pid); time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%s is left", what)
		}
	}
}
