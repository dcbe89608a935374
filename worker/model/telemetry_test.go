package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
)

// onGPUs puts a stand-in for nvidia-smi with two GPUs first on PATH, with the given change to its text.
func onGPUs(t *testing.T, old, now string) {
	t.Helper()
	text, err := os.ReadFile("../gpu/source/testdata/nvidia-smi")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), old, now, 1)
	if changed == string(text) {
		t.Fatalf("%q is not in the stand-in", old)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(changed), 0o700); err != nil { //nolint:gosec // to be run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

const foreign = `echo 'GPU-aaaa, 4242, 1024, /opt/a b/python3, x'`

// An out-of-memory says nothing about its size if somebody else turns out to compute on the GPU.
func TestSpoiltByAnother(t *testing.T) {
	gpus := "resources: {gpus_per_node: 2}\n"
	for name, text := range map[string]string{
		"point":  play(1, "oom-spoilt", "0"),
		"search": play(1, "oom-spoilt-above:30", "0", seek(", to: 640")),
	} {
		t.Run(name, func(t *testing.T) {
			onGPUs(t, foreign, `if [ -e "$SPOILT" ]; then `+foreign+`; fi`)
			t.Setenv("SPOILT", filepath.Join(t.TempDir(), "it's spoilt"))
			r, _, _ := newStage(t, text+gpus).perform(t.Context(), 0)
			if r.Outcome != catalogue.DirtyGPU || !strings.HasPrefix(r.Reason, "it ran out of memory, but GPU-aaaa: process 4242 ") || r.MaxFit != nil && r.MaxFit.OOM != nil {
				t.Errorf("%s (%s) %s, %+v", r.Outcome, r.Reason, r.Evidence, r.MaxFit)
			}
		})
	}
	t.Run("not spoilt", func(t *testing.T) {
		onGPUs(t, foreign, ":")
		if r, _, _ := newStage(t, play(1, "oom", "0")+gpus).perform(t.Context(), 0); r.Outcome != catalogue.OOMDevice {
			t.Errorf("%s (%s) %s", r.Outcome, r.Reason, r.Evidence)
		}
	})
}

func TestTelemetry(t *testing.T) {
	gpus := "resources: {gpus_per_node: 2}\n"
	t.Run("clean", func(t *testing.T) {
		onGPUs(t, foreign, ":")
		r, _, _ := newStage(t, refer(2, "")+gpus).perform(t.Context(), 0)
		if r.Outcome != catalogue.OK || r.Provenance["gpu"] != "Fake H200" || r.Provenance["telemetry"] != "nvidia-smi" || r.Provenance["gpu_count"] != "2" {
			t.Errorf("%s (%s) %v", r.Outcome, r.Reason, r.Provenance)
		}
		told := false
		for _, w := range r.Warnings {
			told = told || w.Code == catalogue.NoTelemetry
		}
		if !told {
			t.Errorf("nobody says that the helper is missing: %v", r.Warnings)
		}
		for _, name := range []string{catalogue.EnergyJoules, catalogue.ThrottledFraction} { // nvidia-smi has no such counters
			if v, ok := r.Metrics[name]; !ok || v != nil {
				t.Errorf("%s is not null", name)
			}
		}
	})
	t.Run("foreign process", func(t *testing.T) {
		onGPUs(t, "Fake H200", "Fake H100")
		r, _, _ := newStage(t, refer(2, "")+gpus).perform(t.Context(), 0)
		if r.Outcome != catalogue.DirtyGPU || !strings.Contains(r.Evidence, "4242") {
			t.Errorf("%s (%s) %s", r.Outcome, r.Reason, r.Evidence)
		}
	})
	t.Run("too few", func(t *testing.T) {
		onGPUs(t, foreign, ":")
		r, _, _ := newStage(t, refer(3, "")+gpus).perform(t.Context(), 0)
		if r.Outcome != catalogue.Infra || !strings.Contains(r.Reason, "2") {
			t.Errorf("%s (%s) %s", r.Outcome, r.Reason, r.Evidence)
		}
	})
	t.Run("none", func(t *testing.T) {
		onGPUs(t, "fail) echo", "*) exit 9 ;; fail) echo")
		r, _, _ := newStage(t, refer(2, "")+gpus).perform(t.Context(), 0)
		if r.Outcome != catalogue.OK || r.Provenance["telemetry"] != "none" {
			t.Errorf("%s (%s) %v", r.Outcome, r.Reason, r.Provenance)
		}
	})
}
