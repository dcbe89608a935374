package model

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/plan/catalogue"
)

// Ranks that are waited for in vain: the outcome, and what a person reads of where they stood.
func TestHang(t *testing.T) {
	const beat = "heartbeat: 1s" // of which a busy machine delays no sign so long
	tests := []struct {
		name, text string
		outcome    catalogue.Outcome
		reason     string
		evidence   []string
	}{
		{
			"a deadlock in timed steps", play(3, "alive-wait", "2", beat), catalogue.Hang, "all ranks are alive, but no step has ended for ",
			[]string{"no answer yet from rank 2\n", "rank 2: for ", " in actor.go:102 timed, 0 steps done"},
		},
		{
			"a rank that hangs in a step", refer(2, `, --fault, "hang-rank=1"`, beat), catalogue.Hang, "all ranks are alive, but no step has ended for ",
			[]string{"no answer yet from rank 0, 1\nrank 0: for ", " in exchange with other ranks, 0 steps done\nrank 1: for ", " in step, 0 steps done"},
		},
		{
			"without signs of life", play(2, "wait", "1", "heartbeat: 100ms", "timeout: 500ms"), catalogue.Timeout, "one execution took longer than workload.timeout (500ms)",
			[]string{"no answer yet from rank 1"},
		},
		{
			"never a hang", play(2, "alive-wait", "1", "heartbeat: 0s", "timeout: 500ms"), catalogue.Timeout, "one execution took longer",
			[]string{"no answer yet from rank 1"},
		},
		{
			"while the model is built", refer(2, `, --fault, "hang-rank=1@build"`, beat, "timeout: 2s"), catalogue.Timeout, "one execution took longer",
			[]string{"no answer yet from rank 1\nrank 1: for ", " in build"},
		},
		{"a compilation that takes longer than the heartbeat", play(2, "alive-compile", "1", beat, "iterations: 200"), catalogue.OK, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, r, _ := only(t, tt.text)
			if r.Outcome != tt.outcome || !strings.HasPrefix(r.Reason, tt.reason) {
				t.Errorf("%s: %q", r.Outcome, r.Reason)
			}
			rest := r.Evidence
			for _, want := range tt.evidence {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("evidence lacks %q in its place:\n%s", want, r.Evidence)
				}
				rest = after
			}
		})
	}
}

// A rank that was stopped, and one that ignores TERM and has left a process in a session of its own, end as hang, and
// nothing is left of them.
func TestHangThatHasToBeKilled(t *testing.T) {
	const beat = "heartbeat: 500ms"
	t.Run("stopped", func(t *testing.T) {
		_, r, took := only(t, play(3, "alive-freeze", "1", beat))
		if r.Outcome != catalogue.Hang || r.Reason != "rank 1 has given no sign of life for 500ms" || took > 10*time.Second {
			t.Errorf("%s: %q after %v", r.Outcome, r.Reason, took)
		}
		if !strings.Contains(r.Evidence, "\nrank 1: for ") || !strings.Contains(r.Evidence, " in actor.go:101 ") || !strings.Contains(r.Evidence, " steps done, silent for ") {
			t.Errorf("evidence %q", r.Evidence)
		}
	})
	t.Run("stubborn", func(t *testing.T) {
		st, r, took := only(t, refer(2, `, --fault, "ignore-term", --fault, "grandchild=1@prepare", --fault, "hang-rank=1"`, beat))
		if r.Outcome != catalogue.Hang || !warned(r, catalogue.LateKill) || took > 10*time.Second {
			t.Errorf("%s: %q after %v, %v", r.Outcome, r.Reason, took, r.Warnings)
		}
		if err := syscall.Kill(grandchild(t, st), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the grandchild: %v", err)
		}
	})
}
