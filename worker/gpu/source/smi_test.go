package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/worker/gpu"
	"cpbench/worker/gpu/source"

	"github.com/google/go-cmp/cmp"
)

func TestNvidiaSMI(t *testing.T) {
	t.Parallel()
	s := with(t, source.Options{SMI: fakeSMI})
	if s.source != gpu.SMI {
		t.Fatal(s.source, s.reason)
	}
	const noSMI = "nvidia-smi does not tell it"
	devices, err := s.Identify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Device{
		Index: 1, UUID: "GPU-bbbb", Name: "Fake H200", PCI: "00000000:3b:00.0", MemoryTotal: f(143771 << 20), Driver: "470.82.01",
		VBIOS: "96.00", ECC: "enabled", Persistence: "enabled", ComputeMode: "default", PowerLimit: f(700), PowerLimitDefault: f(700),
		SMClockMax: f(1980e6), MemoryClockMax: f(1980e6), Missing: gpu.Missing{"mig": "N/A", "nvml": noSMI, "cuda_driver": noSMI},
	}
	if d := cmp.Diff(want, devices[1]); d != "" {
		t.Errorf("second device (-want +got):\n%s", d)
	}
	r, err := s.Edge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := gpu.State{
		UUID: "GPU-aaaa", MemoryUsed: f(1 << 30), MemoryFree: f(142747 << 20), SMClock: f(1980e6), MemoryClock: f(1980e6),
		Power: f(120.5), PowerKind: "usage", Temperature: f(40), Reasons: []string{"idle"}, Utilization: f(0.5),
		Missing: gpu.Missing{
			"ecc_corrected": "Not Supported", "ecc_uncorrected": "Not Supported", "energy_joules": noSMI, "memory_reserved_bytes": noSMI,
		},
	}
	for _, reason := range gpu.ThrottleReasons() {
		state.Missing["throttle_seconds."+reason] = noSMI
	}
	if d := cmp.Diff(state, r.GPUs[0]); d != "" || r.Seconds <= 0 {
		t.Errorf("reading of %v s (-want +got):\n%s", r.Seconds, d)
	}
	processes, err := s.Processes(t.Context())
	if d := cmp.Diff([]gpu.Process{{PID: 4242, UUID: "GPU-aaaa", Name: "python3, x", Memory: f(1 << 30)}}, processes); d != "" || err != nil {
		t.Errorf("processes (-want +got):\n%s%v", d, err)
	}
}

func TestNvidiaSMIThatLacksFields(t *testing.T) {
	t.Parallel()
	s := with(t, source.Options{SMI: fakeSMI}, "FAKE_SMI=old")
	r, err := s.Edge(t.Context())
	if err != nil {
		t.Fatal(err, s.reason)
	}
	if g := r.GPUs[0]; g.Utilization != nil || g.Missing["utilization"] != "this nvidia-smi does not know it" || g.Temperature == nil {
		t.Errorf("reading %+v", g)
	}
}

func TestNvidiaSMIThatLosesAGPU(t *testing.T) {
	t.Parallel()
	s := with(t, source.Options{SMI: fakeSMI}, "FAKE_SMI=odd")
	r, err := s.Edge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if g := r.GPUs[0]; g.MemoryUsed != nil || g.Missing["memory_used_bytes"] != "GPU is lost" || len(r.GPUs) != 1 {
		t.Errorf("reading %+v", r)
	}
	devices, err := s.Identify(t.Context())
	if err != nil || len(devices) != 2 || devices[0].UUID != "GPU-aaaa" || devices[1].UUID != "" || devices[1].Missing["uuid"] != "GPU is lost" {
		t.Errorf("devices %+v: %v", devices, err)
	}
}

// TestPath finds nvidia-smi where a user has it, and nothing where there is nothing.
func TestPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a folder")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if _, source, reason := source.Open(t.Context(), source.Options{}); source != gpu.None || !strings.Contains(reason, "not on PATH") {
		t.Errorf("source %s: %s", source, reason)
	}
	script, err := filepath.Abs(fakeSMI)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(script, filepath.Join(dir, "nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	s, source, reason := source.Open(t.Context(), source.Options{})
	defer s.Close()
	if source != gpu.SMI {
		t.Errorf("source %s: %s", source, reason)
	}
}
