package record

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/slurm"
	"cpbench/slurm/slurmtest"
)

// patience is how long something may take on a loaded machine.
const patience = 2 * time.Minute

// bench is a real cluster with the jobs of one test.
type bench struct {
	*testing.T
	cluster *slurmtest.Cluster
	slurm   *slurm.Slurm
	since   time.Time
	names   []string // of all its jobs
}

// must runs a command of Slurm and returns what it printed.
func (b *bench) must(cmd *exec.Cmd, stdin string) string {
	b.Helper()
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return strings.TrimSpace(string(out))
}

// submit hands a job with that name over and returns its id.
func (b *bench) submit(name, body string, options ...string) string {
	b.Helper()
	b.names = append(b.names, name)
	args := append([]string{"--parsable", "--output=/dev/null", "--job-name=" + name}, options...)
	return b.must(b.cluster.Command("sbatch", args...), "#!/bin/bash\n"+body+"\n")
}

// await asks until every look finds what it wants.
func (b *bench) await(looks ...look) *Snapshot {
	b.Helper()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		snap, err := Ask(b.Context(), b.slurm, Query{Names: b.names, Since: b.since})
		if err != nil {
			b.Fatal(err)
		}
		var wrong []string
		for _, l := range looks {
			if got := short(snap, l.name, l.index); got != l.want {
				wrong = append(wrong, fmt.Sprintf("%s[%d]: %s, want %s", l.name, l.index, got, l.want))
			}
		}
		if wrong == nil {
			return snap
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatalf("not as wanted after %v:\n%s\nnotes %q", patience, strings.Join(wrong, "\n"), snap.Notes)
		}
	}
}

// onlyAccounting is a folder of commands as it is when the controller has forgotten everything.
func onlyAccounting(t *testing.T, cluster *slurmtest.Cluster) string {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(filepath.Join(cluster.Bin, "sacct"), filepath.Join(bin, "sacct")); err != nil {
		t.Fatal(err)
	}
	slurmtest.Executable(t, filepath.Join(bin, "squeue"), "#!/bin/sh\n")
	return bin
}

// memory checks what is known of the memory of a job of two CPUs that asked for none.
func (b *bench) memory(snap *Snapshot) {
	b.Helper()
	if task, ok := snap.Find("memory.0.a1", -1); !ok || task.Memory != "200M" {
		b.Errorf("the memory of %+v is not 200M", task)
	}
}

