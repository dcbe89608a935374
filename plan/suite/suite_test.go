package suite_test

import (
	"testing"

	"cpbench/plan/suite"
)

func TestRequired(t *testing.T) {
	t.Setenv("CPBENCH_TEST_REQUIRE", "slurm,accounting,torchrun")
	for component, want := range map[string]bool{"slurm": true, "accounting": true, "cc": false, "torch": false, "": false} {
		if got := suite.Required(component); got != want {
			t.Errorf("%q: %v, want %v", component, got, want)
		}
	}
}
