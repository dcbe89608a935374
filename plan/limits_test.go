package plan_test

import (
	"testing"
	"time"

	"cpbench/plan"
)

// The limits of a step, and that noticing a hang sooner or later is another plan of the same measurement.
func TestLimitsOfAStep(t *testing.T) {
	t.Parallel()
	const command = "version: 1\nname: s\nmatrix: {cp: [1]}\nworkload: {kind: command, command: [x]"
	const model = "version: 1\nname: s\nmatrix: {cp: [1]}\nworkload: {kind: model, mode: inference, command: [x]"
	load := func(text string) *plan.Spec {
		s, err := plan.Load("s.yaml", []byte(text+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for text, want := range map[string]struct{ heartbeat, slow time.Duration }{
		model:                     {2 * time.Minute, 0},
		model + ", heartbeat: 0s": {0, 0},
		model + ", heartbeat: 0":  {0, 0},
		model + ", heartbeat: 30s, slow_after: 90s": {30 * time.Second, 90 * time.Second},
		command:                      {0, 0},
		command + ", slow_after: 2h": {0, 2 * time.Hour},
	} {
		w := load(text).Workload
		if time.Duration(w.Heartbeat) != want.heartbeat || time.Duration(w.SlowAfter) != want.slow {
			t.Errorf("%s: heartbeat %v, slow_after %v", text, time.Duration(w.Heartbeat), time.Duration(w.SlowAfter))
		}
	}
	planned := func(text string) *plan.Plan {
		p, _, err := plan.New(load(text), plan.Options{Source: "/s.yaml", Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	base, patient, slow := planned(model), planned(model+", heartbeat: 9m"), planned(model+", slow_after: 9m")
	if base.Digest == patient.Digest || base.Key != patient.Key {
		t.Errorf("another heartbeat: digest %s and %s, key %s and %s", base.Digest, patient.Digest, base.Key, patient.Key)
	}
	if base.Digest == slow.Digest || base.Key == slow.Key {
		t.Errorf("another slow_after: digest %s and %s, key %s and %s", base.Digest, slow.Digest, base.Key, slow.Key)
	}
}
