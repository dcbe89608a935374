package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
)

// byURL is a sweep over two servers that run already.
const byURL = `version: 1
name: by-url
zip: [{label: [A, B], host: [a, "b's"]}]
repeats: 3
workload:
  kind: llm
  server: {url: "http://{host}:8000"}
  cache: [cold, warm]
  data: synth
  ctx: [0, 8000]
  concurrency: [1, 4]
  mixed: {short_ctx: 1000, delay: 0s}
  max_tokens: 256
  sampling: {temperature: 0.70, seed: 12345678901234567, stop: ["a b", null], deep: {on: true}}
  data_dir: my data
  api_key_file: key.txt
`

// byCommand is a sweep over two servers that every task starts.
const byCommand = `version: 1
name: by-command
matrix: {drafts: [3, 5]}
repeats: 2
env: {BOTH: sweep, ONE: "{drafts}"}
workload:
  kind: llm
  label: A
  cache: [cold, warm]
  data: synth
  ctx: 100
  concurrency: 1
  max_tokens: 10
  starts: 4
  metrics_urls: ["http://127.0.0.1:{port}/m"]
  server: {command: [serve, --port, "{port}", "--k={drafts}", "{{port}}", "{run}"], ready: "/up/{port}", env: {BOTH: server, PORT: "{port}"}}
`

// walk names the pairs of a task: label, cache and streams, repeat.
func walk(t *testing.T, p *plan.Plan, task plan.Task) []string {
	t.Helper()
	var out []string
	for _, pair := range task.Pairs {
		st, err := p.At(pair.Point, 0)
		if err != nil {
			t.Fatal(err)
		}
		g := st.Serving.Group
		out = append(out, fmt.Sprintf("%s %s %s r%d", g.Label, g.Cache, g.Case(), pair.Repeat))
	}
	return out
}

func TestLLMPoints(t *testing.T) {
	t.Parallel()
	p, sum := newPlan(t, byURL, plan.Options{})
	// 2 variants x 2 caches x 2 sizes x 2 concurrencies, and a mixed case for each of the first three.
	if sum.Points != 16 || sum.Cases != 8 || sum.Pairs != 24*3 || len(sum.Warnings) != 0 {
		t.Errorf("%+v", sum)
	}
	var names []string
	for _, a := range p.Axes {
		names = append(names, a.Name)
	}
	if diff := cmp.Diff([]string{"label", "host", "cache", "data", "ctx", "concurrency"}, names); diff != "" {
		t.Error(diff)
	}
	if p.Key == p.CaseKey {
		t.Error("the mixed case has the key of the others")
	}
}

