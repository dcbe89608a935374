package evidence

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWitness(t *testing.T) {
	t.Parallel()
	tests := []struct {
		root  string
		kills int64
		where string
	}{
		{"v1", 3, "/sys/fs/cgroup/memory/slurm/uid_1/job_7/step_batch/memory.oom_control"},
		{"v2", 2, "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_batch/user/memory.events"}, // the group's own has no counter
		{"container", 1, "/sys/fs/cgroup/memory.events"},
		{"hybrid", 5, "/sys/fs/cgroup/unified/a/memory.events"},
		{"none", 0, ""},
		{"not there", 0, ""},
	}
	for _, tt := range tests {
		kills, ok, where := Witness(filepath.Join("testdata", tt.root))
		if kills != tt.kills || ok != (tt.where != "") || ok && where != tt.where {
			t.Errorf("%s: %d, %v, %q", tt.root, kills, ok, where)
		}
	}
}

// A cgroup file of this machine is either read or honestly absent.
func TestWitnessHere(t *testing.T) {
	t.Parallel()
	kills, ok, where := Witness("/")
	t.Log(kills, ok, where)
	if ok && where == "" || kills < 0 {
		t.Errorf("%d, %v, %q", kills, ok, where)
	}
}

func TestDelta(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "sys/fs/cgroup/a b/memory.events")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "proc/self/cgroup"), "0::/a b\n")
	if _, ok, _ := Delta(root)(); ok {
		t.Error("nobody counts, but the witness speaks")
	}
	write(file, "oom 7\noom_kill 7\n")
	since := Delta(root)
	if kills, ok, where := since(); kills != 0 || !ok || where != "/sys/fs/cgroup/a b/memory.events" {
		t.Errorf("before: %d, %v, %q", kills, ok, where)
	}
	write(file, "oom 9\noom_kill 9\n")
	if kills, ok, _ := since(); kills != 2 || !ok {
		t.Errorf("after: %d, %v", kills, ok)
	}
	for name, text := range map[string]string{"smaller": "oom_kill 3\n", "no number": "oom_kill many\n", "no counter": "oom 9\n"} {
		write(file, text)
		if kills, ok, _ := since(); ok {
			t.Errorf("%s: %d", name, kills)
		}
	}
}
