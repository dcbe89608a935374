package model

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/suite"
	"cpbench/worker/result"
)

// pythons are the interpreters with PyTorch on which the tests run: those of CPBENCH_TEST_PYTHON, a path list, or
// else /usr/bin/python3. Without torch a test is skipped, unless CPBENCH_TEST_REQUIRE names torch.
func pythons(t testing.TB) []string {
	t.Helper()
	list := filepath.SplitList(os.Getenv("CPBENCH_TEST_PYTHON"))
	if len(list) == 0 {
		list = []string{"/usr/bin/python3"}
	}
	for _, python := range list {
		out, err := exec.CommandContext(t.Context(), python, "-c", "import torch.distributed").CombinedOutput()
		switch {
		case err == nil:
		case suite.Required("torch"), os.Getenv("CPBENCH_TEST_PYTHON") != "":
			t.Fatalf("%s cannot import torch: %v\n%s", python, err, out)
		default:
			t.Skipf("%s cannot import torch; name an interpreter that can in CPBENCH_TEST_PYTHON", python)
		}
	}
	return list
}

// onEach runs a test on each PyTorch that there is.
func onEach(t *testing.T, test func(t *testing.T, python string)) {
	for i, python := range pythons(t) {
		t.Run("torch "+strconv.Itoa(i), func(t *testing.T) { test(t, python) })
	}
}

// abs is a path in the repository.
func abs(t testing.TB, path string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return full
}

// torchEnv is the environment of Python programs: cpbench_torch and the given folders can be imported.
func torchEnv(t testing.TB, dirs ...string) map[string]string {
	t.Helper()
	dirs = append([]string{abs(t, "templates/python")}, dirs...)
	return map[string]string{
		"PYTHONPATH":      strings.Join(dirs, string(os.PathListSeparator)),
		"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
	}
}

// torchCommand is the command of a rank; args are hooks and options.
func torchCommand(python string, args ...string) []string {
	return append([]string{python, "-m", "cpbench_torch"}, args...)
}

// torchSpec is a spec whose ranks are PyTorch; dir holds their hooks.
func torchSpec(t testing.TB, dir string, ranks int, command []string, with ...string) string {
	t.Helper()
	var quoted []string
	for _, arg := range command {
		quoted = append(quoted, strconv.Quote(arg))
	}
	env := "env: {"
	for name, value := range torchEnv(t, dir) {
		env += fmt.Sprintf("%s: %q, ", name, value)
	}
	return spec(ranks, "["+strings.Join(quoted, ", ")+"]", append(with, env+"}", "timeout: 2m")...)
}

// hooks writes a module my_hooks and returns its folder.
func hooks(t *testing.T, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `ho"oks`)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "my_hooks.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runPython runs a test program in Python and returns what it printed.
func runPython(t *testing.T, python, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, abs(t, script))
	cmd.Dir = t.TempDir()
	cmd.Env = os.Environ()
	for name, value := range torchEnv(t) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func TestTorchUnits(t *testing.T) {
	onEach(t, func(t *testing.T, python string) {
		out := runPython(t, python, "templates/python/cpbench_torch_test.py")
		var n int
		if _, after, ok := strings.Cut(out, "\nRan "); ok {
			fmt.Sscan(after, &n)
		}
		if n < 19 || !strings.HasSuffix(out, "\nOK\n") {
			t.Errorf("%d tests ran:\n%s", n, out)
		}
	})
}

// The spread pairformer computes what a plain one computes, gradients included.
func TestTorchPairformerParity(t *testing.T) {
	onEach(t, func(t *testing.T, python string) {
		out := runPython(t, python, "configs/pairformer/parity.py")
		const compared = 4 + 4 + 16 // ranks x sizes x meshes of P = 1, 2 and 4
		if n := strings.Count(out, "ok "); n != compared || strings.Contains(out, "WRONG") {
			t.Errorf("%d of %d comparisons are good:\n%s", n, compared, out)
		}
	})
}

func TestTorchPairformer(t *testing.T) {
	tests := []struct {
		ranks          int
		topology, mode string
		padded         int64
	}{
		{1, "1d", "inference", 13},
		{2, "1d", "training", 14},
		{4, "2d", "inference", 14},
	}
	onEach(t, func(t *testing.T, python string) {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s of %d in %s", tt.mode, tt.ranks, tt.topology), func(t *testing.T) {
				command := torchCommand(python, "pairformer_hooks", "device=cpu", "memory=256MiB", "channels=8", "heads=2")
				text := torchSpec(t, abs(t, "configs/pairformer"), tt.ranks, command,
					"mode: "+tt.mode, "topology: "+tt.topology, "dtype: fp32", "timeout: 1m")
				text = strings.Replace(text, "tokens: [16]", "tokens: [13]", 1)
				_, r, _ := only(t, text)
				if r.Outcome != catalogue.OK {
					t.Fatalf("%s: %s: %s", r.Outcome, r.Reason, r.Evidence)
				}
				checkTorch(t, r, tt.padded, tt.ranks)
			})
		}
	})
}

