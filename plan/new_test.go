package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func newPlan(t testing.TB, text string, opt plan.Options) (*plan.Plan, plan.Summary) {
	t.Helper()
	opt.Source = "/spec dir/sweep.yaml"
	p, sum, err := plan.New(load(t, text), opt)
	if err != nil {
		t.Fatal(err)
	}
	return p, sum
}

func pairs(p *plan.Plan) []plan.Pair {
	var out []plan.Pair
	for _, a := range p.Arrays {
		for _, task := range a.Tasks {
			out = append(out, task.Pairs...)
		}
	}
	return out
}

func TestFullPlan(t *testing.T) {
	t.Parallel()
	p, sum := newPlan(t, fullSpec, plan.Options{})
	// 3 cp x 3 tokens x 2 datasets, less cp=1 tokens=4096, and one included.
	if sum.Points != 3*3*2-2+1 || sum.Cases != 3*2 || sum.Shapes != 1 || len(p.Arrays) != 1 {
		t.Errorf("%+v, %d arrays", sum, len(p.Arrays))
	}
	if got, want := p.Arrays[0].Shape, (plan.Shape{Nodes: 1, GPUsPerNode: 8, GPUType: "h200", CPUsPerTask: 64, Mem: "0", Exclusive: true}); got != want {
		t.Errorf("shape %+v", got)
	}
	for _, task := range p.Arrays[0].Tasks {
		for i, pair := range task.Pairs {
			if (pair.Case != "") && (pair.Repeat != 1 || i > 1) {
				t.Errorf("a search is not first, or not in repeat 1: %v", task.Pairs)
			}
		}
	}
	for _, pair := range pairs(p) {
		if pair.Values[0] == "4" && pair.Values[1] == "2048" && pair.Values[2] == "b" {
			st, err := p.At(pair.Point, 0)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"tokens": 2048, "atoms": 16384, "msa": 4096, "data": "inputs/b.npz"}
			if diff := cmp.Diff(want, st.Point); diff != "" || st.Ranks != 4 {
				t.Errorf("ranks %d, %s", st.Ranks, diff)
			}
			if diff := cmp.Diff([]string{"python3", "-m", "model", "--data=b", "{cpbench}", "{x}"}, st.Command); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestFrozenArguments(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, strings.Replace(small, "[./model]", "[python3, ./sub/model.py, model.py]", 1), plan.Options{Files: []plan.File{{Name: "sub/model.py"}}})
	p.Bind("/runs/r 1", "/runs/r 1/bin/cpbench")
	st, err := p.At(pairs(p)[0].Point, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"python3", "/runs/r 1/lib/model.py", "model.py"}, st.Command); diff != "" {
		t.Error(diff)
	}
}

func TestCasePointsAtAnySize(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, fullSpec, plan.Options{})
	for _, pair := range pairs(p) {
		if pair.Case == "" {
			continue
		}
		st, err := p.At(pair.Point, 7777)
		if err != nil {
			t.Fatal(err)
		}
		if st.Point["tokens"] != 7777 || st.Point["atoms"] != 7777*8 {
			t.Errorf("%v", st.Point)
		}
	}
}

func TestSearchedAxisNeedNotStandInTheMatrix(t *testing.T) {
	t.Parallel()
	p, sum := newPlan(t, `version: 1
name: s
matrix: {cp: [1, 4]}
derive: {long: tokens > 5}
exclude: [{where: "tokens > 5"}, {where: "long"}, {where: "cp == 4"}]
workload: {kind: model, mode: inference, command: [x], ranks: cp, point: {tokens: tokens}, max_fit: {axis: tokens}}
`, plan.Options{})
	if sum.Points != 0 || sum.Cases != 1 || pairs(p)[0].Values[0] != "1" {
		t.Errorf("%+v %v", sum, pairs(p))
	}
}

