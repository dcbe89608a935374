package slurm_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/plan/suite"
	"cpbench/slurm"
	"cpbench/slurm/local"
	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden scripts")

// scripted plans a spec as if its run lay at dir.
func scripted(t testing.TB, dir, spec string) *folder.Run {
	t.Helper()
	s, err := plan.Load("sweep.yaml", []byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.New(s, plan.Options{Source: filepath.Join(filepath.Dir(dir), "sweep.yaml"), Version: "v0"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Arrays {
		p.Arrays[i].Lengths = make([]int, len(p.Arrays[i].Tasks))
	}
	return &folder.Run{Dir: dir, Plan: p}
}

const gpuSpec = `version: 1
name: boltz2-cp
matrix: {cp: [1, 4, 8], tokens: [1024, 2048]}
workload: {kind: model, mode: inference, command: [./model, "{cp}"], ranks: cp}
resources: {gpus_per_node: cp, gpu_type: h200, cpus_per_task: 64, time: 90m, exclusive: true}
site: {gpus_per_node: 8}
slurm: {partition: "gpu,long", account: proj, qos: high, constraint: "a&b", reservation: "my res", exclude: "n[1-3]", parallel: 4, requeue: true, extra: ["--switches=1", "--contiguous", "--wckey=site#physics:1"]}
setup: ["module purge", "", "# a comment", "source '/opt/it''s here/env.sh' # with a comment"]
`

const cpuSpec = `version: 1
name: cpu
matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9]}
workload: {kind: model, mode: inference, command: [x]}
resources: {mem: 64G}
`

func TestGoldenScripts(t *testing.T) {
	t.Parallel()
	awkward := `/srv/it's "50%" of #1/cpbench-runs/cpu-20260102T030405Z`
	for name, job := range map[string]slurm.Job{
		"gpu":       {Run: scripted(t, "/home/u/cpbench-runs/boltz2-cp-20260102T030405Z", gpuSpec), Attempt: 1},
		"cpu":       {Run: scripted(t, awkward, cpuSpec), Attempt: 1},
		"some-only": {Run: scripted(t, awkward, cpuSpec), Attempt: 3, Tasks: []int{0, 2, 3, 4, 8}, Again: []string{"timeout"}},
	} {
		got, err := slurm.Script(job)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".sbatch", got)
	}
}

// golden compares a script with its golden file, and lets bash and shellcheck read it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "script", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
	if _, err := syntax.NewParser().Parse(bytes.NewReader(got), name); err != nil {
		t.Errorf("%s is no bash: %v", name, err)
	}
	shellcheck(t, file)
}

// shellcheck runs shellcheck on a script where it is installed; CPBENCH_TEST_REQUIRE says where it must be.
func shellcheck(t *testing.T, path string) {
	t.Helper()
	if _, err := exec.LookPath("shellcheck"); err != nil {
		if suite.Required("shellcheck") {
			t.Fatal(err)
		}
		t.Logf("shellcheck is not installed: %s was only parsed", path)
		return
	}
	// A set-up line may source what is not here, and its exit code is looked at on the next line on purpose.
	out, err := exec.Command("shellcheck", "--exclude=SC1091,SC2181", path).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestScriptCutOff is the promise of the script's form: wherever it was cut off, it does nothing.
func TestScriptCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := scripted(t, dir, cpuSpec+"setup: [\"touch done\"]\n")
	writeBinary(t, run, "#!/bin/sh\ntouch done\n")
	text, err := slurm.Script(slurm.Job{Run: run, Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.TrimRight(text, "\n")
	for n := len(whole) - 1; n > 0; n -= 7 {
		cut := exec.Command("bash")
		cut.Stdin, cut.Dir, cut.Env = bytes.NewReader(whole[:n]), dir, append(os.Environ(), "SLURM_ARRAY_TASK_ID=0")
		cut.Run() // may well fail
		if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
			t.Fatalf("cut at %d of %d bytes, the script has done something", n, len(whole))
		}
	}
	cmd := exec.Command("bash")
	cmd.Stdin, cmd.Dir, cmd.Env = bytes.NewReader(whole), dir, append(os.Environ(), "SLURM_ARRAY_TASK_ID=0")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "done")); err != nil {
		t.Fatal("the whole script has done nothing")
	}
}

func writeBinary(t testing.TB, run *folder.Run, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(run.Binary()), 0o755); err != nil {
		t.Fatal(err)
	}
	slurmtest.Executable(t, run.Binary(), text)
}

