package slurmtest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"cpbench/slurm"
	"cpbench/slurm/slurmtest"
)

// runner lets both doors be tried here: testscript.Main with Commands, and Main below it.
type runner struct{ m *testing.M }

func (r runner) Run() int { return slurmtest.Main(r.m) }

func TestMain(m *testing.M) {
	if os.Getenv("CPBENCH_TEST_REQUIRE_NOW") != "" {
		os.Exit(slurmtest.Main(m)) // the child of TestRequire, which may not read the files that testscript copies
	}
	testscript.Main(runner{m}, slurmtest.Commands())
}

func TestFakesInScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			state := filepath.Join(env.WorkDir, "state of fakes")
			env.Setenv("CPBENCH_FAKE_SLURM", state)
			env.Defer(func() {
				if err := slurmtest.StopFakes(state); err != nil {
					t.Error(err)
				}
			})
			return nil
		},
	})
}

// answer is what a command left.
type answer struct {
	Stdout, Stderr string
	Status         int
}

func ask(t *testing.T, cmd *exec.Cmd, stdin string) answer {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// The fakes are worth what they have in common with the real commands.
func TestFakesAnswerAsSlurm(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Shared(t)
	fake := slurmtest.Fakes(t)
	dir := t.TempDir()
	id := regexp.MustCompile(`\b[0-9]+\n`) // the two clusters count from different ids
	const script = "#!/bin/bash\n#SBATCH --output=/dev/null\n"
	for _, test := range []struct{ command, stdin string }{
		{"sbatch", script + "true\n"},
		{"sbatch --parsable", script + "true\n"},
		{"sbatch --parsable --array=3", script + "true\n"},
		{"sbatch", ""},
		{"sbatch", " \n\t\n"},
		{"sbatch", "true\n"},
		{"sbatch", "\n" + script},
		{"sbatch", script + "true\r\n"},
		{"sbatch", script + "true\x00\n"},
		{"sbatch missing.sh", ""},
		{"sbatch --nosuch", script},
		{"sbatch", script + "#SBATCH --array=0-1000\ntrue\n"},
		{"sbatch", script + "#SBATCH --array=0-1001\ntrue\n"},
		{"sbatch --array=1001", script},
		{"sbatch", script + "#SBATCH --array=4-0\n"},
		{"sbatch", script + "#SBATCH --array=0-4:0\n"},
		{"sbatch", script + "#SBATCH --array=-1\n"},
		{"sbatch", script + "#SBATCH --array=x\n"},
		{"sbatch", script + "#SBATCH --array=\n"},
		{"sbatch", script + "#SBATCH --array=1-3,\n"},
		{"squeue -h -r -O State:| -j 999999", ""},
		{"squeue -h -r -O State:| -j 999999,999998", ""},
		{"squeue -h -r -O State:| -j abc", ""},
		{"scancel 999999", ""},
		{"scancel abc", ""},
		{"sacct", ""},
	} {
		words := strings.Fields(test.command)
		pretend := exec.Command(filepath.Join(fake.Bin, words[0]), words[1:]...)
		pretend.Env, pretend.Dir = fake.Env(), dir
		real := cluster.Command(words[0], words[1:]...)
		real.Dir = dir
		want, got := ask(t, real, test.stdin), ask(t, pretend, test.stdin)
		want.Stdout, got.Stdout = id.ReplaceAllString(want.Stdout, "ID\n"), id.ReplaceAllString(got.Stdout, "ID\n")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s < %q (-real +fake):\n%s", test.command, test.stdin, diff)
		}
	}
	line := regexp.MustCompile(`(?m)^MaxArraySize .*$`)
	want := ask(t, cluster.Command("scontrol", "show", "config"), "").Stdout
	pretend := exec.Command(filepath.Join(fake.Bin, "scontrol"), "show", "config")
	pretend.Env = fake.Env()
	if diff := cmp.Diff(line.FindString(want), line.FindString(ask(t, pretend, "").Stdout)); diff != "" {
		t.Errorf("scontrol show config (-real +fake):\n%s", diff)
	}
}

// conf returns the value of SLURM_CONF, which lies in the cluster's folder.
func conf(cluster *slurmtest.Cluster) string {
	for _, entry := range cluster.Env() {
		if path, found := strings.CutPrefix(entry, "SLURM_CONF="); found {
			return path
		}
	}
	return ""
}

