package table

import (
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

const onePoint = `version: 1
name: one
matrix: {cp: [1]}
repeats: 2
workload: {kind: model, mode: inference, command: ["true"], ranks: cp, dtype: bf16, point: {tokens: "64"}}
`

func TestPublishable(t *testing.T) {
	t.Parallel()
	whole := func(r *result.Result) {
		timed(r, 1, 10, 1)
		r.Missing = []result.Missing{}
		for _, f := range catalogue.Facts() {
			if f.Brief && f.Needed {
				r.Provenance[f.Name] = catalogue.NotApplicable
			}
		}
	}
	tests := []struct {
		name   string
		change func(repeat int, r *result.Result)
		want   string
	}{
		{"whole", func(int, *result.Result) {}, "yes"},
		{"one result lacks something", func(repeat int, r *result.Result) {
			if repeat == 2 {
				r.Missing = []result.Missing{{Keys: []string{"clocks_locked", "vbios"}, Reason: "no"}, {Keys: []string{"governor"}, Reason: "none"}, {Keys: []string{"setting weights"}, Reason: "x"}}
			}
		}, "no (4 facts are missing, see the end)\nweights (of 1 result): x\nvbios (of 1 result), clocks_locked (of 1 result): no\ngovernor (of 1 result): none"},
		{"both lack the same for other reasons", func(repeat int, r *result.Result) {
			r.Missing = []result.Missing{{Keys: []string{"load"}, Reason: strings.Repeat("x", repeat)}}
		}, "no (1 fact is missing, see the end)\nload (of 1 result): x\nload (of 1 result): xx"},
		{"an older worker", func(_ int, r *result.Result) { r.Missing = nil; delete(r.Provenance, "driver") }, "no (1 fact is missing, see the end)\ndriver: its result does not tell it"},
		{"a failure claims nothing", func(repeat int, r *result.Result) {
			if repeat == 1 {
				r.Outcome, r.Missing = catalogue.Error, []result.Missing{{Keys: []string{"torch"}, Reason: "ended early"}}
			}
		}, "yes"},
		{"an out-of-memory claims something", func(repeat int, r *result.Result) {
			if repeat == 1 {
				r.Outcome, r.Missing = catalogue.OOMDevice, []result.Missing{{Keys: []string{"torch"}, Reason: "ended early"}}
			}
		}, "no (1 fact is missing, see the end)\ntorch (of 1 result): ended early"},
		{"a key of a newer cpbench", func(_ int, r *result.Result) {
			r.Missing = []result.Missing{{Keys: []string{"quantum"}, Reason: "?"}}
		}, "no (1 fact is missing, see the end)\nquantum: ?"},
		{"the reference model", func(_ int, r *result.Result) {
			r.Provenance["reference"] = "1"
			r.Missing = []result.Missing{{Keys: []string{"load"}, Reason: "?"}}
		}, "no (the reference model stands for no real one)"},
		{"nothing good", func(_ int, r *result.Result) { r.Outcome = catalogue.Timeout }, "no (nothing measured)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, onePoint)
			measure(t, run, func(pair plan.Pair, _ plan.Setting, r *result.Result) bool {
				whole(r)
				tt.change(pair.Repeat, r)
				return true
			})
			table := build(t, run)
			if got := strings.Join(append([]string{field(t, table, "Publishable")}, table.lacking()...), "\n"); got != tt.want {
				t.Errorf("publishable: %s\nwant: %s", got, tt.want)
			}
		})
	}
}

// The header says what there is instead of a GPU.
func TestHeaderWithoutGPU(t *testing.T) {
	t.Parallel()
	run := newRun(t, onePoint)
	measure(t, run, func(_ plan.Pair, _ plan.Setting, r *result.Result) bool {
		for _, key := range []string{"gpu", "driver", "clocks_locked", "cuda", "nccl"} {
			r.Provenance[key] = catalogue.NotApplicable
		}
		r.Provenance["device"], r.Provenance["batch"] = "cpu", "4"
		return true
	})
	table := build(t, run)
	for name, want := range map[string]string{"GPU model": "none: cpu", "Driver": "", "GPU clocks locked": "not applicable", "Batch": "4", "NCCL": ""} {
		if got := field(t, table, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func field(t *testing.T, table *Table, name string) string {
	t.Helper()
	for _, f := range table.Meta() {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}