// TestRealSlurm has arrays in all the states that a cluster can be brought to, and looks at them through the queue and
// accounting together, and then through accounting alone.
func TestRealSlurm(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Start(t, slurmtest.Options{Accounting: true, Nodes: 1})
	b := &bench{t, cluster, &slurm.Slurm{Bin: cluster.Bin, Env: cluster.Env()}, time.Now().AddDate(0, 0, -1), nil}
	// Slurm counts limits in minutes, so this one goes on beside all the others.
	b.submit("limit.0.a1", "sleep 600", "--time=1")

	b.submit("ends.0.a1", `case $SLURM_ARRAY_TASK_ID in 1) exit 200;; 2) kill -KILL $$;; 3) exit 7;; esac`, "--array=0-3")
	waits := b.submit("waits.0.a1", "sleep 600", "--array=0-5%1")
	b.submit("toolong.0.a1", "true", "--array=0-99", "--partition=short", "--time=120")
	b.submit("held.0.a1", "true", "--array=0-2", "--hold")
	b.submit("noout.0.a1", "true", "--output=/nonexistent/x")
	b.submit("memory.0.a1", "true", "--cpus-per-task=2") // of which the cluster's default is for one
	again := b.submit("again.0.a1", "sleep 600", "--array=0-1", "--requeue")
	b.await(
		look{"ends.0.a1", 0, "COMPLETED 0:0 n1"},
		look{"ends.0.a1", 1, "FAILED 200:0 NonZeroExitCode n1"},
		look{"ends.0.a1", 2, "FAILED 0:9 JobLaunchFailure n1"},
		look{"ends.0.a1", 3, "FAILED 7:0 NonZeroExitCode n1"},
		look{"waits.0.a1", 0, "RUNNING n1"},
		look{"waits.0.a1", 5, "PENDING JobArrayTaskLimit not started"},
		look{"toolong.0.a1", 99, "PENDING PartitionTimeLimit not started"},
		look{"noout.0.a1", -1, "FAILED 0:53 JobLaunchFailure n1"},
		look{"again.0.a1", 1, "RUNNING n1"},
	)

	b.memory(b.await(look{"memory.0.a1", -1, "COMPLETED 0:0 n1"}))
	b.must(cluster.Command("scancel", waits+"_[2-3]"), "")
	b.must(cluster.Command("scontrol", "requeue", again+"_1"), "")
	snap := b.await(
		look{"waits.0.a1", 2, "unknown"}, // of a waiting task that was cancelled Slurm keeps nothing
		look{"waits.0.a1", 4, "PENDING JobArrayTaskLimit not started"},
		look{"again.0.a1", 1, "PENDING BeginTime not started"},
	)
	if task, _ := snap.Find("again.0.a1", 1); task.Restarts != 1 {
		t.Errorf("requeued once: %+v", task)
	}
	if got := waiting(snap, "waits.0.a1"); got != 3 {
		t.Errorf("%d tasks wait, want 3", got)
	}
	ids, err := ByName(t.Context(), b.slurm, []string{"waits.0.a1", "nobody.0.a1"}, b.since)
	if err != nil || len(ids) != 1 || len(ids["waits.0.a1"]) != 1 || ids["waits.0.a1"][0] != waits {
		t.Errorf("%v, %v, want %s", ids, err, waits)
	}

	b.must(cluster.Command("scancel", "--name=waits.0.a1"), "")
	b.must(cluster.Command("scancel", "--name=toolong.0.a1"), "")
	b.must(cluster.Command("scancel", "--name=held.0.a1"), "")
	snap = b.await(
		look{"limit.0.a1", -1, "TIMEOUT 0:15 TimeLimit n1"},
		look{"waits.0.a1", 5, "CANCELLED 0:0 JobArrayTaskLimit not started"},
		look{"held.0.a1", 2, "CANCELLED 0:0 JobHeldUser not started"},
	)
	if task, _ := snap.Find("toolong.0.a1", 99); !strings.HasPrefix(string(task.State), "CANCELLED") || !task.Start.IsZero() {
		t.Errorf("by the queue or by the books it is cancelled before its start: %+v", task)
	}
	if !settled(snap, "toolong.0.a1", []int{0, 50, 99}) || !settled(snap, "held.0.a1", []int{0, 1, 2}) {
		t.Error("arrays that were cancelled are not settled")
	}
	b.slurm.Bin = onlyAccounting(t, cluster)
	snap = b.await(
		look{"limit.0.a1", -1, "TIMEOUT 0:0 n1 (booked)"},
		look{"ends.0.a1", 1, "FAILED 72:0 n1 (booked)"}, // cut to seven bits
		look{"ends.0.a1", 2, "FAILED 0:9 n1 (booked)"},
		look{"waits.0.a1", 0, "CANCELLED by 0 0:0 n1 (booked)"},
	)
	b.memory(snap)
	// Of waiting tasks that were cancelled 22.05 keeps a record sometimes, and sometimes none: not known, or cancelled.
	for _, name := range []string{"waits.0.a1", "toolong.0.a1", "held.0.a1"} {
		if task, ok := snap.Find(name, 2); ok && !task.Ended() {
			t.Errorf("%s[2]: %+v", name, task)
		}
	}
	if !settled(snap, "ends.0.a1", []int{0, 1, 2, 3}) || settled(snap, "ends.0.a1", []int{0, 1, 2, 3, 4}) {
		t.Error("an array is settled when all of its tasks have ended")
	}
}
