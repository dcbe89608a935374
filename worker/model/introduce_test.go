package model

import (
	"testing"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/model/ranks"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// What ranks say becomes facts of the catalogue, overwrites none that is known, and gives way to what the built model
// shows.
func TestIntroduce(t *testing.T) {
	t.Parallel()
	hello := func(device, uuid string) *ranks.Rank {
		return &ranks.Rank{Hello: &protocol.Hello{
			Device:   protocol.Device{Name: device, UUID: uuid},
			Versions: map[string]string{"python": "3.12", "jax": "0.5", "cuda": ""},
			Settings: map[string]string{"compile": "unknown", "seed": "1"},
		}}
	}
	set := &ranks.Set{Ranks: []*ranks.Rank{hello("H200", "GPU-1"), hello("H100", "GPU-2")}}
	set.Ranks[0].Ready = &protocol.Ready{Settings: map[string]string{"compile": "yes"}}
	r := &result.Result{Provenance: map[string]string{"python": "known", "host": "n1"}}
	introduce(set, r)
	built(set, r)
	want := map[string]string{
		"host": "n1", "python": "known", "version jax": "0.5", "setting compile": "yes", "setting seed": "1", "device": "H200 + H100", "gpu": "H200 + H100",
	}
	if diff := cmp.Diff(want, r.Provenance); diff != "" {
		t.Errorf("provenance (-want +got):\n%s", diff)
	}
	for key := range r.Provenance {
		if _, ok := catalogue.FactByName(key); !ok {
			t.Errorf("the catalogue does not know %q", key)
		}
	}
	cpu := &ranks.Set{Ranks: []*ranks.Rank{hello("cpu", "")}}
	r = &result.Result{Provenance: map[string]string{}}
	if introduce(cpu, r); r.Provenance["gpu"] != "" || r.Provenance["device"] != "cpu" {
		t.Errorf("a CPU: %v", r.Provenance)
	}
}
