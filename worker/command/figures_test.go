package command

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

func TestFigures(t *testing.T) {
	st := newStage(t, spec("good", "warmup: 1", "iterations: 6", `metrics:
    - {name: sampling, regex: "sampling took ([0-9.]+) s", unit: s}
    - {name: confidence, json: "out/confidence.json:plddt.mean"}
    - {name: first_run, json: "out/conf*.json:runs.0.ms", unit: ms}
    - {name: device_step_seconds, json: "out/confidence.json:runs.0.ms", unit: ms}
    - {name: nowhere, regex: "no such line ([0-9])"}
    - {name: no_number, regex: "(sampling)"}
    - {name: not_there, json: "out/confidence.json:plddt.median"}`))
	r, samples, _ := st.perform(t.Context(), 0)
	if r.Outcome != catalogue.OK || len(samples) != 6 || r.Steps.N != 6 || r.Steps.Warmup != 1 || samples[5].Iteration != 6 {
		t.Fatalf("%s, %d samples, %+v", r.Outcome, len(samples), r.Steps)
	}
	want := []result.Figure{{Name: "sampling", Value: 1.25, Unit: "s"}, {Name: "confidence", Value: 0.75}, {Name: "first_run", Value: 12, Unit: "ms"}}
	if diff := cmp.Diff(want, r.Extra); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	if v := r.Metrics[catalogue.DeviceStepSeconds]; v == nil || *v != 0.012 {
		t.Errorf("device_step_seconds = %v", v)
	}
	if v := r.Metrics[catalogue.StepSeconds]; v == nil || *v <= 0 || *v != r.Steps.Median || r.Metrics[catalogue.FirstStepSeconds] == nil {
		t.Errorf("metrics %v", r.Metrics)
	}
	var missing []string
	for _, w := range r.Warnings {
		if w.Code == catalogue.FigureMissing {
			missing = append(missing, w.Text)
		}
	}
	if want := []string{"nowhere was found in 0 of 6 runs", "no_number was found in 0 of 6 runs", "not_there was found in 0 of 6 runs"}; !slices.Equal(missing, want) {
		t.Errorf("warnings %q", missing)
	}
	for _, why := range []string{"no line of the output matches", `\"sampling\" is not a number`, "has no number at plddt.median"} {
		if !strings.Contains(st.log.String(), why) {
			t.Errorf("the events do not say %q", why)
		}
	}
	if left, err := os.ReadDir(filepath.Join(st.job.LogDir, "work")); err != nil || len(left) != 1 || !strings.HasSuffix(left[0].Name(), "-r1-run-6") {
		t.Errorf("folders %v, %v", left, err)
	}
}

// A figure called step_seconds is the time of a step; that of the whole program is then a figure beside it.
func TestStepOfTheProgram(t *testing.T) {
	st := newStage(t, spec("good", "iterations: 2", `metrics: [{name: step_seconds, regex: "sampling took ([0-9.]+)", unit: s}]`))
	r, samples, _ := st.perform(t.Context(), 0)
	if v := r.Metrics[catalogue.StepSeconds]; v == nil || *v != 1.25 || r.Steps.Median != 1.25 || len(samples) != 2 || samples[0].Seconds[0] != 1.25 {
		t.Errorf("step_seconds = %v, %+v, %v", v, r.Steps, samples)
	}
	if v := r.Metrics[catalogue.FirstStepSeconds]; v == nil || *v != 1.25 {
		t.Errorf("first_step_seconds = %v", v)
	}
	if len(r.Extra) != 1 || r.Extra[0].Name != wallSeconds || r.Extra[0].Value <= 0 {
		t.Errorf("figures %v", r.Extra)
	}
	// Where it is missing there is no time at all: the other one is something else.
	_, r, _ = only(t, spec("good", `metrics: [{name: step_seconds, regex: "step took ([0-9.]+)", unit: s}]`))
	if r.Outcome != catalogue.OK || r.Metrics[catalogue.StepSeconds] != nil || r.Steps != nil || !warned(r, catalogue.FigureMissing) {
		t.Errorf("%s, %v, %+v, %v", r.Outcome, r.Metrics, r.Steps, r.Warnings)
	}
}

