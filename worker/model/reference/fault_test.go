package reference_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/worker/model/protocol"
)

// TestFaultsThatEndARank has the fault on rank 1 of two, at every place.
func TestFaultsThatEndARank(t *testing.T) {
	t.Parallel()
	faults := map[string]struct {
		want string // type of rank 1's last message, empty for none
		code int
	}{
		"oom-rank=1":   {"oom", 1},
		"error-rank=1": {"error", 1},
		"exit=1:7":     {"", 7},
		"crash-rank=1": {"", 128 + 9},
	}
	for name, tt := range faults {
		for _, place := range []string{"", "@build", "@prepare", "@warmup", "@timed", "@probe"} {
			t.Run(name+place, func(t *testing.T) {
				t.Parallel()
				children := launch(t, 2, "--fault", name+place)
				reached := drive(children, place)
				m, err := children[1].receive()
				if tt.want == "" && !lost(err) || tt.want != "" && (err != nil || m.Type() != tt.want) {
					t.Errorf("%s: got %v, %v; want %q", reached, m, err, tt.want)
				}
				if code := children[1].exit(t); code != tt.code {
					t.Errorf("exit status %d, want %d; stderr: %s", code, tt.code, children[1].log(t))
				}
			})
		}
	}
}

// drive brings rank 1 to the place of a fault: it sends everything up to there and takes the answers before it.
func drive(children []*child, place string) string {
	script := []struct {
		place   string
		say     protocol.Message
		answers int
	}{
		{"@build", protocol.Start{Mode: "inference", Topology: "1d"}, 1},
		{"@prepare", point(16), 1},
		{"@warmup", protocol.Step{Phase: "warmup", Count: 2}, 3},
		{"@probe", protocol.Step{Phase: "probe", Count: 1}, 3},
		{"@timed", protocol.Step{Phase: "timed", Count: 2}, 3},
	}
	for _, line := range script {
		for _, c := range children {
			_ = c.conn.Send(line.say) // a rank that has ended is found out by the caller
		}
		if line.place == place || place == "" && line.place == "@probe" {
			return line.place
		}
		for range line.answers {
			for _, c := range children {
				if m, err := c.receive(); err != nil || m.Type() == "error" || m.Type() == "oom" {
					return fmt.Sprintf("%s, too early: %v %v", line.place, m, err)
				}
			}
		}
	}
	return "the end"
}

func TestOOMOnOneRankLeavesItsPeersWaiting(t *testing.T) {
	t.Parallel()
	children := begin(t, 4, "2d", "inference", 32, "--fault", "oom-rank=2")
	run(t, children, "warmup", 2)
	send(t, children, protocol.Step{Phase: "timed", Count: 3})
	got := expect[protocol.OOM](t, children[2:3])[0]
	if got.Where != "step" || !strings.Contains(got.Text, "of a budget of 8388608") {
		t.Errorf("%+v", got)
	}
	if code := children[2].exit(t); code != 1 {
		t.Errorf("exit status %d", code)
	}
	silent(t, children[0], children[1], children[3])
}

func TestHangOnOneRank(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"@build", "@prepare", "@warmup", "@timed", ""} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			children := launch(t, 2, "--fault", "hang-rank=1"+place)
			drive(children, place)
			silent(t, children[1])
			children[1].conn.Close()
			if code := children[1].exit(t); code != 1 {
				t.Errorf("exit status %d after the worker went away, want 1", code)
			}
		})
	}
}

// silent checks that ranks live and say nothing but that. A rank that would speak does so within milliseconds.
func silent(t *testing.T, children ...*child) {
	t.Helper()
	for _, c := range children {
		if err := c.conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if m, err := c.receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("pid %d: got %v, %v; want silence", c.cmd.Process.Pid, m, err)
		}
		select {
		case <-c.ended:
			t.Errorf("pid %d has ended", c.cmd.Process.Pid)
		default:
		}
	}
}

func TestNaN(t *testing.T) {
	t.Parallel()
	for fault, bad := range map[string][]bool{"nan": {true, true}, "nan=1": {false, true}} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			children := begin(t, 2, "1d", "inference", 16, "--fault", fault)
			checkFinite(t, run(t, children, "warmup", 1), []bool{false, false})
			checkFinite(t, run(t, children, "timed", 2), bad)
			stop(t, children)
		})
	}
}

