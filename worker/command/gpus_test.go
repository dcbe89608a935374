package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
)

// onGPUs puts a stand-in for nvidia-smi with two GPUs first on PATH. The memory in use on each, in MiB, stands in the
// file whose path it returns; foreign adds a process of somebody else, who otherwise comes with the file $USED.spoilt.
func onGPUs(t *testing.T, foreign bool) (used string) {
	t.Helper()
	text, err := os.ReadFile("../gpu/source/testdata/nvidia-smi")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	used = filepath.Join(dir, "used")
	changes := []string{`printf 1024 ;;`, `cat "$USED" ;;`}
	if !foreign {
		const process = `echo 'GPU-aaaa, 4242, 1024, /opt/a b/python3, x'`
		changes = append(changes, process, `if [ -e "$USED.spoilt" ]; then `+process+`; fi`)
	}
	changed := string(text)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(changed, changes[i]) {
			t.Fatalf("%q is not in the stand-in", changes[i])
		}
		changed = strings.Replace(changed, changes[i], changes[i+1], 1)
	}
	for path, text := range map[string]string{filepath.Join(dir, "nvidia-smi"): changed, used: "1024"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // one is to be run
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("USED", used)
	return used
}

// greedily is a sweep of one size whose program takes as many MiB of each GPU as its size says, keeps them until that
// was read, and runs out of memory above a limit.
func greedily(t *testing.T, size, limit int, with ...string) *stage {
	t.Helper()
	text := spec(fmt.Sprintf("greedy, '{tokens}', '%d'", limit), append(with, "timeout: 60s")...)
	text = strings.Replace(text, "tokens: [16]", fmt.Sprintf("tokens: [%d]", size), 1)
	st := newStage(t, text+"resources: {gpus_per_node: 2}\n")
	t.Setenv("TELEMETRY", filepath.Join(st.job.LogDir, "telemetry.jsonl"))
	return st
}

func TestDevicePeak(t *testing.T) {
	onGPUs(t, false)
	st := greedily(t, 3072, 9999, "warmup: 1")
	r, _, _ := st.perform(t.Context(), 0)
	if r.Outcome != catalogue.OK || r.Provenance["gpu"] != "Fake H200" || r.Provenance["telemetry"] != "nvidia-smi" {
		t.Errorf("%s (%s) %v", r.Outcome, r.Reason, r.Provenance)
	}
	if peak := r.Metrics[catalogue.PeakDeviceBytes]; peak == nil || *peak != 2<<30 {
		t.Errorf("peak %v, want what was used beyond the 1 GiB of before", value(peak))
	}
	if v, ok := r.Metrics[catalogue.EnergyJoules]; !ok || v != nil { // nvidia-smi has no such counter
		t.Errorf("energy %v", value(v))
	}
}

func TestDevicePeakOfASearch(t *testing.T) {
	onGPUs(t, false)
	st := greedily(t, 2048, 4096, "max_fit: {axis: tokens, from: 2048, to: 8192, step: 2048, confirm: 0, time: 2m}")
	r, _, _ := st.perform(t.Context(), 0)
	if r.Outcome != catalogue.OK || r.MaxFit == nil || r.MaxFit.Fits == nil || *r.MaxFit.Fits != 4096 {
		t.Fatalf("%s (%s) %+v", r.Outcome, r.Reason, r.MaxFit)
	}
	if p := r.MaxFit.PeakBytes; p == nil || *p != 3<<30 {
		t.Errorf("peak at the answer: %v", value(p))
	}
	if p := r.Metrics[catalogue.PeakDeviceBytes]; p == nil || *p != 3<<30 || r.Metrics[catalogue.PeakAllocatedBytes] != nil || !warned(r, catalogue.DevicePeak) {
		t.Errorf("device %v, allocated %v, %v", value(p), value(r.Metrics[catalogue.PeakAllocatedBytes]), r.Warnings)
	}
}

// A program that tells its peaks is searched by them, up to what the GPUs have free.
func TestPredictedSearch(t *testing.T) {
	onGPUs(t, false)
	const mib, free = 1 << 20, 143771 - 1024
	text := spec("tell, '{tokens}', '140000'", "timeout: 60s", `metrics: [{name: peak_allocated_bytes, regex: "peak ([0-9]+) MiB", unit: MiB}]`,
		"max_fit: {axis: tokens, from: 16384, to: 524288, step: 1024, confirm: 0, verify: 0}")
	st := newStage(t, strings.Replace(text, "tokens: [16]", "tokens: [16384]", 1)+"resources: {gpus_per_node: 2}\n")
	r, _, _ := st.perform(t.Context(), 0)
	m := r.MaxFit
	if r.Outcome != catalogue.OK || m == nil || m.Fits == nil || *m.Fits > 140000 || m.OOM == nil || *m.OOM <= 140000 {
		t.Fatalf("%s (%s) %+v", r.Outcome, r.Reason, m)
	}
	if m.Capacity == nil || *m.Capacity != free*mib {
		t.Errorf("capacity %v, want the %d MiB that were free", value(m.Capacity), free)
	}
	var sizes []int64
	for _, trial := range m.Trials {
		sizes = append(sizes, trial.N)
	}
	if want := int64(free / 1024 * 1024); !slices.Contains(sizes, want) {
		t.Errorf("sizes %v without the predicted %d", sizes, want)
	}
}

func TestPreflight(t *testing.T) {
	onGPUs(t, true)
	_, r, _ := only(t, spec("good")+"resources: {gpus_per_node: 2}\n")
	if r.Outcome != catalogue.DirtyGPU || !strings.Contains(r.Evidence, "4242") || len(r.Metrics) > 0 && r.Metrics[catalogue.StepSeconds] != nil {
		t.Errorf("%s (%s) %s", r.Outcome, r.Reason, r.Evidence)
	}
}

// An out-of-memory says nothing about its size if somebody else turns out to compute on the GPU.
func TestSpoiltByAnother(t *testing.T) {
	onGPUs(t, false)
	_, r, _ := only(t, spec("oom-spoilt")+"resources: {gpus_per_node: 2}\n")
	if r.Outcome != catalogue.DirtyGPU || !strings.HasPrefix(r.Reason, "it ran out of memory, but GPU-aaaa: process 4242 ") {
		t.Errorf("%s (%s) %s", r.Outcome, r.Reason, r.Evidence)
	}
}

// Without GPUs in the request nothing is looked at, whatever the machine has.
func TestNoGPUs(t *testing.T) {
	onGPUs(t, true)
	_, r, _ := only(t, spec("good"))
	if _, ok := r.Provenance["telemetry"]; ok || r.Outcome != catalogue.OK {
		t.Errorf("%s (%s) %v", r.Outcome, r.Reason, r.Provenance)
	}
}

func value(v *float64) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(*v)
}
