package ranks

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/node"
)

// A kill makes an out-of-memory of the host of what looks like one, if a node has counted it; a launcher that tells of a
// rank on another node ends in its own way.
func TestWitness(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	for name, tt := range map[string]struct {
		end   Ending
		kills string // of the kernel, meanwhile
		want  catalogue.Outcome
	}{
		"killed":                   {Ending{exit: true, signal: syscall.SIGKILL}, "2", catalogue.OOMHost},
		"srun tells":               {Ending{exit: true, Evidence: "srun: error: n2: task 3: Killed"}, "2", catalogue.OOMHost},
		"torchrun tells":           {Ending{exit: true, Evidence: "  rank: 3\n  exitcode  : -9 (pid: 17)"}, "2", catalogue.OOMHost},
		"a peer went away":         {Ending{echo: true}, "2", catalogue.OOMHost},
		"another failure":          {Ending{exit: true, Evidence: "IndexError"}, "2", catalogue.Error},
		"killed by somebody else":  {Ending{exit: true, signal: syscall.SIGKILL}, "1", catalogue.Error},
		"srun tells, but no count": {Ending{exit: true, Evidence: "srun: error: n2: task 3: Killed"}, "1", catalogue.Error},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			counter := filepath.Join(root, "sys/fs/cgroup/memory.events")
			for path, text := range map[string]string{filepath.Join(root, "proc/self/cgroup"): "0::/\n", counter: "oom_kill 1\n"} {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			nodes := node.Open(node.Config{Self: node.Options{Root: root}, Log: log})
			defer nodes.Close()
			s := &Set{nodes: nodes, Ranks: []*Rank{{}}, Setting: plan.Setting{Resources: plan.Shape{Nodes: 1}}}
			nodes.Begin(t.Context(), 1, "")
			if err := os.WriteFile(counter, []byte("oom_kill "+tt.kills+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			tt.end.Outcome = catalogue.Error
			got := s.explain(tt.end)
			if got.Outcome != tt.want || tt.want == catalogue.OOMHost && !strings.HasPrefix(got.Evidence, "oom_kill +1 in /sys/fs/cgroup/memory.events") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A node that was lost explains what nothing else does, and no more.
func TestLost(t *testing.T) {
	t.Parallel()
	const why = "n2 no longer answers: its agent has ended"
	for outcome, want := range map[catalogue.Outcome]catalogue.Outcome{
		catalogue.Error: catalogue.Infra, catalogue.Hang: catalogue.Infra,
		catalogue.OOMHost: catalogue.OOMHost, catalogue.ErrorCollective: catalogue.ErrorCollective, catalogue.Cancelled: catalogue.Cancelled,
	} {
		end := Ending{Outcome: outcome, Reason: "rank 2 closed its connection"}
		got := lost(end, node.Killed{Lost: why})
		if got.Outcome != want || (want == catalogue.Infra) != (got.Reason == end.Reason+"; "+why) {
			t.Errorf("%s: %+v", outcome, got)
		}
		if got := lost(end, node.Killed{}); got != end {
			t.Errorf("%s with all nodes: %+v", outcome, got)
		}
	}
}
