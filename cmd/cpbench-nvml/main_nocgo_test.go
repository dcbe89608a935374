//go:build !cgo

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"cpbench/plan/suite"
)

// TestWithCgo runs the tests of the program as it is shipped: a test run without cgo would otherwise pass them over in
// silence.
func TestWithCgo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cc"); err != nil {
		suite.Missing(t, "cc", "needs a C compiler: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-v", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: TestRead ") {
		t.Errorf("the tests did not run:\n%s", out)
	}
}

// TestSaysWhy is what a user sees who built the helper without cgo.
func TestSaysWhy(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "built without cgo") {
		t.Errorf("%v: %s", err, out)
	}
}
