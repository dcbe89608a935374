package compare_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/collect/compare"
	"cpbench/collect/compare/cell"
	"cpbench/collect/compare/guard"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// served is a variant on a server that is there.
const served = `version: 1
name: v
repeats: 3
workload:
  kind: llm
  server: {url: "http://h:8000"}
  label: LABEL
  cache: cold
  data: synth
  ctx: [0, 100]
  concurrency: 2
  max_tokens: 64
  sampling: {temperature: 0}
`

// pair makes the runs of two variants that differ in what change does to the spec, and touch to the results, of B.
func pair(t *testing.T, text string, change *strings.Replacer, touch func(plan.Pair, plan.Setting, *result.Result), facts map[string]string) (a, b []*folder.Run) {
	t.Helper()
	w := world{value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Repeat) }}
	if facts != nil {
		w.facts = map[string]string{"python": "3.11", "setting attention": "flash"}
	}
	a = one(w.fill(t, newRun(t, strings.Replace(text, "LABEL", "A", 1))))
	w.begin, w.touch = stamp.Add(time.Hour), touch
	w.value = func(p plan.Pair, _ plan.Setting) float64 { return 0.1 * jitter(p.Repeat) }
	if facts != nil {
		w.facts = facts
	}
	text = strings.Replace(text, "LABEL", "B", 1)
	if change != nil {
		text = change.Replace(text)
	}
	return a, one(w.fill(t, newRun(t, text)))
}

func fact(key, value string) func(plan.Pair, plan.Setting, *result.Result) {
	return func(_ plan.Pair, _ plan.Setting, r *result.Result) { r.Provenance[key] = value }
}

// TestGuard is rule 31 of the accounting: rows that differ in more than the variant are refused, with the key and both
// values; declared or accepted they are compared, and the report says it.
func TestGuard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		text   string
		change *strings.Replacer
		touch  func(plan.Pair, plan.Setting, *result.Result)
		facts  map[string]string
		want   string // the difference
		key    string // to declare it, if another than its own name does
	}{
		{name: "model root", text: served, touch: fact("served_root", "/models/other"), want: "served_root (/models/m; /models/other)"},
		{name: "context limit", text: served, touch: fact("served_limit_tokens", "4096"), want: "served_limit_tokens (32768; 4096)"},
		{name: "not told", text: served, touch: func(_ plan.Pair, _ plan.Setting, r *result.Result) { delete(r.Provenance, "served_root") }, want: "served_root (/models/m; not known)"},
		{name: "sampling", text: served, change: strings.NewReplacer("temperature: 0", "temperature: 0.7"), want: "workload.sampling.temperature (0; 0.7)", key: "workload.sampling"},
		{name: "output", text: served, change: strings.NewReplacer("max_tokens: 64", "max_tokens: 65"), want: "workload.max_tokens (64; 65)"},
		{name: "prompts", text: served, touch: func(_ plan.Pair, _ plan.Setting, r *result.Result) { r.Group.Prompts = "77777777777777777777" }, want: "prompts_sha256 (5a5a5a5a5a5a; 777777777777)"},
		{name: "client version", text: served, touch: fact("cpbench", "v2"), want: "cpbench (v1; v2)"},
		{name: "speculation", text: served, touch: func(_ plan.Pair, _ plan.Setting, r *result.Result) { r.Group.PerPosition = []float64{0.8, 0.5, 0.2} }, want: "speculation_depth (absent; 3)"},
		{name: "GPU", text: served, touch: fact("gpu", "H200"), want: "gpu (not known; H200)"},
		{name: "driver of a model", text: model, touch: fact("driver", "580"), want: "driver (not known; 580)"},
		{name: "dtype", text: model, change: strings.NewReplacer("dtype: bf16", "dtype: fp32"), want: `workload.dtype ("bf16"; "fp32")`, key: "dtype"},
		{name: "steps", text: model, change: strings.NewReplacer("iterations: 10", "iterations: 20"), want: "workload.iterations (10; 20)"},
		{name: "variable", text: model, change: strings.NewReplacer("repeats: 4", "repeats: 4\nenv: {NCCL_ALGO: Ring}"), want: `env.NCCL_ALGO (absent; "Ring")`, key: "env"},
		{name: "software of the task's file", text: model, facts: map[string]string{"python": "3.12", "setting attention": "flash"}, want: "python (3.11; 3.12)"},
		{name: "setting of the program", text: model, facts: map[string]string{"python": "3.11", "setting attention": "eager"}, want: "setting attention (flash; eager)", key: "setting"},
		{name: "topology", text: model, change: strings.NewReplacer("ranks: cp", "ranks: cp, topology: 1d"), want: `workload.topology (absent; "1d")`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t, tt.text, tt.change, tt.touch, tt.facts)
			r := compared(t, a, b, compare.Options{})
			if r.Comparable() || len(r.Rows) == 0 {
				t.Fatalf("%d rows were compared", len(r.Rows))
			}
			for _, row := range r.Rows {
				if got := texts(row.Refused); !slices.Equal(got, []string{tt.want}) {
					t.Fatalf("refused for %q, want %q", got, tt.want)
				}
				for _, c := range row.Cells {
					if c.Verdict != cell.Refused || c.Estimate != nil || c.P != nil {
						t.Errorf("a refused row says %+v", c)
					}
				}
			}
			key, _, _ := strings.Cut(tt.want, " (")
			if tt.key != "" {
				key = tt.key
			}
			declared := compared(t, a, b, compare.Options{Keys: []string{key}})
			if !declared.Comparable() || !slices.Contains(texts(declared.Differs), tt.want) || !slices.Contains(declared.Under, key) {
				t.Errorf("--key %s: under test %v, differs %v, refused %v", key, declared.Under, texts(declared.Differs), texts(declared.Rows[0].Refused))
			}
			accepted := compared(t, a, b, compare.Options{Accept: []string{key}})
			if !accepted.Comparable() || !slices.Equal(texts(accepted.Accepted), []string{tt.want}) || slices.Contains(accepted.Under, key) {
				t.Errorf("--accept %s: accepted %v, under test %v", key, texts(accepted.Accepted), accepted.Under)
			}
			if v := accepted.Rows[0].Cells[0].Verdict; v != cell.Faster {
				t.Errorf("accepted, it is %s", v)
			}
		})
	}
}

