package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestNoScontrol is the machine without Slurm: there is no limit, and the person is told.
func TestNoScontrol(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var said bytes.Buffer
	if n, err := siteLimit(t.Context(), voice{&said}); n != 0 || err != nil {
		t.Errorf("limit %d", n)
	}
	if !strings.Contains(said.String(), "cpbench: no limit on the tasks of an array is known: ") {
		t.Errorf("said %q", said.String())
	}
}