// TestBashSeesTheArguments is the property that whatever the folder is called, the worker gets the arguments that were
// meant, and sbatch and the local executor read the directives that were meant.
func TestBashSeesTheArguments(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	printable := rapid.StringOfN(rapid.RuneFrom([]rune("a é日%#'\"$`!*?[]{}()<>|&;~^=+,:-_.\t")).Filter(func(r rune) bool { return r != '\t' }), 1, 20, -1)
	rapid.Check(t, func(rt *rapid.T) {
		name := strings.Trim(printable.Draw(rt, "name"), ".") + "x"
		dir := filepath.Join(root, name)
		run := scripted(t, dir, cpuSpec)
		writeBinary(t, run, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
		index := rapid.IntRange(0, 8).Draw(rt, "index")
		text, err := slurm.Script(slurm.Job{Run: run, Attempt: 2})
		if err != nil {
			rt.Fatal(err)
		}
		cmd := exec.Command("bash")
		cmd.Stdin, cmd.Env = bytes.NewReader(text), append(os.Environ(), fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", index))
		out, err := cmd.CombinedOutput()
		if err != nil {
			rt.Fatalf("%v: %s", err, out)
		}
		want := []string{"worker", "--plan", dir + "/plan.json", "--digest", run.Plan.Digest, "--array", "0", "--attempt", "2", "--task", fmt.Sprint(index)}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")); diff != "" {
			rt.Fatal(diff)
		}
		header, err := local.ParseHeader(text)
		if err != nil {
			rt.Fatal(err)
		}
		if want := strings.ReplaceAll(dir, "%", "%%") + "/logs/%A_%a.out"; header.Output != want {
			rt.Fatalf("output %q, want %q", header.Output, want)
		}
	})
}

// TestSignalInSetup sends signals to a real bash that runs a set-up line, as a scheduler does: the worker hears of them.
func TestSignalInSetup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signal syscall.Signal
		group  bool // to the line's own processes as well
		want   string
	}{
		"scancel":        {syscall.SIGTERM, true, "1:143"},
		"before the end": {syscall.SIGUSR2, false, "1:140"},
		"Ctrl-C":         {syscall.SIGINT, true, "1:130"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			run := scripted(t, dir, cpuSpec+"setup: [\"mkfifo go; echo ready > started; read -r line < go\"]\n")
			writeBinary(t, run, "#!/bin/sh\nprintf '%s\\n' \"$@\" > told\n")
			text, err := slurm.Script(slurm.Job{Run: run, Attempt: 1})
			if err != nil {
				t.Fatal(err)
			}
			script := filepath.Join(dir, "script")
			if err := os.WriteFile(script, text, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("bash", script)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "SLURM_ARRAY_TASK_ID=0")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C { // nothing tells a test that a line runs
				if text, err := os.ReadFile(filepath.Join(dir, "started")); err == nil && len(text) > 0 {
					break
				}
			}
			target := cmd.Process.Pid
			if tt.group {
				target = -target
			}
			if err := syscall.Kill(target, tt.signal); err != nil {
				t.Fatal(err)
			}
			cmd.Wait() // its exit code is the worker's
			told, err := os.ReadFile(filepath.Join(dir, "told"))
			if err != nil || !strings.HasSuffix(string(told), "--setup-failed\n"+tt.want+"\n") {
				t.Errorf("%v: the worker was told %q", err, told)
			}
		})
	}
}

// TestIndexListBothWays is the property that the tasks that were chosen are the tasks that run.
func TestIndexListBothWays(t *testing.T) {
	t.Parallel()
	run := scripted(t, "/runs/many-20260102T030405Z", strings.Replace(cpuSpec, "matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9]}", "matrix: {n: [1]}\nrepeats: 1000", 1))
	rapid.Check(t, func(rt *rapid.T) {
		tasks := rapid.SliceOfNDistinct(rapid.IntRange(0, 999), 1, 60, rapid.ID[int]).Draw(rt, "tasks")
		slices.Sort(tasks)
		text, err := slurm.Script(slurm.Job{Run: run, Attempt: 1, Tasks: tasks})
		if err != nil {
			rt.Fatal(err)
		}
		header, err := local.ParseHeader(text)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(tasks, header.Indices); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestScriptRefuses(t *testing.T) {
	t.Parallel()
	for want, run := range map[string]*folder.Run{
		"backslash":         scripted(t, `/srv/a\b/cpu-x`, cpuSpec),
		"control character": scripted(t, "/srv/a\nb/cpu-x", cpuSpec),
		"not a complete":    scripted(t, "/srv/x", cpuSpec+"setup: [\"echo 'open\"]\n"),
		"goes on after":     scripted(t, "/srv/x", cpuSpec+"setup: ['echo \\']\n"),
	} {
		text, err := slurm.Script(slurm.Job{Run: run, Attempt: 1})
		if err == nil || !strings.Contains(err.Error(), want) || text != nil {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// TestScriptStaysSmall is the bound of 64 KB whatever the number of tasks: nothing of the plan goes into the script.
func TestScriptStaysSmall(t *testing.T) {
	t.Parallel()
	run := scripted(t, "/runs/many-20260102T030405Z", strings.Replace(cpuSpec, "matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9]}", "matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}\nrepeats: 1000", 1))
	text, err := slurm.Script(slurm.Job{Run: run, Attempt: 1})
	if err != nil || len(text) > 64<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	odd := make([]int, 0, 5000)
	for i := 0; i < 10000; i += 2 {
		odd = append(odd, i)
	}
	text, err = slurm.Script(slurm.Job{Run: run, Attempt: 1, Tasks: odd})
	if err != nil || len(text) > 64<<10 {
		t.Errorf("with every other task: %d bytes, %v", len(text), err)
	}
}
