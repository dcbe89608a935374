package link

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/worker/llm/telemetry/sshtest"
)

// far is a link by the ssh in a folder.
func far(t *testing.T, bin string, limit time.Duration) *Link {
	t.Helper()
	l := New(sshtest.Alias, filepath.Join(t.TempDir(), "0"), limit)
	l.program = filepath.Join(bin, "ssh")
	t.Cleanup(l.Close)
	return l
}

// within bounds a test's patience, which is much longer than anything should take.
const within = time.Minute

// Several scripts go over one connection, and what a host prints is what comes.
func TestSSHOneConnection(t *testing.T) {
	t.Parallel()
	server := sshtest.Start(t)
	l := far(t, server.Bin, within)
	for i := range 5 {
		got, err := l.Run(t.Context(), "printf '%s\\n' 'it'\\''s "+strconv.Itoa(i)+"'\n")
		if want := "it's " + strconv.Itoa(i) + "\n"; err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	if n := server.Logins(t); n != 1 {
		t.Errorf("%d connections", n)
	}
	holder := l.master.cmd.Process.Pid
	if l.Close(); syscall.Kill(holder, 0) == nil {
		t.Error("the connection is held after Close")
	}
	if _, err := os.Stat(l.socket); err == nil {
		t.Error("the socket is left")
	}
}

// A connection that breaks is an error of one script; the next one makes another.
func TestSSHBrokenConnection(t *testing.T) {
	t.Parallel()
	server := sshtest.Start(t)
	l := far(t, server.Bin, 20*time.Second) // then what is left on the host of the broken one ends
	if _, err := l.Run(t.Context(), "true\n"); err != nil {
		t.Fatal(err)
	}
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C { // until the script runs
			if _, err := os.Stat(filepath.Join(server.Bin, "running")); err == nil {
				server.Cut()
				return
			}
		}
	}()
	_, err := l.Run(t.Context(), "touch '"+filepath.Join(server.Bin, "running")+"'; sleep 300\n")
	<-cut
	if err == nil || !strings.Contains(err.Error(), "the connection is lost") {
		t.Errorf("in the middle: %v", err)
	}
	if got, err := l.Run(t.Context(), "echo again\n"); err != nil || got != "again\n" {
		t.Errorf("afterwards: %q, %v", got, err)
	}
	server.Down()
	if _, err := l.Run(t.Context(), "echo again\n"); err == nil {
		t.Error("a host that is gone answers")
	}
	if _, err := l.Run(t.Context(), "echo again\n"); err == nil || !strings.Contains(err.Error(), "no connection: ") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a host that is gone: %v", err)
	}
}

// What hangs ends at the deadline, here and on the host, with what it has started.
func TestSSHHangs(t *testing.T) {
	t.Parallel()
	server := sshtest.Start(t)
	for name, l := range map[string]*Link{"ssh": far(t, server.Bin, 2*time.Second), "this machine": New("", "", 2*time.Second)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note := filepath.Join(t.TempDir(), "pids")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("no answer within 2s"))
			defer cancel()
			if _, err := l.Run(ctx, "sleep 301 & echo $$ $! >'"+note+"'; sleep 302\n"); err == nil {
				t.Fatal("a script that hangs ends well")
			}
			if l.master != nil {
				t.Error("a connection is kept that may hang as well")
			}
			text, err := os.ReadFile(note)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range strings.Fields(string(text)) {
				pid, err := strconv.Atoi(word)
				if err != nil {
					t.Fatal(err)
				}
				end := time.Now().Add(within)
				for tick := time.NewTicker(10 * time.Millisecond); alive(pid); <-tick.C {
					if time.Now().After(end) {
						t.Fatalf("process %d goes on on the host", pid)
					}
				}
			}
		})
	}
}

// alive reports whether a process runs; one that has ended and waits for its parent does not.
func alive(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// An ssh that is none, in the ways in which a real one fails.
func TestStandIns(t *testing.T) {
	t.Parallel()
	connects := "for a in \"$@\"; do case $a in ControlPath=*) s=${a#*=} ;; -M) m=1 ;; esac; done\nif [ -n \"$m\" ]; then : >\"$s\"; exec sleep 300; fi\n"
	for name, c := range map[string]struct{ script, want string }{
		"refuses":        {"echo 'warning: old' >&2; echo 'me@host: Permission denied (publickey).' >&2; exit 255\n", "no connection: me@host: Permission denied (publickey)."},
		"says nothing":   {"exit 1\n", "no connection: it said nothing"},
		"never connects": {"exec sleep 300\n", "no connection: no answer"},
		"hangs":          {connects + "exec sleep 300\n", "no answer"},
		"no timeout":     {connects + "echo 'sh: 1: timeout: not found' >&2; exit 127\n", "exit status 127: sh: 1: timeout: not found"},
		"goes on and on": {connects + "exec yes\n", "no answer"},
		"too much":       {connects + "head -c 9000000 /dev/zero\n", "the answer is longer than 8 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			sshtest.Stand(t, bin, c.script)
			limit := time.Minute
			if strings.Contains(c.want, "no answer") {
				limit = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("no answer"))
			defer cancel()
			_, err := far(t, bin, limit).Run(ctx, "true\n")
			if err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	l := New("host", "", time.Second)
	l.program = "/no/such/ssh"
	if _, err := l.Run(t.Context(), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without ssh: %v", err)
	}
}
