package plan_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-multierror"
)

// small is the least spec that loads.
const small = `version: 1
name: small
matrix: {cp: [1, 4]}
workload: {kind: model, mode: inference, command: [./model], ranks: cp}
`

func load(t testing.TB, text string) *plan.Spec {
	t.Helper()
	s, err := plan.Load("sweep.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLoadFull(t *testing.T) {
	t.Parallel()
	s := load(t, fullSpec)
	want := plan.AxisMap{{Name: "cp", Values: []string{"1", "4", "16"}}, {Name: "tokens", Values: []string{"1024", "2048", "4096"}}}
	if diff := cmp.Diff(want, s.Matrix); diff != "" {
		t.Error(diff)
	}
	if s.Workload.MaxFit.Tolerance != 0.01 || s.Slurm.Parallel != 4 || s.Resources.Mem != "0" || !s.Resources.Exclusive {
		t.Errorf("wrong values: %+v", s)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s := load(t, small)
	if s.Repeats != 1 || s.Order != "blocks" || s.Workload.Iterations != 10 || s.Workload.Warmup != 3 || s.Resources.Nodes != "1" ||
		s.Workload.Launcher != "fork" || s.Slurm.SignalBefore != plan.Duration(time.Minute) {
		t.Errorf("wrong defaults: %+v", s)
	}
}

// TestLoadRefuses loads each file of testdata/bad, whose comments `# want: TEXT` say what has to be told, and
// nothing else may be.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.SplitSeq(string(text), "\n") {
				if _, w, ok := strings.Cut(line, "# want: "); ok {
					want = append(want, w)
				}
			}
			diffProblems(t, problemsOf(t, string(text)), want)
		})
	}
}

func diffProblems(t *testing.T, got []string, want []string) {
	t.Helper()
	for _, w := range want {
		found := false
		for i, g := range got {
			if strings.Contains(g, w) {
				got = append(got[:i:i], got[i+1:]...)
				found = true
				break
			}
		}
		if !found {
			t.Errorf("not told: %s", w)
		}
	}
	for _, g := range got {
		t.Errorf("told but not wanted: %s", g)
	}
}

// problemsOf loads and plans a spec and returns what is told, each with its hint.
func problemsOf(t *testing.T, text string) []string {
	t.Helper()
	s, err := plan.Load("sweep.yaml", []byte(text))
	if err == nil {
		_, _, err = plan.New(s, plan.Options{Source: "/spec dir/sweep.yaml"})
	}
	if err == nil {
		return nil
	}
	var many *multierror.Error
	if !errors.As(err, &many) {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range many.Errors {
		var p *plan.Problem
		if !errors.As(e, &p) {
			t.Fatalf("%T is no problem: %v", e, e)
		}
		out = append(out, p.Error()+" | "+p.Hint)
	}
	return out
}

func TestControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"setup":     `setup: ["module load x\nrm -rf y"]`,
		"partition": `slurm: {partition: "a\tb\u0007"}`,
		"env":       `env: {A: "x\u0000"}`,
		"extra":     `slurm: {extra: ["--comment-file=a\nb"]}`,
		"axis":      `include: [{cp: "1\n#SBATCH"}]`,
	} {
		got := problemsOf(t, small+line+"\n")
		if len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), "control character") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"90s": "1m30s", "20m": "20m0s", "1h30m": "1h30m0s", "2d": "48h0m0s", "01:30:00": "1h30m0s", "1-00:00:30": "24h0m30s",
		"": "error", "5": "error", "-5m": "error", "0s": "error", "10:30": "error", "400d": "error", "1:x:3": "error",
	} {
		d, err := plan.ParseDuration(text)
		got := d.String()
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %s (%v), want %s", text, got, err, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(fullSpec)
	f.Add(small)
	f.Add(byURL)
	f.Add(byCommand)
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("the corpus is empty")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := plan.Load("f.yaml", []byte(text))
		if err != nil {
			var many *multierror.Error
			if !errors.As(err, &many) || len(many.Errors) == 0 {
				t.Fatalf("no list of problems: %v", err)
			}
			return
		}
		// The oracle: a spec that loads plans the same twice, and its points have different ids.
		a, _, errA := plan.New(s, plan.Options{Source: "/f.yaml"})
		b, _, errB := plan.New(s, plan.Options{Source: "/f.yaml"})
		if (errA == nil) != (errB == nil) {
			t.Fatalf("%v, then %v", errA, errB)
		}
		if errA != nil {
			return
		}
		if a.Digest != b.Digest || a.Key != b.Key {
			t.Fatal("the digests differ")
		}
		seen := map[string]bool{}
		for _, arr := range a.Arrays {
			for _, task := range arr.Tasks {
				for _, p := range task.Pairs {
					key := p.ID + string(rune(p.Repeat))
					if seen[key] {
						t.Fatalf("%s is planned twice", p.ID)
					}
					seen[key] = true
				}
			}
		}
	})
}