// In a folder that runs share, what an earlier run has left counts for nothing.
func TestSharedFolder(t *testing.T) {
	st := newStage(t, spec("quiet", "workdir: .", "metrics: [{name: confidence, json: 'out/confidence.json:plddt.mean'}]"))
	old := filepath.Join(st.dir, "out/a")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a/model.cif": "data", "confidence.json": `{"plddt": {"mean": 0.1}}`} {
		if err := os.WriteFile(filepath.Join(st.dir, "out", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, _, _ := st.perform(t.Context(), 0)
	if want := "the program ended with exit code 0, but out/a/model.cif was there before the run and has not changed"; r.Outcome != catalogue.NoArtifact || r.Reason != want {
		t.Errorf("%s: %q", r.Outcome, r.Reason)
	}
	if _, err := os.Stat(filepath.Join(old, "model.cif")); err != nil {
		t.Errorf("a file of the user's is gone: %v", err)
	}
	// The artifact is written anew, the JSON file is not.
	st = newStage(t, spec("stale-json", "workdir: .", "iterations: 2", "metrics: [{name: confidence, json: 'out/confidence.json:plddt.mean'}]"))
	if err := os.Mkdir(filepath.Join(st.dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(st.dir, "out/confidence.json"), []byte(`{"plddt": {"mean": 0.1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, _, _ = st.perform(t.Context(), 0)
	if r.Outcome != catalogue.OK || len(r.Extra) != 0 || !warned(r, catalogue.FigureMissing) {
		t.Errorf("%s: %q, figures %v", r.Outcome, r.Reason, r.Extra)
	}
	if _, err := os.Stat(filepath.Join(st.dir, "out/a/model.cif")); err != nil {
		t.Errorf("the program did not run in workdir: %v", err)
	}
}

// Where a program runs and what it finds in its environment.
func TestPlaceAndEnvironment(t *testing.T) {
	t.Setenv("SLURM_PROCID", "0")
	t.Setenv("SLURM_NTASKS", "1")
	t.Setenv("SLURM_JOB_ID", "77")
	t.Setenv("PYTHONPATH", "/mine")
	st, r, _ := only(t, spec("env", "artifact: out/*/model.cif", "env: {SIZE: \"{tokens}\"}"))
	out := st.logs()["r1-run-1"]
	for _, want := range []string{"SIZE=16\n", "SLURM_JOB_ID=77\n", "PYTHONPATH=" + st.run.Lib() + ":/mine\n"} {
		if !strings.Contains("\n"+out, "\n"+want) {
			t.Errorf("%q is not in the environment", want)
		}
	}
	if strings.Contains(out, "SLURM_PROCID") || strings.Contains(out, "SLURM_NTASKS") || r.Outcome != catalogue.OK {
		t.Errorf("%s, %s", r.Outcome, out)
	}
	st, _, _ = only(t, spec("pwd"))
	if got, want := strings.TrimSpace(st.logs()["r1-run-1"]), filepath.Join(st.job.LogDir, "work", st.task.Pairs[0].ID+"-r1-run-1"); got != want {
		t.Errorf("ran in %s, want %s", got, want)
	}
}

// Special characters of patterns are plain ones in names, but for the star.
func TestMatch(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `a*b [x] \?`)
	other := filepath.Join(filepath.Dir(dir), "axxb [x] ??")
	for _, path := range []string{filepath.Join(dir, "out [1]", "m?.cif"), filepath.Join(dir, "out 1", "mx.cif"), filepath.Join(other, "out [1]", "m?.cif")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string][]string{
		"out [1]/m?.cif": {filepath.Join(dir, "out [1]", "m?.cif")},
		"out*/m*.cif":    {filepath.Join(dir, "out 1", "mx.cif"), filepath.Join(dir, "out [1]", "m?.cif")},
		"out?1/mx.cif":   nil,
		"":               nil,
	} {
		if diff := cmp.Diff(want, match(dir, pattern)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", pattern, diff)
		}
	}
	absolute := filepath.Join(dir, "out 1", "mx.cif")
	if diff := cmp.Diff([]string{absolute}, match(other, absolute)); diff != "" {
		t.Errorf("an absolute pattern (-want +got):\n%s", diff)
	}
}

func TestReadFigure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good.json", `{"a": {"b.c": [1, {"d": 2.5e-3}]}, "text": "7", "yes": true, "big": 12345678901234567890}`)
	write("bad.json", `{"a": `)
	for path, want := range map[string]string{
		`good.json:a.b\.c.1.d`: "2.5e-3", "good.json:a.b\\.c.#": "2", "good.json:text": "7", "good.json:big": "12345678901234567890",
		"good.json:yes": "", "good.json:a": "", "good.json:none": "", "bad.json:a": "", "none.json:a": "",
	} {
		f, err := compileFigure(plan.Figure{Name: "x", JSON: path})
		if err != nil {
			t.Fatal(err)
		}
		got, why := f.inFile(&run{dir: dir})
		if got != want || (why == "") != (want != "") {
			t.Errorf("%s: %q, %q", path, got, why)
		}
	}
	f, err := compileFigure(plan.Figure{Name: "x", Regex: `time: (\S+)`})
	if err != nil {
		t.Fatal(err)
	}
	if got, why := f.inLines([]string{"time: 1", "time: 2 or 3", "no more"}); got != "2" || why != "" {
		t.Errorf("%q, %q", got, why)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, unit string
		scale      float64 // 0: refused
	}{
		{catalogue.StepSeconds, "", 1},
		{catalogue.StepSeconds, "ms", 1e-3},
		{catalogue.StepSeconds, "seconds", 1},
		{catalogue.PeakAllocatedBytes, "GiB", 1 << 30},
		{catalogue.PeakAllocatedBytes, "GB", 1e9},
		{catalogue.PeakAllocatedBytes, "s", 0},
		{catalogue.RankImbalance, "1", 1},
		{catalogue.RankImbalance, "%", 0},
		{"own", "furlong", 1},
	} {
		f, err := compileFigure(plan.Figure{Name: tt.name, Unit: tt.unit, Regex: "(x)"})
		if (err != nil) != (tt.scale == 0) || err == nil && f.scale != tt.scale {
			t.Errorf("%s in %q: %v, %v", tt.name, tt.unit, f.scale, err)
		}
	}
}

// What is found in some of the runs only.
func TestIncompleteFigures(t *testing.T) {
	t.Parallel()
	m := measurement{figures: []figure{{name: "a"}}}
	m.add(2, []float64{math.NaN()}, false)
	for _, v := range []float64{3, math.NaN(), 5} {
		m.add(1, []float64{v}, true)
	}
	r := &result.Result{}
	m.into(r, 1)
	if len(r.Extra) != 1 || r.Extra[0].Value != 4 || !warned(r, catalogue.FigureMissing) || *r.Metrics[catalogue.FirstStepSeconds] != 2 {
		t.Errorf("%+v", r)
	}
	m = measurement{figures: []figure{{name: catalogue.StepSeconds, metric: true}}}
	m.add(9, []float64{math.NaN()}, true)
	m.add(9, []float64{3}, true)
	r = &result.Result{}
	m.into(r, 0)
	if r.Steps != nil || r.Metrics[catalogue.StepSeconds] != nil || len(m.samples()) > 0 || r.Metrics[catalogue.FirstStepSeconds] != nil {
		t.Errorf("%+v, %v", r.Steps, r.Metrics)
	}
}
