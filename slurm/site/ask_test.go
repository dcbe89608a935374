package site

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/slurm"
	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// stubs is Slurm with commands that are bash scripts of those bodies, and of the captured texts where there is none.
func stubs(t *testing.T, bodies map[string]string) *slurm.Slurm {
	t.Helper()
	texts, err := filepath.Abs("testdata/22.05.8")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"sbatch":   "echo slurm-wlm 22.05.8",
		"scontrol": `case $2 in config) cat "$T/config";; partition) [ "$4" = --all ] && cat "$T/partitions";; esac`,
		"sinfo":    `[ "$3" = --all ] && cat "$T/nodes"`,
		"sacctmgr": `case $3 in assoc) cat "$T/associations";; qos) cat "$T/qos";; esac`,
	}
	for name, body := range bodies {
		all[name] = body
	}
	s := &slurm.Slurm{Bin: t.TempDir(), Env: append(os.Environ(), "T="+texts)}
	for name, body := range all {
		if body == "" {
			continue
		}
		slurmtest.Executable(t, filepath.Join(s.Bin, name), "#!/bin/bash\n"+body+"\n")
	}
	return s
}

func TestAsk(t *testing.T) {
	t.Parallel()
	got, want := Ask(t.Context(), stubs(t, nil)), cluster(t)
	want.User = got.User
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAskInVain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bodies map[string]string
		want   []Unknown // a part of the reason
	}{
		"no Slurm":      {map[string]string{"sbatch": ""}, []Unknown{{"Slurm", "sbatch is not installed here"}}},
		"no controller": {map[string]string{"scontrol": "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' >&2; exit 1"}, []Unknown{{"the controller", "Unable to contact slurm controller"}}},
		"no partitions": {map[string]string{"scontrol": `[ $2 = config ] && cat "$T/config"`}, []Unknown{{"partitions", "exit status 1"}}},
		"no sinfo":      {map[string]string{"sinfo": ""}, []Unknown{{"nodes", "sinfo is not installed here"}}},
		"no sacctmgr":   {map[string]string{"sacctmgr": ""}, []Unknown{{"accounts", "sacctmgr is not installed here"}, {"QOS", "sacctmgr is not installed"}}},
		"no database":   {map[string]string{"sacctmgr": "echo 'sacctmgr: error: Problem talking to the database: Connection refused' >&2; exit 1"}, []Unknown{{"accounts", "Problem talking to the database"}, {"QOS", "Problem talking"}}},
		"no accounting": {map[string]string{"scontrol": `case $2 in config) echo "AccountingStorageType = (null)";; *) cat "$T/partitions";; esac`, "sacctmgr": "exit 1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Ask(t.Context(), stubs(t, test.bodies))
			if len(got.Unknown) != len(test.want) {
				t.Fatalf("unknown: %q, want %q", got.Unknown, test.want)
			}
			for i, want := range test.want {
				if u := got.Unknown[i]; u.What != want.What || !strings.Contains(u.Why, want.Why) {
					t.Errorf("unknown: %q, want %q", u, want)
				}
			}
			got.Check(fits()) // finds what it can, and does not stumble over what is not known
		})
	}
}

// FuzzTexts is that no text of a command makes the parsers stumble: they read what other versions print.
func FuzzTexts(f *testing.F) {
	files, err := filepath.Glob("testdata/22.05.8/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no texts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &Site{Config: parseConfig(text), Partitions: parsePartitions(text), Associations: parseAssociations(text), QOS: parseQOS(text)}
		for _, n := range parseNodes(text) {
			if strings.ContainsAny(n.Partition+n.State, "|\n") {
				t.Errorf("a field holds its border: %+v", n)
			}
			if p := s.Partition(n.Partition); p != nil {
				p.Nodes = append(p.Nodes, n)
			}
		}
		for _, finding := range s.Check(fits()) {
			if finding.Key == "" || finding.Text == "" || finding.Advice == "" {
				t.Errorf("%+v leaves something out", finding)
			}
		}
	})
}