func texts(list []guard.Difference) []string {
	var out []string
	for _, d := range list {
		out = append(out, d.Text())
	}
	return out
}

// TestNotRefused are differences that make no rows unlike: what stands behind the label, and where and when it ran.
func TestNotRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		text    string
		change  *strings.Replacer
		touch   func(plan.Pair, plan.Setting, *result.Result)
		facts   map[string]string
		differs string
		beside  string
	}{
		{name: "the server of a label", text: served, change: strings.NewReplacer("h:8000", "h:8001"), differs: `workload.server.url ("http://h:8000"; "http://h:8001")`},
		{name: "its version", text: served, touch: fact("server_version", "0.26"), differs: "server_version (0.25.1; 0.26)"},
		{name: "when it was started", text: served, touch: fact("server_started", "2026-01-02T03:04:05Z")},
		{name: "the served name", text: served, touch: fact("served_model", "m-b")},
		{name: "the node", text: model, touch: fact("host", "n2"), beside: "host (n1; n2)"},
		{name: "a binding, whatever CPUs it was to", text: model, touch: func(p plan.Pair, _ plan.Setting, r *result.Result) {
			r.Provenance["slurm_bind"] = fmt.Sprint("quiet,mask_cpu:0x", p.Repeat)
		}, facts: map[string]string{"python": "3.11", "setting attention": "flash"}, beside: "slurm_bind (not known; quiet,mask_cpu)"},
		{
			name: "declared, and told", text: model, change: strings.NewReplacer("mode: inference", `mode: inference, declare: {python: "3.11"}`),
			facts: map[string]string{"python": "3.11, as declared", "setting attention": "flash"},
		},
		{name: "jobs and positions", text: model, touch: fact("slurm_job", "18_3")},
		{name: "timeouts", text: served, change: strings.NewReplacer("max_tokens: 64", "max_tokens: 64\n  timeouts: {idle: 1m}")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t, tt.text, tt.change, tt.touch, tt.facts)
			r := compared(t, a, b, compare.Options{})
			if !r.Comparable() || r.Rows[0].Cells[0].Verdict != cell.Faster {
				t.Errorf("refused for %q, %s", texts(r.Rows[0].Refused), r.Rows[0].Cells[0].Verdict)
			}
			if tt.differs != "" && !slices.Contains(texts(r.Differs), tt.differs) || tt.beside != "" && !slices.Contains(texts(r.Beside), tt.beside) {
				t.Errorf("differs %q, beside %q", texts(r.Differs), texts(r.Beside))
			}
		})
	}
}