func TestDigestAndKeys(t *testing.T) {
	t.Parallel()
	base, _ := newPlan(t, fullSpec, plan.Options{})
	for name, tt := range map[string]struct {
		old, new                  string
		sameDigest, sameKey, same bool // same: the case key
	}{
		"name":       {"name: full", "name: other", true, true, true},
		"partition":  {"partition: gpu", "partition: cpu", true, true, true},
		"column":     {"tokens/s", "tok/s", true, true, true},
		"axis value": {"cp: [1, 4, 16]", "cp: [1, 4, 9, 16]", false, true, true},
		"warm-up":    {"warmup: 3", "warmup: 4", false, false, false},
		"search":     {"to: 65536", "to: 32768", false, true, false},
		"set-up":     {"module purge", "module list", false, false, false},
		"env":        {"NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO", false, false, false},
		"unused":     {"nodes: \"ceil(gpus / 16)\"", "nodes: \"ceil(gpus / 17)\"", false, true, true},
		"time":       {"time: 30m", "time: 31m", false, true, true},
	} {
		if !strings.Contains(fullSpec, tt.old) {
			t.Fatalf("%s: %q is not in the spec", name, tt.old)
		}
		p, _ := newPlan(t, strings.Replace(fullSpec, tt.old, tt.new, 1), plan.Options{})
		if got := p.Digest == base.Digest; got != tt.sameDigest {
			t.Errorf("%s: equal digest %v", name, got)
		}
		if got := p.Key == base.Key; got != tt.sameKey {
			t.Errorf("%s: equal key %v", name, got)
		}
		if got := p.CaseKey == base.CaseKey; got != tt.same {
			t.Errorf("%s: equal case key %v", name, got)
		}
	}
	files, _ := newPlan(t, fullSpec, plan.Options{Files: []plan.File{{Name: "hooks.py", SHA256: "x"}}})
	if files.Digest == base.Digest || files.Key == base.Key {
		t.Error("the frozen files are not in digest and key")
	}
}