// checkFinite compares what each rank says of its output; one with NaN has no checksum.
func checkFinite(t *testing.T, r result, bad []bool) {
	t.Helper()
	for rank, s := range r.steps {
		if *s.Finite == bad[rank] {
			t.Errorf("rank %d: finite is %t", rank, *s.Finite)
		}
		hasSum := slices.ContainsFunc(r.metrics[rank].Metrics, func(f protocol.Figure) bool { return f.Name == "checksum" })
		if hasSum == bad[rank] {
			t.Errorf("rank %d: reports a checksum: %t", rank, hasSum)
		}
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()
	children := begin(t, 1, "", "inference", 8, "--fault", "slow=30ms@timed")
	if s := run(t, children, "warmup", 1).steps[0].Seconds; s[0] >= 0.03 {
		t.Logf("a busy machine: %v s in the warm-up", s)
	}
	for _, s := range run(t, children, "timed", 3).steps[0].Seconds {
		if s < 0.03 {
			t.Errorf("a step of %v s, want at least 0.03", s)
		}
	}
	stop(t, children)
}

func TestNonMonotone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault string
		size  int
		fits  bool
	}{
		{"non-monotone=64", 65, true},
		{"non-monotone=64", 64, false},
		{"non-monotone=64", 1, false},
		{"non-monotone=32:64", 31, true},
		{"non-monotone=32:64", 32, false},
		{"non-monotone=32:64", 65, true},
	} {
		t.Run(fmt.Sprint(tt.fault, " ", tt.size), func(t *testing.T) {
			t.Parallel()
			children := begin(t, 1, "", "inference", tt.size, "--fault", tt.fault)
			if got := fits(t, children, tt.size); got != tt.fits {
				t.Errorf("fits %t, want %t", got, tt.fits)
			}
		})
	}
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	children := begin(t, 2, "1d", "inference", 8, "--fault", "garbage=1")
	send(t, children, protocol.Step{Phase: "probe", Count: 1})
	if m, err := children[1].receive(); err == nil || lost(err) {
		t.Errorf("got %v, %v; want a line that cannot be decoded", m, err)
	}
	expect[protocol.Metrics](t, children)
	expect[protocol.Memory](t, children)
	expect[protocol.Steps](t, children)
	stop(t, children)
}

func TestIgnoreTerm(t *testing.T) {
	t.Parallel()
	children := begin(t, 1, "", "inference", 8, "--fault", "ignore-term", "--fault", "hang-rank=0")
	send(t, children, protocol.Step{Phase: "timed", Count: 1})
	if err := children[0].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	silent(t, children[0])
	children[0].conn.Close()
	select {
	case <-children[0].ended:
		t.Error("ended with the worker's connection")
	case <-time.After(200 * time.Millisecond):
	}
	if err := children[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := children[0].exit(t); code != 128+9 {
		t.Errorf("exit status %d, want that of SIGKILL", code)
	}
}

func TestGrandchild(t *testing.T) {
	t.Parallel()
	children := begin(t, 1, "", "inference", 8, "--fault", "grandchild@prepare")
	var pid int
	if _, err := fmt.Sscanf(children[0].log(t), "grandchild pid %d\n", &pid); err != nil {
		t.Fatalf("%v in %q", err, children[0].log(t))
	}
	defer func() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("grandchild: %v", err)
		}
	}()
	waitForTrap(t, pid)
	if sid, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0); errno != 0 || int(sid) != pid {
		t.Errorf("session %d, %v; want its own, %d", sid, errno, pid)
	}
	stop(t, children)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Errorf("the grandchild went with its rank: %v", err)
	}
	if ignored(t, pid)&(1<<(syscall.SIGTERM-1)) == 0 {
		t.Error("the grandchild does not ignore SIGTERM")
	}
}

// waitForTrap returns when the grandchild has begun to ignore SIGTERM.
func waitForTrap(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ignored(t, pid)&(1<<(syscall.SIGTERM-1)) != 0 {
			return
		}
	}
	t.Fatal("the grandchild never ignores SIGTERM")
}

// ignored returns the set of signals that a process ignores, as the kernel knows it.
func ignored(t *testing.T, pid int) uint64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var set uint64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "SigIgn:"); ok {
			if _, err := fmt.Sscanf(strings.TrimSpace(text), "%x", &set); err != nil {
				t.Fatal(err)
			}
		}
	}
	return set
}