// TestServerRestarted: two processes of a server on a side are a doubt about it, and no difference between the sides.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	a, b := pair(t, served, nil, func(p plan.Pair, _ plan.Setting, r *result.Result) {
		r.Provenance["server_started"] = fmt.Sprint("2026-01-02T03:04:0", p.Repeat/2, "Z")
	}, nil)
	r := compared(t, a, b, compare.Options{})
	want := compare.Note{Code: catalogue.ServerRestarted, Text: "B: the repeats were measured on 2 processes of the server, which differ by chance as well"}
	if !r.Comparable() || !slices.Contains(r.Notes, want) {
		t.Errorf("refused for %q, notes %v", texts(r.Rows[0].Refused), r.Notes)
	}
}

// TestSameLabel: without another label nothing stands behind one, and another server is a difference.
func TestSameLabel(t *testing.T) {
	t.Parallel()
	a, b := pair(t, strings.Replace(served, "LABEL", "A", 1), nil, fact("server_version", "0.26"), nil)
	r := compared(t, a, b, compare.Options{})
	if got := texts(r.Rows[0].Refused); !slices.Equal(got, []string{"server_version (0.25.1; 0.26)"}) {
		t.Errorf("refused for %q", got)
	}
	if r.A.Name != "A" || r.B.Name != "B" {
		t.Errorf("sides %s and %s", r.A.Name, r.B.Name)
	}
}

// TestFollowsFromAxis: how many GPUs and CPUs a task has follows from the axis under test.
func TestFollowsFromAxis(t *testing.T) {
	t.Parallel()
	w := steps(0.1)
	w.touch = func(_ plan.Pair, st plan.Setting, r *result.Result) {
		r.Provenance["gpu_count"], r.Provenance["cpus_allowed"] = fmt.Sprint(st.Ranks), fmt.Sprint(8*st.Ranks)
	}
	run := w.fill(t, newRun(t, model))
	if r := compared(t, one(run), nil, compare.Options{By: "cp"}); !r.Comparable() || !slices.Contains(texts(r.Differs), "gpu_count (1; 4)") {
		t.Errorf("refused for %q, differs %q", texts(r.Rows[0].Refused), texts(r.Differs))
	}
	w.touch, w.begin = fact("gpu_count", "2"), stamp.Add(time.Hour)
	r := compared(t, one(run), one(w.fill(t, newRun(t, model))), compare.Options{})
	if got := texts(r.Rows[0].Refused); !slices.Contains(got, "gpu_count (1; 2)") {
		t.Errorf("two runs with other GPUs: %q", got)
	}
}

// TestGoodputLimits: goodput is compared under the same limits only; to other metrics they mean nothing.
func TestGoodputLimits(t *testing.T) {
	t.Parallel()
	text := strings.Replace(served, "max_tokens: 64", "max_tokens: 64\n  goodput: {ttft_ms: 500}", 1)
	good := func(_ plan.Pair, _ plan.Setting, r *result.Result) { r.Set(catalogue.GoodFraction, 0.9) }
	a, b := pair(t, text, strings.NewReplacer("ttft_ms: 500", "ttft_ms: 900"), good, nil)
	if r := compared(t, a, b, compare.Options{}); !r.Comparable() || len(r.Beside) != 1 {
		t.Errorf("refused for %q, beside %q", texts(r.Rows[0].Refused), texts(r.Beside))
	}
	r := compared(t, a, b, compare.Options{Metrics: []string{catalogue.GoodFraction}})
	if got := texts(r.Rows[0].Refused); len(got) != 1 || !strings.HasPrefix(got[0], "workload.goodput") {
		t.Errorf("goodput under other limits is refused for %q", got)
	}
}

