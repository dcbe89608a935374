package result

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan/catalogue"

	"github.com/google/go-cmp/cmp"
)

func TestWriteRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `it's a "results" folder`)
	r := full()
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ab", "ab12cd34-r1-a2.1.json")
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if err := WriteSamples(dir, r, []Sample{{Iteration: 1, Seconds: []float64{1, 2}}, {Iteration: 2, Seconds: []float64{3}}}); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "ab", "ab12cd34-r1-a2.1.samples.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := "{\"iteration\":1,\"seconds\":[1,2]}\n{\"iteration\":2,\"seconds\":[3]}\n"
	if diff := cmp.Diff(want, string(lines)); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	files, err := os.ReadDir(filepath.Join(dir, "ab"))
	if err != nil || len(files) != 2 {
		t.Errorf("files = %v, %v; want the result and its samples alone", files, err)
	}
	if err := WriteSamples(dir, r, []Sample{{Seconds: []float64{math.NaN()}}}); err == nil {
		t.Error("a sample that is NaN was written")
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		edit func(*Result)
		want string
	}{
		{"schema", func(r *Result) { r.Schema = 0 }, "schema is 0"},
		{"plan", func(r *Result) { r.Plan = "" }, "plan digest"},
		{"outcome", func(r *Result) { r.Outcome = "fine" }, `outcome "fine"`},
		{"verdict of collect", func(r *Result) { r.Outcome = catalogue.Missing }, `outcome "missing"`},
		{"point upwards", func(r *Result) { r.Point = "../../x" }, "point id"},
		{"point absolute", func(r *Result) { r.Point = "/etc/x" }, "point id"},
		{"point dots", func(r *Result) { r.Point = ".." }, "point id"},
		{"point short", func(r *Result) { r.Point = "a" }, "point id"},
		{"repeat", func(r *Result) { r.Repeat = 0 }, "repeat 0"},
		{"attempt", func(r *Result) { r.Attempt = 0 }, "attempt 0"},
		{"nan metric", func(r *Result) { r.Set(catalogue.StepSeconds, math.NaN()) }, "metric step_seconds is NaN"},
		{"inf metric", func(r *Result) { r.Set(catalogue.StepSeconds, math.Inf(1)) }, "metric step_seconds is +Inf"},
		{"nan step", func(r *Result) { r.Steps.Seconds[0] = math.NaN() }, "iteration"},
		{"nan mean", func(r *Result) { r.Steps.Mean = math.NaN() }, "summary"},
		{"nan sd", func(r *Result) { r.Steps.SD = ptr(math.NaN()) }, "deviation"},
		{"nan figure", func(r *Result) { r.Extra[0].Value = math.NaN() }, "figure comm_share"},
		{"inf capacity", func(r *Result) { r.MaxFit.Capacity = ptr(math.Inf(-1)) }, "memory of the search"},
		{"nan trial", func(r *Result) { r.MaxFit.Trials[0].Seconds = math.NaN() }, "trial 368"},
		{"nan trial peak", func(r *Result) { r.MaxFit.Trials[0].Peak = ptr(math.NaN()) }, "trial 368"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			r := full()
			tt.edit(r)
			err := Write(filepath.Join(root, "results"), r)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
			if left, _ := os.ReadDir(root); len(left) != 0 {
				t.Errorf("a refused result left %v", left)
			}
		})
	}
}

func TestWriteKeepsGood(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, late := full(), full()
	late.Outcome, late.Reason = catalogue.Cancelled, "TERM"
	if err := Write(dir, late); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, good); err != nil {
		t.Fatalf("a good result did not replace a cancelled one: %v", err)
	}
	if err := Write(dir, late); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error = %v, want one that is fs.ErrExist", err)
	}
	path, err := good.Path(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Read(path); err != nil || r.Outcome != catalogue.OK {
		t.Errorf("outcome after the late writer = %v, %v", r, err)
	}
}

func TestWriteCuts(t *testing.T) {
	t.Parallel()
	log := strings.Repeat("a line of a long log\t\"<quoted>\" é\n", 2000) + "RuntimeError: the last words"
	tests := []struct {
		name string
		edit func(*Result)
		want func(*Result) bool // besides size and warning
	}{
		{"evidence", func(r *Result) { r.Evidence = log }, func(r *Result) bool {
			return strings.HasPrefix(r.Evidence, "…") && len(r.Evidence) > 1000
		}},
		{"binary evidence", func(r *Result) { r.Evidence = strings.Repeat("\x00\xff", 5000) + "RuntimeError: the last words" }, nil},
		{"reason", func(r *Result) { r.Reason, r.Evidence = log, log }, func(r *Result) bool { return strings.HasPrefix(r.Reason, "a line") }},
		{"steps", func(r *Result) {
			r.Evidence = log
			for range MaxSeconds {
				r.Steps.Seconds = append(r.Steps.Seconds, 0.12345678901234567)
			}
		}, func(r *Result) bool { return len(r.Steps.Seconds) >= 6 }},
		{"trials", func(r *Result) {
			r.Evidence = log
			for range 60 {
				r.MaxFit.Trials = append(r.MaxFit.Trials, Trial{N: 123456, Outcome: catalogue.OOMDevice, Peak: ptr(1.23456789e11), Seconds: 1.23456789})
			}
		}, func(r *Result) bool { return len(r.MaxFit.Trials) >= 3 }},
		{"everything", func(r *Result) {
			r.Evidence, r.Reason = log, log
			for i := range 40 {
				r.Warn(catalogue.FewCPUs, strings.Repeat("w", 100+i), log)
				r.Extra = append(r.Extra, Figure{strings.Repeat("f", 60), 1.5, "s"})
				r.Provenance[strings.Repeat("p", 10+i)] = log
			}
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := full()
			tt.edit(r)
			if err := Write(dir, r); err != nil {
				t.Fatal(err)
			}
			path, err := r.Path(dir)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > MaxBytes {
				t.Errorf("size = %d, want at most %d", info.Size(), MaxBytes)
			}
			got, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(got.Evidence, "the last words") {
				t.Errorf("evidence ends in %q", got.Evidence[max(0, len(got.Evidence)-40):])
			}
			if !hasCode(got, catalogue.CutShort) {
				t.Errorf("no warning cut_short in %v", got.Warnings)
			}
			if got.Metrics[catalogue.StepSeconds] == nil || got.Outcome != catalogue.OK {
				t.Error("outcome or metric was cut")
			}
			if tt.want != nil && !tt.want(got) {
				t.Errorf("cut too much or at the wrong end: %+v", got)
			}
		})
	}
	t.Run("identity is never cut", func(t *testing.T) {
		t.Parallel()
		r := full()
		for range 100 {
			r.Params = append(r.Params, Param{strings.Repeat("n", 50), strings.Repeat("v", 50)})
		}
		dir := t.TempDir()
		if err := Write(dir, r); err != nil {
			t.Fatal(err)
		}
		path, err := r.Path(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil || len(got.Params) != 102 || got.Sizes.Ranks != 4 {
			t.Errorf("read %+v, %v", got, err)
		}
	})
	t.Run("nothing to cut", func(t *testing.T) {
		t.Parallel()
		r := full()
		if err := Write(t.TempDir(), r); err != nil {
			t.Fatal(err)
		}
		if hasCode(r, catalogue.CutShort) {
			t.Errorf("a short result was cut: %v", r.Warnings)
		}
	})
}

func hasCode(r *Result, code catalogue.Code) bool {
	for _, w := range r.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}
