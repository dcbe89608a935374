package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
)

const hinted = `version: 1
name: s
matrix: {data: ["it's a", b], cp: [1, 4, 16], n: [512, 1024]}
order: as-written
derive: {gpus: cp}
workload:
  kind: model
  mode: inference
  command: [x]
  ranks: gpus
  point: {tokens: n, set: data}
  max_fit: {axis: n, hint: 900 * sqrt(cp) + 0.7}
`

// hintsOf are the hints of the searches of a plan, in the order of its points; every other execution has none.
func hintsOf(t *testing.T, p *plan.Plan) []int64 {
	t.Helper()
	var list []int64
	for _, pair := range pairs(p) {
		switch {
		case pair.Case != "":
			list = append(list, pair.Hint)
		case pair.Hint != 0:
			t.Errorf("point %v has hint %d", pair.Values, pair.Hint)
		}
	}
	return list
}

func TestHints(t *testing.T) {
	t.Parallel()
	found := func(data, cp string, ranks int, size int64) plan.Found {
		return plan.Found{Params: []plan.Param{{Name: "cp", Value: cp}, {Name: "n", Value: plan.CaseMaxFit}, {Name: "data", Value: data}}, Ranks: ranks, Size: size}
	}
	all := found("b", "1", 1, 5000)
	all.Params = append(all.Params, plan.Param{Name: "mode", Value: "x"})
	tests := []struct {
		name           string
		found          []plan.Found
		want           []int64 // data "it's a" at cp 1, 4, 16; then b
		hinted, scaled int
	}{
		{"the spec's own", nil, []int64{900, 1800, 3600, 900, 1800, 3600}, 0, 0},
		{"a run comes first", []plan.Found{found("it's a", "4", 4, 1920)}, []int64{960, 1920, 3840, 900, 1800, 3600}, 3, 2},
		{"the nearest number of ranks", []plan.Found{found("b", "1", 1, 1000), found("b", "8", 8, 3000), found("b", "64", 64, 6000)}, []int64{900, 1800, 3600, 1000, 2121, 4242}, 3, 2},
		{"another number of ranks at the same value", []plan.Found{found("b", "4", 8, 2000)}, []int64{900, 1800, 3600, 707, 1414, 2828}, 3, 3},
		{"another point", []plan.Found{found("c", "4", 4, 2000)}, []int64{900, 1800, 3600, 900, 1800, 3600}, 0, 0},
		{"another axis", []plan.Found{all}, []int64{900, 1800, 3600, 900, 1800, 3600}, 0, 0},
		{"garbage", []plan.Found{found("b", "1", 0, 10), found("b", "4", 4, -7)}, []int64{900, 1800, 3600, 900, 1800, 3600}, 0, 0},
		{"too large for any search", []plan.Found{found("b", "1", 1, 1<<62)}, []int64{900, 1800, 3600, 1 << 62, 1 << 53, 1 << 53}, 3, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, sum := newPlan(t, hinted, plan.Options{Found: tt.found})
			if d := cmp.Diff(tt.want, hintsOf(t, p)); d != "" {
				t.Errorf("hints (-want +got):\n%s", d)
			}
			if sum.Hinted != tt.hinted || sum.Scaled != tt.scaled {
				t.Errorf("%d hints of the run, %d of them scaled; want %d and %d", sum.Hinted, sum.Scaled, tt.hinted, tt.scaled)
			}
		})
	}
}

// A hint stands in the task's line and decides nothing that is measured.
func TestHintsChangeNoKey(t *testing.T) {
	t.Parallel()
	with, _ := newPlan(t, hinted, plan.Options{Found: []plan.Found{{Size: 1}}})
	without, _ := newPlan(t, strings.Replace(hinted, ", hint: 900 * sqrt(cp) + 0.7", "", 1), plan.Options{})
	if with.Digest != without.Digest || with.Key != without.Key || with.CaseKey != without.CaseKey {
		t.Errorf("digests %s and %s, case keys %s and %s", with.Digest, without.Digest, with.CaseKey, without.CaseKey)
	}
	if d := cmp.Diff([]int64{0, 0, 0, 0, 0, 0}, hintsOf(t, without)); d != "" {
		t.Error(d)
	}
	line, err := json.Marshal(with.Arrays[0].Tasks[0])
	if err != nil || !strings.Contains(string(line), `"hint":900`) {
		t.Errorf("%s, %v", line, err)
	}
	verified, _ := newPlan(t, strings.Replace(hinted, "hint:", "verify: 3, hint:", 1), plan.Options{})
	if verified.CaseKey == with.CaseKey || verified.Key != with.Key {
		t.Error("verify is part of the search, and of nothing else")
	}
}