func TestLLMServing(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, byURL, plan.Options{})
	seen := map[string]plan.Serving{}
	for _, pair := range pairs(p) {
		st, err := p.At(pair.Point, 0)
		if err != nil {
			t.Fatal(err)
		}
		if pair.Start != 0 {
			t.Errorf("start %d of a server that nobody starts", pair.Start)
		}
		seen[p.PointName(pair.Point)] = *st.Serving
	}
	want := plan.Serving{
		Group:      plan.Group{Label: "B", Cache: "warm", Data: "synth", Ctx: 8000, Mixed: &plan.Mixed{ShortCtx: 1000}},
		Target:     plan.Target{URL: "http://b's:8000"},
		APIKeyFile: "/spec dir/key.txt", DataDir: "/spec dir/my data",
	}
	if diff := cmp.Diff(want, seen["label=B,host=b's,cache=warm,data=synth,ctx=8000,concurrency=mixed"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := want.Group.Case(), "data=synth ctx=8000 concurrency=mixed short_ctx=1000"; got != want {
		t.Errorf("case %q", got)
	}
	if g := seen["label=A,host=a,cache=cold,data=synth,ctx=0,concurrency=4"].Group; g.Concurrency != 4 || g.Mixed != nil || g.Case() != "data=synth ctx=0 concurrency=4" {
		t.Errorf("%+v", g)
	}
}

// Rule 30 of the accounting: servers that are there take turns, A B and B A.
func TestLLMTasksByURL(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, byURL, plan.Options{})
	if len(p.Arrays) != 1 || p.Spec.Slurm.Parallel != 1 {
		t.Fatalf("%d arrays, parallel %d", len(p.Arrays), p.Spec.Slurm.Parallel)
	}
	var order []string
	for _, task := range p.Arrays[0].Tasks {
		steps := walk(t, p, task)
		order = append(order, steps[0][:1])
		for _, s := range steps {
			if s[:1] != steps[0][:1] {
				t.Errorf("a task has two servers: %v", steps)
			}
		}
	}
	// Three repeats of two servers, every second one in reverse.
	text := strings.Join(order, "")
	if !slices.Contains([]string{"ABBAAB", "ABBABA", "BAABAB", "BAABBA"}, text) {
		t.Errorf("order %s", text)
	}
	warmInARow(t, p)

	one, _ := newPlan(t, strings.Replace(byURL, `[A, B], host: [a, "b's"]`, "[A], host: [a]", 1), plan.Options{})
	if n := len(one.Arrays[0].Tasks); n != 1 {
		t.Errorf("one server has %d tasks", n)
	}
	warmInARow(t, one)
	written, _ := newPlan(t, "order: as-written\n"+byURL, plan.Options{})
	if n := len(written.Arrays[0].Tasks); n != 2 {
		t.Errorf("two servers as written have %d tasks", n)
	}
	if got := walk(t, written, written.Arrays[0].Tasks[0])[0]; got != "A cold data=synth ctx=0 concurrency=1 r1" {
		t.Errorf("as written begins with %s", got)
	}
	first, _ := newPlan(t, "order: repeat-first\n"+byURL, plan.Options{})
	if got := walk(t, first, first.Arrays[0].Tasks[0]); got[0][len(got[0])-2:] != "r1" || got[1][len(got[1])-2:] != "r2" {
		t.Errorf("repeat-first begins with %v", got[:2])
	}
}

// warmInARow: the repeats of a warm point are neighbours in one task, in order, and every pair stands once.
func warmInARow(t *testing.T, p *plan.Plan) {
	t.Helper()
	seen := map[string]bool{}
	for _, a := range p.Arrays {
		for _, task := range a.Tasks {
			for i, pair := range task.Pairs {
				key := fmt.Sprint(pair.ID, pair.Repeat)
				if seen[key] {
					t.Errorf("%s stands twice", key)
				}
				seen[key] = true
				if !slices.Contains(pair.Values, "warm") || pair.Nth() == 1 {
					continue
				}
				if i == 0 || task.Pairs[i-1].ID != pair.ID || task.Pairs[i-1].Repeat != pair.Repeat-1 {
					t.Errorf("task %d: repeat %d of a warm point follows something else", task.Index, pair.Repeat)
				}
			}
		}
	}
}

func TestLLMTasksByCommand(t *testing.T) {
	t.Parallel()
	first := map[string]bool{} // servers that begin, over the seeds
	for seed := range 8 {
		first[startBlocks(t, fmt.Sprintf("seed: %d\n%s", seed, byCommand))] = true
	}
	if len(first) != 2 {
		t.Errorf("the order is not random: %v begins", first)
	}
}

