package local_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/slurm/local"
	"cpbench/slurm/slurmtest"
)

// ParseHeader and a real sbatch make the same of what stands in a directive. The writer of scripts relies on the rule:
// double quotes, with a backslash before " and \, and nothing else.
func TestRealSbatchUnquotes(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Shared(t)
	for _, value := range []string{
		`plain`, `a\\b`, `"a b"`, `'a b'`, `"a'b"`, `'a"b'`, `"a\"b"`, `"a\\b"`, `"a\'b"`, `'a\'b'`, `'a\b'`, `'a\\b'`, `"a\nb"`, `"a\$b"`,
		`"a#b"`, `'a#b'`, `a#b`, `a\#b`, `"a b" # c`, `'a'"b"'c d'`, `"a%%b"`, `"$HOME ~"`, "\"`id`\"", `x\ `, `x\\ `, "\"tab\tx\"",
		`"a;b|c&d<e>f(g)*?"`, `"é ü"`, `a"b"c`, `'it'"'"'s'`, `'it'\''s'`, `"unmatched`, `'unmatched`, `"end\"`, `a\ b`,
	} {
		script := "#!/bin/bash\n#SBATCH --hold --output=/dev/null\n#SBATCH --job-name=" + value + "\n"
		want, wantErr := jobName(t, cluster, script)
		header, err := local.ParseHeader([]byte(script))
		if value == `a\ b` {
			// A word that is no option: sbatch refuses it, ParseHeader leaves that to sbatch.
			if wantErr == nil || !strings.Contains(wantErr.Error(), "Invalid directive found in batch script: b") || header.Name != "a" {
				t.Errorf("%s: sbatch says %v, ParseHeader %q", value, wantErr, header.Name)
			}
			continue
		}
		if (err == nil) != (wantErr == nil) || header.Name != want {
			t.Errorf("%s: sbatch takes %q, %v; ParseHeader %q, %v", value, want, wantErr, header.Name, err)
		}
	}
}

// jobName submits a held script and returns the name that Slurm gave it.
func jobName(t *testing.T, cluster *slurmtest.Cluster, script string) (string, error) {
	t.Helper()
	sbatch := cluster.Command("sbatch", "--parsable")
	sbatch.Stdin = strings.NewReader(script)
	id, err := sbatch.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", errors.New(string(exit.Stderr))
		}
		t.Fatal(err)
	}
	number := strings.TrimSpace(string(id))
	name, err := cluster.Command("squeue", "-h", "-j", number, "-o", "%j").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Command("scancel", number).Run(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(name), "\n"), nil
}

// Executor writes the very files that Slurm writes.
func TestRealOutputNames(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Shared(t)
	type pair struct{ directives, here, there string }
	var pairs []pair
	for _, pattern := range []string{
		"x %a", "%%A %%%a %%%%a", "%4a %0a %12a", "%x", "%10x", "$HOME ~ %q 5%", `back\\slash %a`, `a\\\\b %a`, `end\\\\`, `\%a`, `'\"it's\"'`,
	} {
		for _, more := range []string{" --job-name=\"a b\"", ""} {
			directives := "--array=7" + more + " --output=\"" + pattern + "\""
			p := pair{directives, t.TempDir(), t.TempDir()}
			sbatch := cluster.Command("sbatch")
			sbatch.Dir, sbatch.Stdin = p.there, strings.NewReader("#!/bin/bash\n#SBATCH "+directives+"\ntrue\n")
			if out, err := sbatch.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", directives, err, out)
			}
			pairs = append(pairs, p)
		}
	}
	for _, p := range pairs {
		run(t, &local.Executor{Dir: p.here}, p.directives, "true")
		if want, got := waitForFile(t, p.there), waitForFile(t, p.here); got != want {
			t.Errorf("%s: Slurm writes %q, this executor %q", p.directives, want, got)
		}
	}
}

// waitForFile returns the name of the one file in a folder.
func waitForFile(t *testing.T, dir string) string {
	t.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 1 {
			return filepath.Base(files[0])
		}
		select {
		case <-tick.C:
		case <-deadline:
			entries, _ := os.ReadDir(dir)
			t.Fatalf("%s has %v; want one file", dir, entries)
		}
	}
}