func TestPlanSurvivesJSON(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, fullSpec, plan.Options{})
	p.Seal()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back plan.Plan
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if !back.Intact() {
		t.Error("the digest of a plan that was read again differs")
	}
	pair := pairs(p)[3]
	a, errA := p.At(pair.Point, 600)
	b, errB := back.At(pair.Point, 600)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	for what, change := range map[string]func(*plan.Plan){
		"timeout": func(p *plan.Plan) { p.Spec.Workload.Timeout++ },
		"time":    func(p *plan.Plan) { p.Arrays[0].Seconds = 1 },
		"key":     func(p *plan.Plan) { p.Key = "00" },
		"arrays":  func(p *plan.Plan) { p.Arrays = nil },
		"kind":    func(p *plan.Plan) { p.Axes[0].Kind = "string" },
	} {
		var changed plan.Plan
		if err := json.Unmarshal(text, &changed); err != nil {
			t.Fatal(err)
		}
		if change(&changed); changed.Intact() {
			t.Errorf("a plan with another %s is said to be intact", what)
		}
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	const spec = `version: 1
name: s
matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8]}
repeats: 3
order: ORDER
workload: {kind: model, mode: inference, command: [x]}
`
	order := func(o string) []string {
		p, _ := newPlan(t, strings.Replace(spec, "ORDER", o, 1), plan.Options{})
		var out []string
		for _, pair := range pairs(p) {
			out = append(out, fmt.Sprintf("%s.%d", pair.Values[0], pair.Repeat))
		}
		return out
	}
	if got := order("as-written"); got[0] != "1.1" || got[1] != "2.1" || got[8] != "1.2" {
		t.Error(got)
	}
	if got := order("repeat-first"); got[0] != "1.1" || got[1] != "1.2" || got[3] != "2.1" {
		t.Error(got)
	}
	blocks := order("blocks")
	if slices.Equal(blocks, order("as-written")) || !slices.Equal(blocks, order("blocks")) {
		t.Error("blocks are not shuffled, or not the same twice")
	}
	for r := range 3 {
		block := slices.Clone(blocks[8*r : 8*r+8])
		slices.Sort(block)
		for i, v := range block {
			if v != fmt.Sprintf("%d.%d", i+1, r+1) {
				t.Errorf("block %d is not every point once: %v", r, block)
			}
		}
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	const spec = `version: 1
name: s
matrix: {cp: [1, 4, 16]}
workload: {kind: model, mode: inference, command: [x]}
resources: {gpus_per_node: cp, time: 1h}
slurm: {multi_shape: max}
`
	p, sum := newPlan(t, spec, plan.Options{})
	if len(p.Arrays) != 3 || sum.Merged || sum.Waste < 0.56 || sum.Waste > 0.57 || sum.Why == "" {
		t.Errorf("not exclusive: %d arrays, %+v", len(p.Arrays), sum)
	}
	small := strings.Replace(spec, "[1, 4, 16]", "[6, 8]", 1)
	if p, sum = newPlan(t, small, plan.Options{}); len(p.Arrays) != 1 || !sum.Merged || p.Arrays[0].Shape.GPUsPerNode != 8 {
		t.Errorf("little waste: %d arrays, %+v", len(p.Arrays), sum)
	}
	if p, sum = newPlan(t, strings.Replace(small, "shape: max", "shape: error", 1), plan.Options{}); len(p.Arrays) != 2 || sum.Merged {
		t.Errorf("multi_shape: error: %d arrays, %+v", len(p.Arrays), sum)
	}
	// A time of its own does not make a shape; the array asks for the longest.
	times := strings.Replace(small, "time: 1h", `time: "cp == 6 ? '10m' : '2h'"`, 1)
	if p, _ = newPlan(t, times, plan.Options{}); p.Arrays[0].Seconds != 7200 || p.Arrays[0].Tasks[0].Seconds+p.Arrays[0].Tasks[1].Seconds != 7800 {
		t.Errorf("times: %+v", p.Arrays[0])
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	spec := small + "repeats: 10\n"
	for _, tt := range []struct {
		spec  string
		limit int
		want  []int
	}{
		{spec, 0, []int{20}},
		{spec, 8, []int{8, 8, 4}},
		{spec + "site: {max_array_size: 15}\n", 8, []int{15, 5}},
	} {
		p, _ := newPlan(t, tt.spec, plan.Options{MaxArraySize: tt.limit})
		var got []int
		for i, a := range p.Arrays {
			got = append(got, len(a.Tasks))
			for j, task := range a.Tasks {
				if task.Array != i || task.Index != j {
					t.Errorf("task %d of array %d says %d of %d", j, i, task.Index, task.Array)
				}
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestExtendAndWhere(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, small, plan.Options{})
	had := pairs(p)[0]
	_, sum := newPlan(t, strings.Replace(small, "[1, 4]", "[1, 4, 9]", 1), plan.Options{
		Extends: "old", Have: func(id string, repeat int) bool { return id == had.ID && repeat == 1 },
	})
	if sum.Pairs != 2 || sum.Had != 1 {
		t.Errorf("%+v", sum)
	}
	if p, _ := newPlan(t, small, plan.Options{Where: "cp > 1"}); len(pairs(p)) != 1 || pairs(p)[0].Values[0] != "4" {
		t.Errorf("where: %v", pairs(p))
	}
	for _, opt := range []plan.Options{
		{Where: "cp > 100"},
		{Where: "cpp > 1"},
		{Where: "cp + 1"},
		{Extends: "old", Have: func(string, int) bool { return true }},
	} {
		if _, _, err := plan.New(load(t, small), opt); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
}

// TestExpansion is the property that the points are the product of the axes minus the excluded ones, and that their
// ids are unique and depend on names and values only.
func TestExpansion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-h][0-9]{1,2}`), 1, 4, rapid.ID[string]).Draw(t, "names")
		axes, total := map[string][]int{}, 1
		for _, n := range names {
			axes[n] = rapid.SliceOfNDistinct(rapid.IntRange(0, 50), 1, 4, rapid.ID[int]).Draw(t, n)
			total *= len(axes[n])
		}
		cut := rapid.IntRange(0, 50).Draw(t, "cut")
		ids := func(names []string, values func([]int) []int) map[string]string {
			var matrix []string
			for _, n := range names {
				text, _ := json.Marshal(values(axes[n]))
				matrix = append(matrix, n+": "+string(text))
			}
			s, err := plan.Load("s.yaml", fmt.Appendf(nil, "version: 1\nname: s\nmatrix: {%s}\nexclude: [{where: %s > %d}]\nworkload: {kind: model, mode: inference, command: [x]}\n",
				strings.Join(matrix, ", "), names[0], cut))
			if err != nil {
				t.Fatal(err)
			}
			p, _, err := plan.New(s, plan.Options{Source: "/s.yaml"})
			if err != nil {
				return nil // all excluded
			}
			out := map[string]string{}
			for _, pair := range pairs(p) {
				var parts []string
				for _, prm := range p.Params(pair.Point) {
					parts = append(parts, prm.Name+"="+prm.Value)
				}
				slices.Sort(parts)
				out[pair.ID] = strings.Join(parts, ",")
				if p.ID(pair.Values) != pair.ID {
					t.Fatal("the id does not follow from the values")
				}
			}
			return out
		}
		got := ids(names, func(v []int) []int { return v })
		kept := 0
		for _, v := range axes[names[0]] {
			if v <= cut {
				kept++
			}
		}
		if want := total / len(axes[names[0]]) * kept; len(got) != want {
			t.Fatalf("%d points, want %d", len(got), want)
		}
		rest := slices.Clone(names[1:])
		slices.Reverse(rest)
		turned := ids(append([]string{names[0]}, rest...), func(v []int) []int { v = slices.Clone(v); slices.Reverse(v); return v })
		if diff := cmp.Diff(got, turned); diff != "" {
			t.Fatalf("the ids depend on the order: %s", diff)
		}
	})
}

func TestManyPointsAreRefused(t *testing.T) {
	t.Parallel()
	var axes []string
	for i := range 8 {
		axes = append(axes, fmt.Sprintf("a%d: [1, 2, 3, 4, 5, 6, 7, 8]", i))
	}
	got := problemsOf(t, "version: 1\nname: s\nmatrix: {"+strings.Join(axes, ", ")+"}\nworkload: {kind: model, mode: inference, command: [x]}\n")
	if len(got) != 1 || !strings.Contains(got[0], "more than 1000000 points") {
		t.Error(got)
	}
}

// benchSpec has n points, the shape of a real sweep: expressions, rules, a table.
func benchSpec(n int) string {
	var values []string
	for i := range n / 100 {
		values = append(values, fmt.Sprint(64*(i+1)))
	}
	var seeds []string
	for i := range 20 {
		seeds = append(seeds, fmt.Sprint(i))
	}
	return fmt.Sprintf(`version: 1
name: bench
matrix: {cp: [1, 4, 9, 16, 25], tokens: [%s], variant: [%s]}
exclude: [{where: "cp == 1 && tokens < 0"}]
derive: {gpus: cp, nodes: "ceil(gpus / 32)"}
workload: {kind: model, mode: inference, command: [./model, "--n={tokens}"], ranks: cp, topology: 2d, point: {tokens: tokens, atoms: tokens * 8}}
resources: {nodes: nodes, gpus_per_node: "min(gpus, 8)", time: "tokens > 5000 ? '1h' : '30m'", exclusive: true}
site: {gpus_per_node: 8}
`, strings.Join(values, ", "), strings.Join(seeds, ", "))
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		text := []byte(benchSpec(n))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s, err := plan.Load("bench.yaml", text)
				if err != nil {
					b.Fatal(err)
				}
				p, sum, err := plan.New(s, plan.Options{Source: "/bench.yaml"})
				if err != nil || sum.Points != n {
					b.Fatal(err, sum.Points)
				}
				_ = p
			}
		})
	}
}