// startBlocks checks the tasks of byCommand and returns the server that the first one starts first.
func startBlocks(t *testing.T, text string) string {
	t.Helper()
	p, _ := newPlan(t, text, plan.Options{})
	if len(p.Arrays) != 1 || len(p.Arrays[0].Tasks) != 4 || p.Spec.Slurm.Parallel != 0 {
		t.Fatalf("%d arrays", len(p.Arrays))
	}
	warmInARow(t, p)
	var orders []string
	for i, task := range p.Arrays[0].Tasks {
		if len(task.Pairs) != 2*2*2 {
			t.Errorf("%d pairs", len(task.Pairs))
		}
		var servers []string
		for _, pair := range task.Pairs {
			if pair.Start != i+1 || pair.Repeat/plan.StartStride != i || pair.Nth() < 1 || pair.Nth() > 2 {
				t.Errorf("task %d has start %d, repeat %d", i, pair.Start, pair.Repeat)
			}
			if n := len(servers); n == 0 || servers[n-1] != pair.Values[0] {
				servers = append(servers, pair.Values[0])
			}
		}
		orders = append(orders, strings.Join(servers, ""))
	}
	for i := 0; i < 4; i += 2 {
		if a, b := orders[i], orders[i+1]; len(a) != 2 || a[0] != b[1] || a[1] != b[0] {
			t.Errorf("each server is to be started once, and every second task the other way round: %v", orders)
		}
	}
	return orders[0][:1]
}

// TestLLMNumbersStay: what has run keeps its number when the sweep grows by repeats and by starts.
func TestLLMNumbersStay(t *testing.T) {
	t.Parallel()
	small, _ := newPlan(t, byCommand, plan.Options{})
	have := map[string]bool{}
	for _, pair := range pairs(small) {
		have[fmt.Sprint(pair.ID, pair.Repeat)] = true
	}
	grown := strings.NewReplacer("repeats: 2", "repeats: 3", "starts: 4", "starts: 5", "[cold, warm]", "[cold]", "ctx: 100", "ctx: [100, 200]").Replace(byCommand)
	large, _ := newPlan(t, grown, plan.Options{})
	if small.Key != large.Key {
		t.Error("a sweep that grew measures something else")
	}
	if small.Digest == large.Digest {
		t.Error("two plans have one digest")
	}
	_, sum := newPlan(t, grown, plan.Options{Extends: "x", Have: func(id string, repeat int) bool { return have[fmt.Sprint(id, repeat)] }})
	// Two servers at one old point, cold, in four starts of two repeats.
	if sum.Had != 2*4*2 {
		t.Errorf("%d pairs are known", sum.Had)
	}
	other, _ := newPlan(t, strings.Replace(byCommand, "max_tokens: 10", "max_tokens: 11", 1), plan.Options{})
	if small.Key == other.Key {
		t.Error("another number of tokens has the same key")
	}
}

func TestLLMTarget(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, byCommand, plan.Options{})
	p.Bind("/runs/r 1", "/runs/r 1/bin/cpbench")
	targets := map[string]plan.Target{}
	for _, pair := range pairs(p) {
		st, err := p.At(pair.Point, 0)
		if err != nil {
			t.Fatal(err)
		}
		targets[st.Serving.Target.Key()] = st.Serving.Target
		if diff := cmp.Diff([]string{"serve", "--port", "{port}", "--k=" + pair.Values[0], "{port}", "/runs/r 1"}, st.Command); diff != "" {
			t.Errorf("for people:\n%s", diff)
		}
		if got := plan.AtPort(st.Serving.MetricsURLs[0], 123); got != "http://127.0.0.1:123/m" {
			t.Errorf("metrics at %s", got)
		}
		if pair.Values[0] != "5" {
			continue
		}
		want := plan.Target{
			URL: "http://127.0.0.1:4711", Ready: "http://127.0.0.1:4711/up/4711",
			Command: []string{"serve", "--port", "4711", "--k=5", "{port}", "/runs/r 1"},
			Env:     map[string]string{"BOTH": "server", "ONE": "5", "PORT": "4711"},
		}
		open, before := st.Serving.Target, st.Serving.Target.Key()
		if diff := cmp.Diff(want, open.Bound(4711)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if open.Key() != before {
			t.Errorf("binding has changed the target: %+v", open)
		}
	}
	if len(targets) != 2 {
		t.Errorf("%d servers", len(targets))
	}
}

