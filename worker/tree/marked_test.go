package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stray starts a process in a session of its own that no longer descends from this one, and returns its id.
func stray(t *testing.T, command, mark string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "setsid bash -c "+strconv.Quote(command)+" >/dev/null 2>&1 & echo $!")
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
	for !strings.Contains(environ(pid), mark) { // until it has become itself
		time.Sleep(time.Millisecond)
	}
	return pid
}

// environ is the environment of a process; empty for one that is gone or a zombie.
func environ(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	return string(text)
}

func TestKillMarked(t *testing.T) {
	t.Parallel()
	mark := "CPBENCH_TREE_TEST=it's a \"mark\" " + rand.Text()
	ours := stray(t, "exec sleep 300", mark)
	stubborn := stray(t, "trap '' TERM; read -r <> <(:)", mark)
	longer := stray(t, "exec sleep 300", mark+"2") // an entry that only begins like it
	own := exec.CommandContext(t.Context(), "sleep", "300")
	own.Env = append(os.Environ(), mark)
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	rep, err := KillMarked(context.Background(), shortGrace, mark)
	if err != nil || rep.Told < 2 || rep.Killed < 1 {
		t.Errorf("told %d, killed %d, %v", rep.Told, rep.Killed, err)
	}
	for name, pid := range map[string]int{"ordinary": ours, "stubborn": stubborn} {
		if environ(pid) != "" {
			t.Errorf("the %s one is left", name)
		}
	}
	if environ(longer) == "" {
		t.Error("a process with another mark was ended")
	}
	if environ(own.Process.Pid) == "" {
		t.Error("a child of this process was ended")
	}
	if err := own.Process.Kill(); err != nil {
		t.Error(err)
	}
	own.Wait()
	if rep, err := KillMarked(context.Background(), shortGrace, mark); err != nil || rep.Told != 0 {
		t.Errorf("once more: told %d, %v", rep.Told, err)
	}
}

// A text that others may have in their environment by chance must never be taken for a mark.
func TestKillMarkedRefuses(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{
		"", "=", "CPBENCH_TOKEN", "CPBENCH_TOKEN=", "CPBENCH_TOKEN=0123456789abcde", "CPBENCH_TOKEN=0123456789\x00abcdef",
		"A=b", "=0123456789abcdef", "HOME=/nobody/has/this/home",
	} {
		if rep, err := KillMarked(t.Context(), shortGrace, mark); !errors.Is(err, ErrMark) || rep.Told != 0 {
			t.Errorf("%q: %+v, %v", mark, rep, err)
		}
	}
}