// processes counts those of a cluster: each has its SLURM_CONF in the environment.
func processes(t *testing.T, conf string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte("SLURM_CONF="+conf+"\x00")) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm")) // it may have ended meanwhile
			found = append(found, filepath.Base(filepath.Dir(file))+" "+strings.TrimSpace(string(name)))
		}
	}
	return found
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	var path string
	t.Run("cluster", func(t *testing.T) {
		cluster := slurmtest.Start(t, slurmtest.Options{Nodes: 1, CPUs: 3, GPUs: 2, MaxArraySize: 5, KillWait: 7 * time.Second, Extra: []string{"MaxStepCount=77"}})
		path = conf(cluster)
		if got := processes(t, path); len(got) < 3 {
			t.Errorf("processes: %q; want at least munged, slurmctld and slurmd", got)
		}
		config := ask(t, cluster.Command("scontrol", "show", "config"), "").Stdout
		for _, want := range []string{`MaxArraySize += 5`, `KillWait += 7 sec`, `MaxStepCount += 77`} {
			if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(config) {
				t.Errorf("scontrol show config lacks %s", want)
			}
		}
		nodes := ask(t, cluster.Command("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %c %G"), "")
		if diff := cmp.Diff(answer{Stdout: "n1 3 gpu:h100:2\n"}, nodes); diff != "" {
			t.Errorf("sinfo (-want +got):\n%s", diff)
		}
		executor := &slurm.Slurm{Bin: cluster.Bin, Env: cluster.Env(), Dir: t.TempDir()}
		for array, fails := range map[string]bool{"0-4": false, "0-5": true} {
			script := "#!/bin/bash\n#SBATCH --output=/dev/null\n#SBATCH --array=" + array + "\nsleep 60\n"
			if _, err := executor.Submit(t.Context(), []byte(script)); (err != nil) != fails {
				t.Errorf("--array=%s: %v", array, err)
			}
		}
	})
	if path == "" {
		t.Skip("no cluster was started")
	}
	// Jobs were still running.
	if got := processes(t, path); len(got) != 0 {
		t.Errorf("left over: %q", got)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cluster's folder is still there: %v", err)
	}
}

func TestAccounting(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Start(t, slurmtest.Options{Nodes: 1, GPUs: -1, Accounting: true})
	if diff := cmp.Diff(answer{Stdout: "(null)\n"}, ask(t, cluster.Command("sinfo", "-h", "-p", "gpu", "-o", "%G"), "")); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(answer{}, ask(t, cluster.Command("sacct", "-n", "-X"), "")); diff != "" {
		t.Errorf("sacct (-want +got):\n%s", diff)
	}
}

func TestNodeCrash(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Start(t, slurmtest.Options{Nodes: 1})
	executor := &slurm.Slurm{Bin: cluster.Bin, Env: cluster.Env(), Dir: t.TempDir()}
	runOne(t, executor)
	for _, verb := range []string{"crash", "start"} {
		if err := cluster.Node(verb, "n1"); err != nil {
			t.Fatal(err)
		}
	}
	runOne(t, executor)
	if err := cluster.Node("explode", "n1"); err == nil || !strings.Contains(err.Error(), "unknown command explode") {
		t.Errorf("Node(explode): %v", err)
	}
}

// runOne runs a job and waits for its end.
func runOne(t *testing.T, executor slurm.Executor) {
	t.Helper()
	id, err := executor.Submit(t.Context(), []byte("#!/bin/bash\n#SBATCH --output=/dev/null\ntrue\n"))
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		tasks, err := executor.Tasks(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if tasks[0].State.Ended() && tasks[0].State != "" {
			if tasks[0].State != slurm.Completed {
				t.Errorf("job %s: %v", id, tasks[0])
			}
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("job %s: %v", id, tasks)
		}
	}
}

// In a process that is not root, where no cluster can start.
func TestRequire(t *testing.T) {
	t.Parallel()
	if os.Getenv("CPBENCH_TEST_REQUIRE_NOW") != "" {
		slurmtest.Require(t)
		return
	}
	for required, want := range map[string]string{"": "--- SKIP", "gpu,slurms": "--- SKIP", "gpu,slurm": "--- FAIL"} {
		// By this name, because another user may not walk the path of a test binary.
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestRequire$", "-test.v")
		cmd.Env = append(os.Environ(), "CPBENCH_TEST_REQUIRE_NOW=1", "CPBENCH_TEST_REQUIRE="+required)
		if os.Geteuid() == 0 {
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		got := ask(t, cmd, "").Stdout
		if !strings.Contains(got, want+": TestRequire") || !strings.Contains(got, "no real slurm: not root") {
			t.Errorf("CPBENCH_TEST_REQUIRE=%s: want %s:\n%s", required, want, got)
		}
	}
}

// Without root the installer says in one line for each kind of suite what will be left out, and is no failure.
func TestInstallWithoutRoot(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for name, body := range map[string]string{"id": "echo 1000", "dpkg-query": "exit 1", "apt-get": "echo must not run; exit 1"} {
		slurmtest.Executable(t, filepath.Join(bin, name), "#!/bin/sh\n"+body+"\n")
	}
	cmd := exec.Command("bash", "install.sh")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	got := ask(t, cmd, "")
	if got.Status != 0 || strings.Count(got.Stdout, "\n") != strings.Count(got.Stdout, "left out") {
		t.Errorf("install.sh: %+v", got)
	}
	for _, want := range []string{"these stay missing: slurm-wlm ", "no python3-torch: "} {
		if strings.Count(got.Stdout, want) != 1 {
			t.Errorf("install.sh does not say %q once: %s", want, got.Stdout)
		}
	}
	if diff := cmp.Diff(2, ask(t, exec.Command("bash", "install.sh", "nonsense"), "").Status); diff != "" {
		t.Errorf("install.sh nonsense: status (-want +got):\n%s", diff)
	}
}