// checkTorch checks the result of 13 tokens.
func checkTorch(t *testing.T, r *result.Result, padded int64, ranks int) {
	t.Helper()
	s := r.Sizes
	if s.PaddedTokens == nil || *s.PaddedTokens != padded || s.Tokens == nil || *s.Tokens != 13 || s.MSA == nil || *s.MSA != 8 {
		t.Errorf("sizes %+v, want 13 tokens padded to %d", s, padded)
	}
	for _, name := range []string{catalogue.StepSeconds, catalogue.FirstStepSeconds, catalogue.PrepareSeconds, catalogue.PeakAllocatedBytes, catalogue.WarmAllocatedBytes} {
		if v := r.Metrics[name]; v == nil || *v < 0 {
			t.Errorf("%s = %v", name, v)
		}
	}
	for _, name := range []string{catalogue.PeakReservedBytes, catalogue.PeakDeviceBytes, catalogue.DeviceStepSeconds} {
		if v := r.Metrics[name]; v != nil { // a CPU has none
			t.Errorf("%s = %v, want null", name, *v)
		}
	}
	var exchange float64
	for _, f := range r.Extra {
		if f.Name == "exchange_seconds" && f.Unit == "seconds" {
			exchange = f.Value
		}
	}
	if (exchange > 0) != (ranks > 1) || exchange > 2**r.Metrics[catalogue.StepSeconds] {
		t.Errorf("%d ranks exchanged for %v of %v s", ranks, exchange, *r.Metrics[catalogue.StepSeconds])
	}
	for name, want := range map[string]string{
		"device": "cpu", "setting allocator": "malloc", "setting threads": "1", "setting OMP_NUM_THREADS": "1",
		"setting model": "pairformer channels=8 heads=2 blocks=1", "setting memory_source": "resident set",
	} {
		if r.Provenance[name] != want {
			t.Errorf("provenance %s = %q, want %q", name, r.Provenance[name], want)
		}
	}
	if r.Provenance["torch"] == "" || r.Provenance["python"] == "" || !strings.HasPrefix(r.Provenance["setting hooks"], "pairformer_hooks.py ") {
		t.Errorf("provenance %v", r.Provenance)
	}
}

// A search meets a real failure of the allocator, and goes on in new processes.
func TestTorchSearch(t *testing.T) {
	onEach(t, func(t *testing.T, python string) {
		command := torchCommand(python, "pairformer_hooks", "device=cpu", "memory=48MiB")
		text := torchSpec(t, abs(t, "configs/pairformer"), 1, command,
			"max_fit: {axis: tokens, from: 32, to: 1024, step: 16, tolerance: 10%, confirm: 1}")
		st := newStage(t, text)
		r, _, _ := st.perform(t.Context(), 0)
		f := r.MaxFit
		if r.Outcome != catalogue.OK || f == nil || f.Fits == nil || f.OOM == nil {
			t.Fatalf("%s: %s: %s: %+v", r.Outcome, r.Reason, r.Evidence, f)
		}
		if *f.Fits < 64 || *f.OOM > 256 || f.Capacity == nil || *f.Capacity != 48<<20 || f.PeakBytes == nil || *f.PeakBytes > 48<<20 {
			t.Errorf("fits %d, does not %d, peak %v, capacity %v", *f.Fits, *f.OOM, f.PeakBytes, f.Capacity)
		}
		if !strings.Contains(r.Evidence, "allocate memory") {
			t.Errorf("evidence %q", r.Evidence)
		}
		t.Logf("fits %d, does not %d, %d trials", *f.Fits, *f.OOM, len(f.Trials))
	})
}

// The sweeps beside the pairformer can be planned.
func TestTorchSweeps(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sweep.yaml", "sweep-gpu.yaml"} {
		file := abs(t, filepath.Join("configs/pairformer", name))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := plan.Load(file, text)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := plan.New(s, plan.Options{Source: file, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Arrays) == 0 {
			t.Errorf("%s plans nothing", name)
		}
		for _, f := range s.Workload.Files {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), f)); err != nil {
				t.Error(err)
			}
		}
	}
}

// soon is how long after its cause a failure may be known: the grace for a better explanation and the end of all
// processes, on a busy machine.
const soon = failGrace + 4*time.Second
