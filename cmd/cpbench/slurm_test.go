package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// site is a real cluster and a user's folder on it, whose name is as awkward as folders get.
type site struct {
	*testing.T
	cluster *slurmtest.Cluster
	dir     string
	bin     string
	user    string // who types; empty: root
}

func newSite(t *testing.T, c *slurmtest.Cluster) *site {
	t.Helper()
	s := &site{T: t, cluster: c, dir: filepath.Join(t.TempDir(), `it's 50% "done" #1`), bin: t.TempDir()}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(s.bin, "cpbench")); err != nil { // see TestMain
		t.Fatal(err)
	}
	return s
}

// sh runs a shell line in the user's folder, with cpbench and the real Slurm on PATH.
func (s *site) sh(line string) (stdout, stderr string, err error) {
	s.Helper()
	words := []string{"bash", "-o", "pipefail", "-c", line}
	if s.user != "" {
		words = append([]string{"runuser", "-u", s.user, "--"}, words...)
	}
	cmd := exec.CommandContext(s.Context(), words[0], words[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(s.cluster.Env(), "PATH="+s.bin+":/usr/bin:/bin:/usr/sbin:/sbin")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// must is sh for lines that have to succeed.
func (s *site) must(line string) string {
	s.Helper()
	out, errs, err := s.sh(line)
	if err != nil {
		s.Fatalf("%s: %v\n%s%s", line, err, out, errs)
	}
	return strings.TrimSpace(out)
}

func (s *site) spec(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

// ended waits until no task of a job waits or runs any more.
func (s *site) ended(job string, limit time.Duration) {
	s.Helper()
	s.until(limit, func() bool { return s.must("squeue -h -j "+job+" -o %T") == "" }, "job "+job+" has not ended")
}

// until polls: nothing tells a test when a job of a real cluster moves on.
func (s *site) until(limit time.Duration, done func() bool, what string) {
	s.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			s.Fatalf("after %v: %s\n%s", limit, what, s.must("squeue; tail -n 20 cpbench-runs/*/logs/*.out || true"))
		}
		<-tick.C
	}
}

// started waits until a worker of the run has begun its program.
func (s *site) started() {
	s.Helper()
	s.until(time.Minute, func() bool {
		found, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*/events.jsonl"))
		if err != nil || len(found) == 0 {
			return false
		}
		text, err := os.ReadFile(found[0])
		return err == nil && bytes.Contains(text, []byte(`"launch"`))
	}, "no worker has started")
}

// raw collects the only run and returns its raw data by column.
func (s *site) raw() []map[string]string {
	s.Helper()
	return s.rawOf("cpbench-runs/*")
}

// rawOf is raw of a run among several.
func (s *site) rawOf(run string) []map[string]string {
	s.Helper()
	out, errs, err := s.sh("cpbench collect " + run + " --format raw")
	if err != nil && cmdExit(err) != exitIncomplete {
		s.Fatalf("collect: %v\n%s", err, errs)
	}
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		s.Fatal(err)
	}
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func cmdExit(err error) int {
	if e, ok := err.(*exec.ExitError); ok { //nolint:errorlint // exactly that type
		return e.ExitCode()
	}
	return -1
}

func (s *site) outcomes() map[string]int {
	s.Helper()
	counts := map[string]int{}
	for _, row := range s.raw() {
		counts[row["outcome"]]++
	}
	return counts
}

// sleeper is a sweep whose program never says hello.
const sleeper = `version: 1
name: sleeper
matrix: {n: [1, 2]}
workload: {kind: model, mode: inference, command: [sleep, "600"], timeout: 9m}
resources: {time: %s}
slurm: {signal_before: 5s}
`

// steadyColumns is what a table says that does not depend on how fast the machine is.
var steadyColumns = regexp.MustCompile(`(?m)^ *(max-fit )?\d+ 2d cp=\d+ (\S+ \(OOM\S+\)|\S+) `)

func TestSlurmQuickstart(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	text, err := os.ReadFile("../../configs/quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.spec("quickstart.yaml", string(text))
	job := s.must("cpbench plan quickstart.yaml | sbatch --parsable")
	s.ended(job, 3*time.Minute)
	got := s.must("cpbench collect")
	want := s.must("cpbench run quickstart.yaml --runs here")
	if !strings.Contains(got, "max-fit 352") || !strings.Contains(got, "max-fit 720") {
		t.Errorf("no max-fit rows:\n%s", got)
	}
	if diff := cmp.Diff(steadyColumns.FindAllString(blankTimes(want), -1), steadyColumns.FindAllString(blankTimes(got), -1)); diff != "" {
		t.Errorf("the tables of cpbench run and of Slurm differ:\n%s", diff)
	}
	for _, row := range s.raw() {
		if row["outcome"] == "ok" && !strings.HasPrefix(row["host"], "n") {
			t.Errorf("not measured on a node of the cluster: %v", row)
		}
	}
}

// blankTimes takes out the blanks, which depend on the widest cell of a column.
func blankTimes(text string) string { return regexp.MustCompile(` +`).ReplaceAllString(text, " ") }

func TestSlurmSeveralArrays(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Start(t, slurmtest.Options{MaxArraySize: 3}))
	s.spec("sweep.yaml", `version: 1
name: many
matrix: {n: [1, 2, 3, 4, 5, 6, 7]}
workload: {kind: model, mode: inference, command: [{CPBENCH}, reference, --memory, 8MiB], point: {tokens: n * 8}, warmup: 1, iterations: 5, timeout: 1m}
resources: {time: 5m}
`)
	s.must(`sed -i 's/{CPBENCH}/"{cpbench}"/' sweep.yaml`)
	out, errs, err := s.sh("cpbench plan sweep.yaml | sbatch")
	if err == nil || out != "" || !strings.Contains(errs, "the sweep needs 3 arrays") || !strings.Contains(errs, "Batch script is empty") {
		t.Fatalf("%v %q %q", err, out, errs)
	}
	ways := regexp.MustCompile(`hint: (cpbench plan --run .* --array \d+ \| sbatch)`).FindAllStringSubmatch(errs, -1)
	if len(ways) != 3 {
		t.Fatalf("not three ways: %q", errs)
	}
	for _, way := range ways {
		s.ended(s.must(way[1]+" --parsable"), time.Minute)
	}
	if diff := cmp.Diff(map[string]int{"ok": 7}, s.outcomes()); diff != "" {
		t.Error(diff)
	}
}

func TestSlurmCancelled(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	s.spec("sweep.yaml", fmt.Sprintf(sleeper, "10m")+"site: {max_array_size: 100}\n")
	job := s.must("cpbench plan sweep.yaml | sbatch --parsable --array=0")
	s.started()
	s.must("scancel " + job)
	s.ended(job, time.Minute)
	if diff := cmp.Diff(map[string]int{"cancelled": 1, "missing": 1}, s.outcomes()); diff != "" {
		t.Error(diff)
	}
	// What was cancelled or never ran is planned again, as another attempt.
	again := s.must("cpbench plan --run cpbench-runs/* --only-missing")
	if !strings.Contains(again, "#SBATCH --array=0-1\n") || !strings.Contains(again, "--attempt 2") {
		t.Errorf("not planned again:\n%s", again)
	}
}

func TestSlurmScriptCutOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	s.spec("sweep.yaml", fmt.Sprintf(sleeper, "5m"))
	job := s.must("cpbench plan sweep.yaml > script; head -c $(($(wc -c < script) - 4)) script | sbatch --parsable")
	s.ended(job, time.Minute)
	for _, row := range s.raw() {
		if row["outcome"] != "error" || !strings.Contains(row["reason"], "exit 127 on n1") || !strings.Contains(row["reason"], "command not found") {
			t.Errorf("a script that was cut off has done something: %v", row)
		}
	}
}

func TestSlurmSetupFails(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	s.spec("sweep.yaml", fmt.Sprintf(sleeper, "5m")+`setup: ["export A=1", "set -e", "module load 'no such module' # it's not there"]`+"\n")
	job := s.must("cpbench plan sweep.yaml | sbatch --parsable")
	s.ended(job, time.Minute)
	for _, row := range s.raw() {
		if row["outcome"] != "error" || !strings.Contains(row["reason"], "set-up line 3 ended with exit code 127") {
			t.Errorf("%v", row)
		}
	}
}

// TestSlurmSrun starts the ranks as tasks of one job step. Every ending has to be told apart there as well.
func TestSlurmSrun(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	s.spec("sweep.yaml", `version: 1
name: steps
matrix: {fault: ["", "--fault=oom-rank=1", "--fault=exit=2:7", "--fault=crash-rank=0"]}
workload:
  kind: model
  mode: inference
  command: ["{cpbench}", reference, --memory, 8MiB, "{fault}"]
  launcher: srun
  ranks: 4
  topology: 2d
  point: {tokens: 16}
  warmup: 1
  iterations: 5
  timeout: 2m
resources: {time: 5m, cpus_per_task: 4}
`)
	s.must(`sed -i 's/"{fault}"/"--channels=4", "{fault}"/; s/fault: \["",/fault: ["--channels=2",/' sweep.yaml`)
	job := s.must("cpbench plan sweep.yaml | sbatch --parsable")
	s.ended(job, 3*time.Minute)
	want := map[string]string{"--channels=2": "ok", "--fault=oom-rank=1": "oom_device", "--fault=exit=2:7": "error", "--fault=crash-rank=0": "error"}
	for _, row := range s.raw() {
		if row["outcome"] != want[row["axis fault"]] {
			t.Errorf("%s: %s (%s)", row["axis fault"], row["outcome"], row["reason"])
		}
	}
	if left := s.must("squeue -h -s -j " + job); left != "" {
		t.Errorf("job steps are left: %s", left)
	}
}