// TestNoProvenanceFile: what only the files of tasks tell cannot be compared without them, and the report says so.
func TestNoProvenanceFile(t *testing.T) {
	t.Parallel()
	const doubt = "no task of a side has left its provenance.json (rows: 4)"
	a, b := pair(t, model, nil, nil, nil)
	if r := compared(t, a, b, compare.Options{}); !r.Comparable() || !strings.Contains(fmt.Sprint(r.Notes), doubt) {
		t.Errorf("notes: %v", r.Notes)
	}
	a, b = pair(t, model, nil, nil, map[string]string{"python": "3.11", "setting attention": "flash"})
	if r := compared(t, a, b, compare.Options{}); !r.Comparable() || strings.Contains(fmt.Sprint(r.Notes), "provenance.json") {
		t.Errorf("notes: %v", r.Notes)
	}
}

// TestKeyWithoutEffect: a name that meets nothing is told, since it may be a slip.
func TestKeyWithoutEffect(t *testing.T) {
	t.Parallel()
	a, b := pair(t, model, nil, nil, nil)
	r := compared(t, a, b, compare.Options{Keys: []string{"troch"}})
	if !strings.Contains(fmt.Sprint(r.Notes), `nothing called "troch" differs`) {
		t.Errorf("notes: %v", r.Notes)
	}
}

// TestMixedConditions: nodes of two kinds on both sides are alike only if the units are paired on them.
func TestMixedConditions(t *testing.T) {
	t.Parallel()
	perStart := func(p plan.Pair, _ plan.Setting, r *result.Result) {
		r.Provenance["cpu"] = fmt.Sprint("CPU ", p.Start%2)
	}
	w := world{value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Repeat) }, touch: perStart}
	if r := compared(t, one(w.fill(t, newRun(t, llm))), nil, compare.Options{By: "label"}); !r.Comparable() {
		t.Errorf("pairs on one node each are refused: %q", texts(r.Rows[0].Refused))
	}
	perRepeat := func(p plan.Pair, _ plan.Setting, r *result.Result) {
		r.Provenance["cpu"] = fmt.Sprint("CPU ", p.Repeat%2)
	}
	m := steps(0.1)
	m.touch = perRepeat
	r := compared(t, one(m.fill(t, newRun(t, model))), nil, compare.Options{By: "cp"})
	if got := texts(r.Rows[0].Refused); !slices.Equal(got, []string{"cpu (CPU 0, CPU 1; CPU 0, CPU 1)"}) {
		t.Errorf("two kinds of nodes on each side: %q", got)
	}
}

// TestPromptsOfTheirOwn: where every repeat has another text, the same repeats have to have the same one, and are pairs.
func TestPromptsOfTheirOwn(t *testing.T) {
	t.Parallel()
	text := strings.Replace(served, "repeats: 3", "repeats: 4", 1)
	own := func(salt string) func(plan.Pair, plan.Setting, *result.Result) {
		return func(p plan.Pair, _ plan.Setting, r *result.Result) {
			r.Group.Prompts = fmt.Sprint(salt, p.Repeat, "aaaaaaaaaaaaaaaa")
			if p.Repeat == 2 && salt == "b" {
				r.Group.Prompts = "another text altogether"
			}
		}
	}
	w := world{value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Repeat) }, touch: own("")}
	a := one(w.fill(t, newRun(t, strings.Replace(text, "LABEL", "A", 1))))
	w.begin = stamp.Add(time.Hour)
	w.value = func(p plan.Pair, _ plan.Setting) float64 {
		if p.Repeat == 3 {
			return -1 // a repeat that one side lacks makes nothing unlike
		}
		return 0.1 * jitter(p.Repeat)
	}
	b := strings.Replace(text, "LABEL", "B", 1)
	r := compared(t, a, one(w.fill(t, newRun(t, b))), compare.Options{})
	if c := r.Rows[0].Cells[0]; !r.Comparable() || c.Method != "paired by repeat with the same prompts" || c.Pairs != 3 || c.Unpaired != 1 {
		t.Errorf("refused for %q, %s with %d pairs", texts(r.Rows[0].Refused), c.Method, c.Pairs)
	}
	w.touch = own("b")
	if r := compared(t, a, one(w.fill(t, newRun(t, b))), compare.Options{}); r.Comparable() || !strings.HasPrefix(texts(r.Rows[0].Refused)[0], "prompts_sha256 (") {
		t.Errorf("other prompts: %q", texts(r.Rows[0].Refused))
	}
}
