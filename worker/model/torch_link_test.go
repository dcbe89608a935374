package model

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/worker/model/protocol"
)

// A rank whose worker goes away ends at once, in the middle of a step too; one that is told to stop ends with 0.
func TestTorchEndings(t *testing.T) {
	const slow = `
import time
def build_model(mesh, device): return None
def build_batch(N, n_atoms, S, mesh, device): return None
def run_step(model, batch, train): time.sleep(600)
`
	tests := map[string]struct {
		last protocol.Message // nil: the connection is closed before
		want int
	}{
		"idle":      {nil, 3},
		"in a step": {protocol.Step{Phase: "warmup", Count: 1}, 3},
		"stop":      {protocol.Stop{}, 0},
	}
	onEach(t, func(t *testing.T, python string) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				conn, child, output := dialled(t, python, hooks(t, slow))
				converse(t, conn)
				if tt.last != nil {
					if err := conn.Send(tt.last); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				if tt.want != 0 {
					conn.Close()
				}
				_ = child.Wait() // the exit code says it
				if code := child.ProcessState.ExitCode(); code != tt.want || time.Since(began) > soon {
					text, _ := os.ReadFile(output)
					t.Errorf("exit code %d after %v, want %d: %s", code, time.Since(began), tt.want, text)
				}
			})
		}
	})
}

// dialled starts one rank and returns its connection, the process, and the file that it writes to.
func dialled(t *testing.T, python, dir string) (*protocol.Conn, *exec.Cmd, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	output := filepath.Join(t.TempDir(), "rank.log")
	file, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	argv := torchCommand(python, "my_hooks")
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", protocol.EnvToken+"=secret", protocol.EnvConnect+"="+l.Addr().String())
	for name, value := range torchEnv(t, dir) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // a failed test has not waited for it
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := protocol.NewConn(nc)
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn, cmd, output
}

// converse leads a rank to a prepared point and checks what it says on the way.
func converse(t *testing.T, conn *protocol.Conn) {
	t.Helper()
	say := func(m protocol.Message) {
		if err := conn.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() protocol.Message {
		for {
			m, err := conn.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := m.(*protocol.Alive); !ok {
				return m
			}
		}
	}
	h, ok := hear().(*protocol.Hello)
	if !ok || h.Token != "secret" || h.World != 1 || h.Rank != 0 || h.PID < 1 || h.Device.Name != "cpu" || h.Device.TotalBytes != nil {
		t.Fatalf("hello: %+v", h)
	}
	for name := range h.Settings {
		if strings.Contains(name, "TOKEN") {
			t.Errorf("setting %s is told", name)
		}
	}
	say(protocol.Start{Mode: "inference"})
	if _, ok := hear().(*protocol.Ready); !ok {
		t.Fatal("not ready")
	}
	say(protocol.Point{Params: map[string]any{"tokens": 7, "msa": 3}})
	p, ok := hear().(*protocol.Prepared)
	if !ok || p.Tokens == nil || *p.Tokens != 7 || p.PaddedTokens == nil || *p.PaddedTokens != 7 || p.MSA == nil || *p.MSA != 3 || p.Atoms != nil {
		t.Fatalf("prepared: %+v", p)
	}
}