// TestLLMSurvivesTheFile: a plan reads its spec from JSON, in which numbers keep their digits.
func TestLLMSurvivesTheFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{byURL, byCommand} {
		p, _ := newPlan(t, text, plan.Options{})
		p.Seal()
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back plan.Plan
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		back.Arrays = p.Arrays
		if !back.Intact() {
			t.Error("the plan is another one after its way through the file")
		}
	}
	p, _ := newPlan(t, byURL, plan.Options{})
	got, err := json.Marshal(p.Spec.Workload.Sampling)
	if want := `{"deep":{"on":true},"seed":12345678901234567,"stop":["a b",null],"temperature":0.70}`; err != nil || string(got) != want {
		t.Errorf("sampling is %s, %v", got, err)
	}
	if w := p.Spec.Workload; w.MetricsSettle == 0 || w.Timeouts.Idle == 0 || w.DataFiles.Opinions == "" || w.Iterations != 0 || w.Mixed.Delay != 0 {
		t.Errorf("defaults: %+v", w)
	}
}

// TestLLMKeysLeaveOthersAlone: a model's plan holds none of the keys of llm, so that its digests stay.
func TestLLMKeysLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, small, plan.Options{})
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"server", "timeouts", "data_files", "starts", "metrics_settle"} {
		if strings.Contains(string(data), `"`+key+`"`) {
			t.Errorf("%s stands in the plan of a model", key)
		}
	}
}

func TestTogether(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, byCommand, plan.Options{})
	task := p.Arrays[0].Tasks[2]
	for i, pair := range task.Pairs {
		got := p.Together(task.Pairs, []plan.Pair{pair})
		want := []plan.Pair{pair}
		if slices.Contains(pair.Values, "warm") {
			first := i - (pair.Nth() - 1)
			want = task.Pairs[first : first+2]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pair %d (-want +got):\n%s", i, diff)
		}
	}
	if got := p.Together(task.Pairs, nil); len(got) != 0 {
		t.Errorf("nothing to do becomes %v", got)
	}
}

