package main

import (
	"testing"

	"cpbench/collect/trail"
	"cpbench/plan"
)

// TestLogsChoose: repeats are chosen by their number, which of later starts of a server does not count from 1.
func TestLogsChoose(t *testing.T) {
	t.Parallel()
	var repeats []trail.Execution
	for _, n := range []int{1, 2, 1001, 1002} {
		repeats = append(repeats, trail.Execution{Pair: plan.Pair{Repeat: n}, Task: n / plan.StartStride})
	}
	for asked, want := range map[int]int{0: 1, 1: 1, 2: 2, 1002: 1002} {
		if got, err := (&logsOptions{repeat: asked}).choose(repeats); err != nil || got.Repeat != want {
			t.Errorf("--repeat %d: repeat %d, %v", asked, got.Repeat, err)
		}
	}
	for _, asked := range []int{3, -1} {
		if got, err := (&logsOptions{repeat: asked}).choose(repeats); err == nil {
			t.Errorf("--repeat %d: repeat %d", asked, got.Repeat)
		}
	}
}
