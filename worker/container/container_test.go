package container_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/worker/container"

	"github.com/google/go-cmp/cmp"
)

// run is a run whose folder and spec are in a place with an awkward name.
func run(t *testing.T, keys string) *folder.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `it's 50% "done" #1`)
	if err := os.MkdirAll(filepath.Join(dir, "run", "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "version: 1\nname: boxed\nmatrix: {n: [1]}\nworkload: {kind: command, command: [x]}\n" + keys
	spec, err := plan.Load("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.New(spec, plan.Options{Source: filepath.Join(dir, "s.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	return &folder.Run{Dir: filepath.Join(dir, "run"), Plan: p}
}

// fake puts the stand-in for apptainer on PATH, under a name.
func fake(t *testing.T, name string) {
	t.Helper()
	self, err := filepath.Abs("testdata/apptainer")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
}

func TestNone(t *testing.T) {
	t.Parallel()
	b := container.Of(run(t, ""))
	argv, env := b.Alone([]string{"a", "b"}, []string{"X=1"}, "/w", true, 4, nil)
	if !b.None() || b.Image() != "" || b.InStep() || b.Check() != nil || b.Step(env, "/w") != nil {
		t.Errorf("%+v is no container", b)
	}
	if diff := cmp.Diff([][]string{{"a", "b"}, {"X=1"}}, [][]string{argv, env}); diff != "" {
		t.Error(diff)
	}
}

// Not parallel: apptainer is found on this process's PATH.
func TestApptainer(t *testing.T) {
	fake(t, "apptainer")
	r := run(t, "env: {NCCL_DEBUG: INFO}\ncontainer: {runtime: apptainer, image: model.sif, mounts: [data:/data:ro, /usr], env_passthrough: [UCX_TLS]}\n")
	b, dir := container.Of(r), r.Plan.Dir
	env := []string{
		"PATH=/bin", "NCCL_DEBUG=WARN", "HOST=1", "UCX_TLS=rc,sm", "PYTHONPATH=/opt/python",
		"NCCL_DEBUG=INFO", "CPBENCH_TOKEN=s3cret", "RANK=0",
	}
	argv, environ := b.Inside([]string{"python3", "a b", "$HOME", "#x"}, env, filepath.Join(r.Dir, "logs"), true)
	want := []string{
		argv[0], "exec", "--nv", "--no-home", "--pwd", filepath.Join(r.Dir, "logs"),
		"--bind", dir + "/run:" + dir + "/run", "--bind", dir + ":" + dir, "--bind", dir + "/data:/data:ro", "--bind", "/usr:/usr",
		filepath.Join(dir, "model.sif"), "python3", "a b", "$HOME", "#x",
	}
	if diff := cmp.Diff(want, argv); diff != "" {
		t.Error(diff)
	}
	wantEnv := append(slices.Clone(env), "PYTHONPATH="+filepath.Join(r.Dir, "lib"),
		"APPTAINERENV_CPBENCH_TOKEN=s3cret", "APPTAINERENV_NCCL_DEBUG=INFO", "APPTAINERENV_PYTHONPATH="+filepath.Join(r.Dir, "lib"),
		"APPTAINERENV_RANK=0", "APPTAINERENV_UCX_TLS=rc,sm")
	if diff := cmp.Diff(wantEnv, environ); diff != "" {
		t.Error(diff)
	}
	if argv, _ := b.Inside([]string{"x"}, nil, r.Dir, false); slices.Contains(argv, "--nv") {
		t.Errorf("GPUs without having asked: %q", argv)
	}
	if argv, _ := b.Inside([]string{"x"}, nil, "/elsewhere", false); !slices.Contains(argv, "/elsewhere:/elsewhere") {
		t.Errorf("the working folder is not mounted: %q", argv)
	}
}

// TestValues is that a value arrives whatever it holds, and that the image's own loses.
func TestValues(t *testing.T) {
	for _, name := range []string{"apptainer", "singularity"} {
		t.Run(name, func(t *testing.T) {
			fake(t, name)
			r := run(t, "env: {NCCL_DEBUG: x, A: x, EMPTY: x}\ncontainer: {runtime: apptainer, image: model.sif}\n")
			if err := os.WriteFile(filepath.Join(r.Plan.Dir, "model.sif"), []byte("NCCL_DEBUG=of the image\nOWN=of the image\nEMPTY=of the image\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			b := container.Of(r)
			if err := b.Check(); err != nil {
				t.Fatal(err)
			}
			awkward := "0,1 'q' \"d\" $HOME `x`\nsecond line # = \\"
			argv, env := b.Inside([]string{"bash", "-c", `printf '%s|%s|%s|%s|%s' "$NCCL_DEBUG" "$A" "$EMPTY" "$OWN" "$PWD"`}, append(os.Environ(), "NCCL_DEBUG=INFO", "A="+awkward, "EMPTY="), r.Dir, false)
			if name == "singularity" { // whose variables have its own name
				if !slices.Contains(env, "SINGULARITYENV_NCCL_DEBUG=INFO") {
					t.Error("the variables of singularity are missing")
				}
				return
			}
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			if want := "INFO|" + awkward + "||of the image|" + r.Dir; err != nil || string(out) != want {
				t.Errorf("%v: %q, want %q", err, out, want)
			}
		})
	}
}

func TestPyxis(t *testing.T) {
	r := run(t, "env: {NCCL_DEBUG: INFO}\ncontainer: {runtime: pyxis, image: 'nvcr.io#nvidia/pytorch:25.01-py3', mounts: ['/usr:/opt/usr:ro']}\n")
	b, dir := container.Of(r), r.Plan.Dir
	argv, env := b.Alone([]string{"python3", "x y"}, []string{"NCCL_DEBUG=INFO", "HOST=1", "CPBENCH_TOKEN=s3cret"}, r.Dir, true, 8, []string{"n1", "n2"})
	want := []string{
		"srun", "-N", "1", "-n", "1", "-c", "8", "--overlap", "--export=ALL", "--unbuffered", "--nodelist=n1",
		"--container-image=nvcr.io#nvidia/pytorch:25.01-py3", "--container-mounts=" + dir + "/run:" + dir + "/run," + dir + ":" + dir + ",/usr:/opt/usr:ro",
		"--container-workdir=" + r.Dir, "--no-container-mount-home", "--container-env=CPBENCH_TOKEN,NCCL_DEBUG,PYTHONPATH", "python3", "x y",
	}
	if diff := cmp.Diff(want, argv); diff != "" {
		t.Error(diff)
	}
	if want := []string{"NCCL_DEBUG=INFO", "HOST=1", "CPBENCH_TOKEN=s3cret", "PYTHONPATH=" + filepath.Join(r.Dir, "lib")}; !cmp.Equal(want, env) {
		t.Error(cmp.Diff(want, env))
	}
	if strings.Contains(strings.Join(argv, " "), "s3cret") {
		t.Error("a secret stands on the command line")
	}
	t.Setenv("SLURM_JOB_ID", "")
	if err := b.Check(); err == nil || !strings.Contains(err.Error(), "no Slurm job") {
		t.Errorf("outside of a job: %v", err)
	}
	t.Setenv("SLURM_JOB_ID", "7")
	if err := b.Check(); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, test := range []struct{ keys, want string }{
		{"{runtime: apptainer, image: gone.sif}", "gone.sif is not there"},
		{"{runtime: apptainer, image: 'docker://x', mounts: [/no/such/folder]}", "no such file or directory"},
		{"{runtime: apptainer, image: 'docker://x'}", "apptainer is not installed on this node"},
	} {
		if err := container.Of(run(t, "container: "+test.keys+"\n")).Check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.keys, err, test.want)
		}
	}
	r := run(t, "container: {runtime: apptainer, image: 'docker://x'}\n")
	r.Dir = filepath.Join(r.Dir, "a,b")
	if err := container.Of(r).Check(); err == nil || !strings.Contains(err.Error(), "cannot be mounted") {
		t.Errorf("a comma in the run folder: %v", err)
	}
}
