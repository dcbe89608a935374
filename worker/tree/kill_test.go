package tree

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	shortGrace = 300 * time.Millisecond
	longGrace  = 20 * time.Second // never waited for, or the test fails
)

// workers are the processes that kill.
var workers = map[string]func(*stage){
	"one that ignores TERM": func(s *stage) {
		s.start(program("ignore"), 1)
		s.kill(context.Background(), shortGrace)
	},
	"three that do not": func(s *stage) {
		for range 3 {
			s.start(program("plain"), 1)
		}
		s.kill(context.Background(), longGrace)
	},
	"a grandchild in its own session": func(s *stage) {
		s.start(program("double fork"), 2)
		s.kill(context.Background(), shortGrace)
	},
	"a tree that grows on TERM": func(s *stage) {
		s.start(program("refork"), 1)
		s.kill(context.Background(), shortGrace)
	},
	"statuses": func(s *stage) {
		s.start(program("exit 7 on TERM"), 1)
		s.start(program("exit 3"), 1)
		check(ended(s.children[1].PID()))
		s.start(program("exit 7 on TERM"), 1)
		s.kill(context.Background(), longGrace)
	},
	"orphaned zombies": func(s *stage) {
		s.start(program("careless"), 4)
		s.kill(context.Background(), longGrace)
	},
	"stopped": func(s *stage) {
		s.start(program("plain"), 1)
		pid := s.children[0].PID()
		check(syscall.Kill(pid, syscall.SIGSTOP))
		check(unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil))
		s.kill(context.Background(), longGrace)
	},
	"no patience": func(s *stage) {
		s.start(program("ignore"), 1)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.kill(ctx, longGrace)
	},
	"nothing": func(s *stage) { s.kill(context.Background(), longGrace) },
	"a session of the child's own": func(s *stage) {
		cmd := program("plain")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		s.start(cmd, 1)
		s.kill(context.Background(), longGrace)
	},
	"spared": func(s *stage) {
		cmd := program("echo")
		in, err := cmd.StdinPipe()
		check(err)
		out, err := cmd.StdoutPipe()
		check(err)
		instrument, err := StartSpared(cmd)
		check(err)
		s.await(1)
		s.start(program("ignore"), 1)
		s.kill(context.Background(), shortGrace)
		_, err = io.WriteString(in, "alive\n")
		check(err)
		s.seen.Echo, err = bufio.NewReader(out).ReadString('\n')
		check(err)
		check(in.Close())
		check(instrument.Wait())
	},
	"torchrun": func(s *stage) {
		s.start(program("agent"), 5)
		s.kill(context.Background(), DefaultGrace)
	},
	"sudden death": func(s *stage) {
		s.start(program("ignore"), 1)
		_, err := io.WriteString(os.Stdout, "{}")
		check(err)
		os.Exit(0)
	},
}

func TestKill(t *testing.T) {
	t.Parallel()
	killed, terminated := "signal: killed", "signal: terminated"
	tests := []struct {
		worker string
		want   seen
	}{
		{"one that ignores TERM", seen{Report: Report{Told: 1, Killed: 1}, Ready: 1, Before: 1, Exits: []string{killed}}},
		{"three that do not", seen{Report: Report{Told: 3}, Ready: 3, Before: 3, Exits: []string{terminated, terminated, terminated}}},
		{"a grandchild in its own session", seen{Report: Report{Told: 2, Killed: 1, Reaped: 1}, Ready: 2, Before: 2, Exits: []string{terminated}}},
		{"statuses", seen{Report: Report{Told: 2}, Ready: 3, Before: 2, Exits: []string{"exit status 7", "exit status 3", "exit status 7"}}},
		{"orphaned zombies", seen{Report: Report{Told: 1, Reaped: 3}, Ready: 4, Before: 1, Exits: []string{terminated}}},
		{"stopped", seen{Report: Report{Told: 1}, Ready: 1, Before: 1, Exits: []string{terminated}}},
		{"no patience", seen{Report: Report{Told: 1, Killed: 1}, Ready: 1, Before: 1, Exits: []string{killed}}},
		{"nothing", seen{}},
		{"a session of the child's own", seen{Report: Report{Told: 1}, Ready: 1, Before: 1, Exits: []string{terminated}}},
		{"spared", seen{Report: Report{Told: 1, Killed: 1}, Ready: 2, Before: 2, After: 1, Exits: []string{killed}, Echo: "alive\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.worker, func(t *testing.T) {
			t.Parallel()
			got := perform(t, tt.worker)
			if got.Report.Duration <= 0 || got.Report.Duration >= longGrace/2 {
				t.Errorf("took %v, although the grace was not to be waited for", got.Report.Duration)
			}
			if got.Report.Killed > 0 && tt.worker != "no patience" && got.Report.Duration < shortGrace {
				t.Errorf("took %v, less than the grace of %v", got.Report.Duration, shortGrace)
			}
			got.Report.Duration, got.WaitTook = 0, 0
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("worker saw (-want +got):\n%s", d)
			}
		})
	}
}

// Every TERM makes two more programs, up to 15, except where it comes before their handler stands and ends them.
// However many there were: none is left, and those that were born during the grace were told as well.
func TestKillTreeThatGrows(t *testing.T) {
	t.Parallel()
	got := perform(t, "a tree that grows on TERM")
	r := got.Report
	if got.Err != "" || got.After != 0 || got.Zombies != 0 || len(r.Survivors) != 0 {
		t.Errorf("the tree is not empty: %+v", got)
	}
	if r.Told < 3 || r.Told > 15 || r.Killed < 1 || r.Reaped != r.Told-1 {
		t.Errorf("told %d, killed %d, reaped %d; want 3 to 15 told, and all but the direct child reaped", r.Told, r.Killed, r.Reaped)
	}
}

// The kernel has to end a child whose worker was killed outright.
func TestChildDiesWithItsParent(t *testing.T) {
	t.Parallel()
	perform(t, "sudden death") // fails if the child is left
}

// A process that is no descendant, though a brother of the worker in the same group and session, stays.
func TestKillTouchesOnlyDescendants(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, null)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), roleVar+"=echo")
	cmd.ExtraFiles = []*os.File{null, null}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	perform(t, "one that ignores TERM")
	if _, err := io.WriteString(in, "alive"); err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "alive" {
		t.Errorf("brother of the worker: %v, said %q", err, out.String())
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	if c, err := Start(exec.Command("/nonexistent/no such program")); err == nil {
		t.Errorf("Start of a missing program: %v, want an error", c)
	}
}

// BenchmarkKillIgnoringTERM ends an agent and four ranks in sessions of their own, all of which ignore TERM.
func BenchmarkKillIgnoringTERM(b *testing.B) {
	var total time.Duration
	for b.Loop() {
		s := perform(b, "torchrun")
		if s.Report.Killed != 5 || s.After != 0 || s.Zombies != 0 {
			b.Fatalf("worker saw %+v", s)
		}
		total += s.Report.Duration + s.WaitTook
	}
	b.ReportMetric(total.Seconds()/float64(b.N), "kill-s/op")
}
