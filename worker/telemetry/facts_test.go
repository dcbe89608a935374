package telemetry

import (
	"testing"

	"cpbench/worker/gpu"
)

// What a GPU does not have is known, and what could not be read is not.
func TestFactsOfAGPUThatLacksThings(t *testing.T) {
	t.Parallel()
	missing := gpu.Missing{"ecc": "NOT_SUPPORTED", "mig": "N/A", "power_limit_watts": "Not Supported", "vbios": "NO_PERMISSION"}
	got := facts([]member{{source: gpu.SMI, devices: []gpu.Device{{Name: "A GPU", Persistence: "enabled", Missing: missing}}}})
	for key, want := range map[string]string{
		"ecc": "not supported", "mig": "not supported", "power_limit_watts": "not supported", "vbios": "", "persistence": "enabled", "compute_mode": "", "gpu": "A GPU",
	} {
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
}
