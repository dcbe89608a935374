// Package link runs scripts on a host by the user's own ssh, over one connection that is kept, or on this machine. Use
// New, Run and Close. It knows nothing of what the scripts do.
package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"cpbench/worker/tree"

	"golang.org/x/sys/unix"
)

// Link runs scripts on a host, one at a time.
//
// Of another host there is one connection, held by a child of this process (ssh -M), through which every sample runs its
// command. ControlPersist would detach that process: it would outlive this one when that is killed, and be ended with
// the server of the task, as it would not be known for ours.
type Link struct {
	ssh     string        // destination; empty: this machine
	socket  string        // of the connection
	limit   time.Duration // of a command, which also ends on the host then
	program string        // ssh; of tests another one
	master  *master
}

// master is the process that holds a connection.
type master struct {
	cmd  *exec.Cmd
	said *bounded
	gone chan struct{}
}

// maxAnswer bounds what a host may say, and maxSaid what ssh may say of its own.
const (
	maxAnswer = 8 << 20
	maxSaid   = 8 << 10
)

// drain is how long the pipes of a program may stay open after it has ended.
const drain = time.Second

// New makes a link to a destination of ssh; an empty one is this machine. socket is a path for the connection, in a folder
// that nobody else can enter; limit bounds every script, to the next second. Nothing is started.
func New(ssh, socket string, limit time.Duration) *Link {
	return &Link{program: "ssh", ssh: ssh, socket: socket, limit: limit}
}

// Run runs a script by a POSIX shell and returns its output, 8 MiB at most. It returns soon after ctx ends, with its
// cause; on the host the script ends at the limit, with everything that it has started.
func (l *Link) Run(ctx context.Context, script string) (string, error) {
	// The command's own watch ends the script, with all that it has started, where nobody listens any more.
	seconds := strconv.Itoa(int(math.Ceil(l.limit.Seconds())))
	argv := []string{"timeout", "-s", "KILL", seconds, "sh", "-s"}
	if l.ssh != "" {
		if err := l.connect(ctx); err != nil {
			return "", err
		}
		// Without the connection ssh would make one of its own: that is refused.
		argv = append(l.command("-o", "ControlMaster=no", "-o", "ProxyCommand=false", "-o", "ControlPath="+l.socket), argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, said := &bounded{most: maxAnswer}, &bounded{most: maxSaid}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), out, said
	cmd.WaitDelay = drain
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // a group of its own, see tree.Start
	child, err := tree.StartSpared(cmd)
	if err != nil {
		return "", err
	}
	err = child.Wait()
	switch {
	case ctx.Err() != nil:
		l.Close() // it may be the connection that hangs: the next sample makes a new one
		return "", context.Cause(ctx)
	case out.cut:
		return "", fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return out.String(), nil
	}
	return "", l.failure(err, said)
}

// failure says why a command ended badly: what the connection says, if that is gone, else what the command says.
func (l *Link) failure(err error, said *bounded) error {
	const killed, byTimeout, lost = -1, 128 + int(unix.SIGKILL), 255
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	switch {
	case code == killed && l.ssh == "" || code == byTimeout:
		return fmt.Errorf("it was ended on the host after %v", l.limit)
	case code == lost && l.master != nil:
		m := l.master
		l.Close()
		return fmt.Errorf("the connection is lost: %s", lastLine(m.said.String(), said.String()))
	}
	return fmt.Errorf("%w: %s", err, lastLine(said.String()))
}

// lastLine is the last line of the first of some texts that has one.
func lastLine(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")); text != "" {
			text = text[strings.LastIndexByte(text, '\n')+1:]
			return fmt.Sprintf("%.300s", strings.TrimSpace(text))
		}
	}
	return "it said nothing"
}

// command is ssh to the host with some options. A configuration of the user's for people at a terminal must not get in
// the way: no questions, no forwarding, no command of its own.
func (l *Link) command(options ...string) []string {
	seconds := strconv.Itoa(max(int(math.Ceil(l.limit.Seconds())), 1))
	argv := []string{
		l.program, "-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none",
		"-o", "PermitLocalCommand=no", "-o", "ConnectTimeout=" + seconds, "-o", "ServerAliveInterval=" + seconds, "-o", "ServerAliveCountMax=3",
	}
	return append(append(argv, options...), "--", l.ssh)
}

// poll is the time between two looks whether a connection is there.
const poll = 10 * time.Millisecond

// connect makes the connection, unless it is there.
func (l *Link) connect(ctx context.Context) error {
	if m := l.master; m != nil {
		select {
		case <-m.gone:
			l.Close()
		default:
			return nil
		}
	}
	argv := l.command("-M", "-N", "-o", "ControlPersist=no", "-o", "ControlPath="+l.socket)
	m := &master{cmd: exec.Command(argv[0], argv[1:]...), said: &bounded{most: maxSaid}, gone: make(chan struct{})}
	m.cmd.Stdout, m.cmd.Stderr, m.cmd.WaitDelay = m.said, m.said, drain
	child, err := tree.StartSpared(m.cmd)
	if err != nil {
		return err
	}
	go func() {
		_ = child.Wait() // what it said tells more
		close(m.gone)
	}()
	l.master = m
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.Close()
			return fmt.Errorf("no connection: %w", context.Cause(ctx))
		case <-m.gone:
			l.Close()
			return fmt.Errorf("no connection: %s", lastLine(m.said.String()))
		case <-tick.C:
			if _, err := os.Stat(l.socket); err == nil {
				return nil
			}
		}
	}
}

// Close ends the connection, if there is one. The next Run makes another.
func (l *Link) Close() {
	m := l.master
	if l.master = nil; m == nil {
		return
	}
	_ = m.cmd.Process.Signal(unix.SIGTERM) // one that has ended needs none
	late := time.AfterFunc(drain, func() { _ = m.cmd.Process.Kill() })
	defer late.Stop()
	<-m.gone
	_ = os.Remove(l.socket) // one that was killed leaves it
}

// bounded keeps the first bytes of what is written to it, and takes the rest without keeping it. One goroutine writes,
// and others read when the writer has ended.
type bounded struct {
	kept bytes.Buffer // not embedded: it would be read into past Write
	most int
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.most-b.kept.Len())
	b.cut = b.cut || keep < len(p)
	b.kept.Write(p[:keep])
	return len(p), nil
}

func (b *bounded) String() string { return b.kept.String() }
