// Package suite is for tests that need what not every machine has, such as a Slurm or a C compiler: they are left out
// where it is missing, and fail where it was meant to be there, so that no run passes by leaving them out.
package suite

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// variable is a list of components, separated by commas: slurm,accounting,shellcheck,cc,ssh,torch,torchrun,llm.
const variable = "CPBENCH_TEST_REQUIRE"

// Required reports whether CPBENCH_TEST_REQUIRE has the component.
func Required(component string) bool {
	return slices.Contains(strings.Split(os.Getenv(variable), ","), component)
}

// Missing ends a test for lack of a component: it fails where that is required, and else is skipped with the reason.
func Missing(t testing.TB, component, format string, args ...any) {
	t.Helper()
	if Required(component) {
		t.Fatalf(format+"; "+variable+" asks for "+component, args...)
	}
	t.Skipf(format, args...)
}