// TestSecretsAreNotTold: a mistake about a secret does not repeat it.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`server: {url: "http://me:hunter2@h:1"}`, `server: {command: [s, --port, "{port}", --api-key, hunter2]}`,
		`server: {command: [s, --port, "{port}", --api-key=hunter2]}`, `server: {command: [s, "{port}"], env: {MY_TOKEN: hunter2}}`,
		`server: {url: "http://h:1"}, sampling: {secret: hunter2}`, `server: {url: "http://h:1"}, template_kwargs: {a: "sk-hunter2"}`,
		`server: {url: "http://h:1"}, api_key: hunter2`, `server: {url: "http://h:1"}, api_key_env: "hunter2!"`,
		`server: {url: "http://h:1"}, metrics_urls: ["http://hunter2@h:1/metrics"]`, `server: {url: "http://h:1"}}
env: {MY_PASSWORD: hunter2`,
	} {
		got := problemsOf(t, "version: 1\nname: s\nworkload: {kind: llm, label: A, cache: cold, data: synth, ctx: 0, concurrency: 1, max_tokens: 5, "+line+"}\n")
		if text := strings.Join(got, "\n"); len(got) != 1 || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %q", line, got)
		}
	}
	for _, line := range []string{
		`server: {command: [s, "{port}", --tokenizer, x, --max-tokens, "5"], env: {TOKENIZERS_PARALLELISM: "false", VLLM_API_KEY: ""}}`,
		`server: {url: "http://h:1"}, sampling: {min_tokens: 5, stop_token_ids: [1]}`,
	} {
		got := problemsOf(t, "version: 1\nname: s\nworkload: {kind: llm, label: A, cache: cold, data: synth, ctx: 0, concurrency: 1, max_tokens: 5, "+line+"}\n")
		if len(got) > 0 {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestMixedAlone: the mixed case needs no other concurrency, and counts as three streams in expressions.
func TestMixedAlone(t *testing.T) {
	t.Parallel()
	p, sum := newPlan(t, `version: 1
name: s
derive: {cpus: concurrency + 1}
resources: {cpus_per_task: cpus}
workload: {kind: llm, label: A, cache: cold, data: synth, ctx: [0, 9], mixed: {short_ctx: 5}, max_tokens: 5, server: {url: "http://h:1"}}
`, plan.Options{})
	if sum.Points != 0 || sum.Cases != 2 || p.Arrays[0].Shape.CPUsPerTask != 4 {
		t.Errorf("%+v %+v", sum, p.Arrays[0].Shape)
	}
	for _, pair := range pairs(p) {
		if pair.Case != plan.CaseMixed || pair.Values[4] != "mixed" {
			t.Errorf("%+v", pair)
		}
	}
}

func TestOneServerUnderTwoLabels(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nname: s\nworkload: {kind: llm, label: [A, B], cache: cold, data: synth, ctx: 0, concurrency: 1, max_tokens: 5, "
	if _, sum := newPlan(t, head+`server: {url: "http://h:1"}}`+"\n", plan.Options{}); len(sum.Warnings) != 1 || !strings.Contains(sum.Warnings[0], `"A" and "B"`) {
		t.Errorf("%q", sum.Warnings)
	}
	for _, rest := range []string{`model: "{label}", server: {url: "http://h:1"}}`, `server: {url: "http://{label}:1"}}`} {
		if _, sum := newPlan(t, head+rest+"\n", plan.Options{}); len(sum.Warnings) != 0 {
			t.Errorf("%s: %q", rest, sum.Warnings)
		}
	}
}

// TestOneArrayForOneServer: two arrays would run side by side.
func TestOneArrayForOneServer(t *testing.T) {
	t.Parallel()
	s := load(t, byURL)
	_, _, err := plan.New(s, plan.Options{Source: "/x/s.yaml", MaxArraySize: 4})
	if err == nil || !strings.Contains(err.Error(), "need one array, and these make 2") {
		t.Errorf("%v", err)
	}
}

func TestEmptyValuesAreMissing(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, `version: 1
name: s
workload: {kind: llm, label: , cache: [], data: [synth, ""], ctx: 0, concurrency: 1, max_tokens: , server: {url: "http://h:1"}}
`)
	diffProblems(t, got, []string{"workload.label is missing", "workload.cache is missing", `data: unknown source of prompts ""`, "workload.max_tokens: 0 is out of range"})
}

// TestLLMKeysElsewhere: a key that is known by another place is told it, and nothing is told to be missing.
func TestLLMKeysElsewhere(t *testing.T) {
	t.Parallel()
	const rest = "version: 1\nname: s\nworkload: {kind: llm, label: A, cache: cold, data: synth, ctx: 0, concurrency: 1, max_tokens: 5, "
	for line, want := range map[string]string{
		`url: "http://h:1"`:                       `unknown key "url" in workload | write ` + "`server: {url: \"http://127.0.0.1:8000\"}`",
		`server: {url: "http://h:1"}, repeats: 3`: `unknown key "repeats" in workload | it stands at the top of the spec, beside workload`,
	} {
		if got := problemsOf(t, rest+line+"}\n"); len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestLLMWholeContract plans the two sweeps of one variant that a comparison of servers begins with: cold with mixed
// arrivals over both sources, and its warm companion.
func TestLLMWholeContract(t *testing.T) {
	t.Parallel()
	cold, sum := newPlan(t, `version: 1
name: cold
repeats: 3
workload: {kind: llm, label: A, server: {url: "http://127.0.0.1:8000"}, ctx: [0, 32000, 150000], data: [legal, synth], data_dir: corpus,
  concurrency: [1, 2, 3], mixed: {short_ctx: 8000}, max_tokens: 1500, thinking: true, reasoning_effort: high, priority: 10, cache: cold}
`, plan.Options{})
	if sum.Points != 18 || sum.Cases != 6 || sum.Pairs != 24*3 || len(sum.Warnings) > 0 {
		t.Errorf("%+v", sum)
	}
	w := cold.Spec.Workload
	if time.Duration(w.MetricsSettle) != 2*time.Second || time.Duration(w.Mixed.Delay) != time.Second || w.KeepText ||
		w.DataFiles != (plan.DataFiles{Opinions: "opinions_cl.jsonl", Filings: "filings_recap.jsonl"}) || !*w.Thinking || *w.Priority != 10 {
		t.Errorf("%+v", w)
	}
	_, sum = newPlan(t, `version: 1
name: warm
repeats: 4
workload: {kind: llm, label: A, server: {url: "http://127.0.0.1:8000"}, ctx: [32000], data: [synth], concurrency: [1, 2, 3], max_tokens: 1500, cache: warm}
`, plan.Options{})
	if sum.Points != 3 || sum.Cases != 0 || sum.Pairs != 3*4 || len(sum.Warnings) > 0 {
		t.Errorf("%+v", sum)
	}
}

// TestValueWithinItself: YAML lets an alias stand within what it names.
func TestValueWithinItself(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"&x [*x]", "&x {a: *x}", "&x [*x, *x, *x]", "&x {a: *x, b: *x, c: [*x]}"} {
		got := problemsOf(t, "version: 1\nname: s\nworkload: {kind: llm, label: A, cache: cold, data: synth, ctx: 0, concurrency: 1, max_tokens: 5, "+
			`server: {url: "http://h:1"}, sampling: {stop: `+value+"}}\n")
		if len(got) != 1 || !strings.Contains(got[0], "too deep") {
			t.Errorf("%s: %.200q", value, got)
		}
	}
}

// TestLLMWarmup: a warm-up is what a server gets unless the sweep says otherwise, and another one measures another thing.
func TestLLMWarmup(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	for text, want := range map[string]int{"": 2, "  warmup: 0\n": 0, "  warmup: 20\n": 20} {
		p, _ := newPlan(t, strings.Replace(byURL, "  data_dir: my data\n", "  data_dir: my data\n"+text, 1), plan.Options{})
		if p.Spec.Workload.Warmup != want || p.Spec.Workload.Iterations != 0 {
			t.Errorf("%q: %d bursts, %d iterations", text, p.Spec.Workload.Warmup, p.Spec.Workload.Iterations)
		}
		keys[p.Key] = text
	}
	if len(keys) != 3 {
		t.Errorf("keys of measurements: %v", keys)
	}
}

// TestLLMFixed: the variables of a server whose values do not wait for its port.
func TestLLMFixed(t *testing.T) {
	t.Parallel()
	p, _ := newPlan(t, byCommand, plan.Options{})
	st, err := p.At(p.Arrays[0].Tasks[0].Pairs[0].Point, 0)
	if err != nil {
		t.Fatal(err)
	}
	fixed := st.Serving.Target.Fixed()
	delete(fixed, "ONE") // it differs from server to server
	if diff := cmp.Diff(map[string]string{"BOTH": "server"}, fixed); diff != "" {
		t.Error(diff)
	}
	if len(st.Serving.Target.Env) != 3 {
		t.Errorf("%v", st.Serving.Target.Env)
	}
}

// TestTimeOfManyGroups: 100 groups wait 3 s each whatever the server does.
func TestTimeOfManyGroups(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nname: s\nrepeats: 100\nresources: {time: TIME}\nworkload: {kind: llm, label: A, cache: cold, data: synth, ctx: 0, concurrency: 1, max_tokens: 5, SERVER}\n"
	for _, tt := range []struct {
		time, server, want string
	}{
		{"5m", `server: {url: "http://h:1"}`, ""},
		{"4m", `server: {url: "http://h:1"}`, "a task has 100 groups"},
		{"4m", `metrics_settle: 0s, server: {url: "http://h:1"}`, ""},
		{"4m", `starts: 3, server: {command: [x, "{port}"]}`, "take 5m0s of it without any request: more than resources.time (4m0s)"},
	} {
		_, sum := newPlan(t, strings.NewReplacer("TIME", tt.time, "SERVER", tt.server).Replace(head), plan.Options{})
		if got := strings.Join(sum.Warnings, "\n"); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s, %s: %q, want %q", tt.time, tt.server, got, tt.want)
		}
	}
}
