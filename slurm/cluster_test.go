package slurm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/slurm"
	"cpbench/slurm/slurmtest"
)

// stubs makes a folder with commands that are bash scripts of those bodies.
func stubs(t *testing.T, bodies map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range bodies {
		slurmtest.Executable(t, filepath.Join(dir, name), "#!/bin/bash\n"+body+"\n")
	}
	return dir
}

// Not parallel: MaxArraySize takes scontrol from this process's PATH.
func TestMaxArraySize(t *testing.T) {
	path := os.Getenv("PATH")
	for _, test := range []struct {
		name, scontrol string
		want           int
		wantErr        string // empty: none
	}{
		{"given", "echo 'MaxArraySize            = 4001'; echo 'MaxArraySizeX = 2'", 4001, ""},
		{"fewer tasks than indices", "echo 'MaxArraySize = 4001'; echo 'SchedulerParameters = defer,max_array_tasks=300'", 300, ""},
		{"more tasks than indices", "echo 'SchedulerParameters = max_array_tasks=5000'; echo 'MaxArraySize = 4001'", 4001, ""},
		{"arrays switched off", "echo 'MaxArraySize = 0'", 0, ""},
		{"not named", "echo 'MaxJobCount = 7'", 0, "names no MaxArraySize"},
		{"no number", "echo 'MaxArraySize = (null)'", 0, `"(null)" is no array size`},
		{"no controller", "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1", 0, "exit status 1: Unable to contact slurm controller"},
		{"Slurm's variables stay out", `echo "MaxArraySize = ${SLURM_CLUSTERS:-12}"`, 12, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PATH", stubs(t, map[string]string{"scontrol": test.scontrol})+":"+path)
			t.Setenv("SLURM_CLUSTERS", "other")
			got, err := slurm.MaxArraySize(t.Context())
			if got != test.want || (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("MaxArraySize() = %d, %v; want %d, %q", got, err, test.want, test.wantErr)
			}
		})
	}
	t.Run("no scontrol", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if got, err := slurm.MaxArraySize(t.Context()); err == nil || !strings.Contains(err.Error(), `"scontrol": executable file not found`) {
			t.Errorf("MaxArraySize() = %d, %v", got, err)
		}
	})
	t.Run("fakes", func(t *testing.T) {
		t.Setenv("PATH", slurmtest.Fakes(t).Bin+":"+path)
		t.Setenv("CPBENCH_FAKE_MAXARRAY", "33")
		if got, err := slurm.MaxArraySize(t.Context()); got != 33 || err != nil {
			t.Errorf("MaxArraySize() = %d, %v; want 33", got, err)
		}
	})
	t.Run("real", func(t *testing.T) {
		for _, entry := range slurmtest.Shared(t).Env() {
			if conf, found := strings.CutPrefix(entry, "SLURM_CONF="); found {
				t.Setenv("SLURM_CONF", conf)
			}
		}
		if got, err := slurm.MaxArraySize(t.Context()); got != 1001 || err != nil {
			t.Errorf("MaxArraySize() = %d, %v; want 1001", got, err)
		}
	})
}
