// Package sshtest starts an sshd of a test's own on the loopback interface, with keys and a configuration of its own,
// and an ssh that knows the way to it. Use Start in tests that read hosts over a real ssh; Stand writes an ssh that is
// none.
package sshtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/plan/suite"
)

// Alias is the host by which the ssh of a Server knows it.
const Alias = "loop"

// Server is a running sshd.
type Server struct {
	Bin    string // folder with an ssh that knows Alias, for the front of PATH
	Remote string // folder at the front of PATH on the host
	log    string
	cmd    *exec.Cmd
}

// Start starts an sshd that ends with the test. Without one on this machine the test is skipped, or fails where the
// environment's CPBENCH_TEST_REQUIRE contains ssh.
func Start(t testing.TB) *Server {
	t.Helper()
	sshd, ssh, keygen := find("sshd"), find("ssh"), find("ssh-keygen")
	if sshd == "" || ssh == "" || keygen == "" {
		suite.Missing(t, "ssh", "no sshd; make test, as root on Debian, installs it")
	}
	if os.Geteuid() == 0 { // where sshd wants an empty folder, which the packages' own service would make
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"host", "user"} {
		if out, err := exec.CommandContext(t.Context(), keygen, "-q", "-t", "ed25519", "-N", "", "-f", at(key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Bin: t.TempDir(), Remote: t.TempDir(), log: at("sshd.log")}
	port := 0
	for try := range 5 { // another process may take the port in between
		port = freePort(t)
		write(t, at("sshd_config"), 0o600, fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\n"+
			"UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nLogLevel VERBOSE\nSetEnv PATH=%s:/usr/bin:/bin\n", port, at("host"), at("user.pub"), s.Remote))
		if s.start(t, sshd, at("sshd_config"), port) {
			break
		}
		if try == 4 {
			text, _ := os.ReadFile(s.log)
			t.Fatalf("sshd does not start: %s", text)
		}
	}
	pub, err := os.ReadFile(at("host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, at("known"), 0o600, fmt.Sprintf("[127.0.0.1]:%d %s", port, pub))
	write(t, at("ssh_config"), 0o600, fmt.Sprintf("Host %s\n HostName 127.0.0.1\n Port %d\n User %s\n IdentityFile %s\n IdentitiesOnly yes\n"+
		" UserKnownHostsFile %s\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n", Alias, port, me.Username, at("user"), at("known")))
	Stand(t, s.Bin, "exec "+ssh+" -F '"+at("ssh_config")+"' \"$@\"\n")
	return s
}

// Stand writes a program named ssh into a folder, a shell script.
func Stand(t testing.TB, dir, script string) {
	t.Helper()
	Program(t, filepath.Join(dir, "ssh"), "#!/bin/sh\n"+script)
}

// Program writes a program that the test will start.
func Program(t testing.TB, path, text string) {
	t.Helper()
	write(t, path, 0o755, text)
}

// write writes a file while no other goroutine forks: a child would hold a program open for writing, and then it cannot
// be started (https://go.dev/issue/22315).
func write(t testing.TB, path string, mode os.FileMode, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// find is the path of a program, which may be where only root's PATH leads.
func find(name string) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start starts sshd and waits until it listens; false: it ended.
func (s *Server) start(t testing.TB, sshd, config string, port int) bool {
	t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(sshd, "-D", "-e", "-f", config)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		s.Cut()
		_ = s.cmd.Process.Kill()
		<-gone
	})
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return c.Close() == nil
		}
		select {
		case <-gone:
			return false
		case <-tick.C:
		}
	}
}

// Logins is how many connections sshd has let in.
func (s *Server) Logins(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "Accepted publickey")
}

// Down ends sshd and cuts all its connections: the host is gone.
func (s *Server) Down() {
	s.Cut() // while its children can still be told by their parent
	_ = s.cmd.Process.Kill()
}

// Cut ends the connections that are open now.
func (s *Server) Cut() {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(s.cmd.Process.Pid) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
