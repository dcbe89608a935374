package compare_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/collect/compare"
	"cpbench/collect/compare/cell"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

const model = `version: 1
name: m
matrix: {cp: [1, 4], tokens: [64, 128]}
repeats: 4
workload: {kind: model, mode: inference, command: ["true"], ranks: cp, point: {tokens: tokens}, dtype: bf16, iterations: 10}
`

// llm holds both variants; each of its tasks starts both servers.
const llm = `version: 1
name: ab
zip: [{label: [A, B], drafts: [3, 5]}]
repeats: 2
workload:
  kind: llm
  server: {command: [serve, --port, "{port}", --drafts, "{drafts}"]}
  starts: 4
  cache: cold
  data: synth
  ctx: [0, 8000]
  concurrency: [2]
  max_tokens: 64
`

func steps(f float64) world {
	return world{value: func(p plan.Pair, st plan.Setting) float64 { return f * float64(st.Ranks) * jitter(p.Repeat) }}
}

// TestSignAndBase holds the arithmetic that a reader publishes: B over A, with A as the base, and the words for it.
func TestSignAndBase(t *testing.T) {
	t.Parallel()
	slow, fast := steps(0.100).fill(t, newRun(t, model)), steps(0.080)
	fast.begin = stamp.Add(time.Hour)
	quick := fast.fill(t, newRun(t, model))
	for _, tt := range []struct {
		a, b    *folder.Run
		ratio   float64
		verdict cell.Verdict
	}{{slow, quick, 0.8, cell.Faster}, {quick, slow, 1.25, cell.Slower}} {
		r := compared(t, one(tt.a), one(tt.b), compare.Options{})
		if len(r.Rows) != 4 || !r.Comparable() {
			t.Fatalf("%d rows, comparable %v", len(r.Rows), r.Comparable())
		}
		for _, row := range r.Rows {
			c := row.Cells[0]
			if c.Metric != catalogue.StepSeconds || !c.Ratio || math.Abs(*c.Estimate-tt.ratio) > 1e-9 || c.Verdict != tt.verdict || c.Method != "Welch" {
				t.Errorf("%v: %s %v %s by %s, want %v %s", row.Values, c.Metric, *c.Estimate, c.Verdict, c.Method, tt.ratio, tt.verdict)
			}
			if !(*c.Lo < tt.ratio && tt.ratio < *c.Hi) || c.A.N != 4 || c.B.N != 4 || c.A.SD == nil {
				t.Errorf("%v: %v to %v, n %d and %d", row.Values, *c.Lo, *c.Hi, c.A.N, c.B.N)
			}
			if m := row.Cells[1]; m.Metric != catalogue.PeakAllocatedBytes || m.Verdict != cell.Equivalent || m.Method != cell.ByRange {
				t.Errorf("memory: %+v", m)
			}
		}
		if sum := r.Metrics[0]; sum.Of != 4 || math.Abs(*sum.GeometricMean-tt.ratio) > 1e-9 || sum.Verdicts[tt.verdict] != 4 {
			t.Errorf("over all rows: %+v", sum)
		}
		if r.Tested != 4 || r.Claimed != 4 || r.Survive != 4 || math.Abs(r.ByChance-0.2) > 1e-12 {
			t.Errorf("%d tests, %d claimed, %d survive, %v by chance", r.Tested, r.Claimed, r.Survive, r.ByChance)
		}
	}
}

// TestStartsAreTheUnit is rule 28 of the accounting: repeats within a start only give its value, and starts are paired
// by the task that held both.
func TestStartsAreTheUnit(t *testing.T) {
	t.Parallel()
	w := world{value: func(p plan.Pair, st plan.Setting) float64 {
		v := 0.2 * (1 + 0.3*float64(p.Start)) * jitter(p.Nth()) // starts differ far more than the variants
		if st.Serving.Group.Label == "B" {
			v *= 0.9 * (1 + 0.001*float64(p.Start))
		}
		return v
	}}
	run := w.fill(t, newRun(t, llm))
	r := compared(t, one(run), nil, compare.Options{By: "label"})
	if d := cmp.Diff([]string{"label=A", "drafts=3"}, r.A.What); d != "" || r.A.Name != "A" || r.B.Name != "B" {
		t.Error(d, r.A.Name, r.B.Name)
	}
	if d := cmp.Diff([]string{"cache", "data", "ctx", "concurrency", "cache label"}, r.Axes); d != "" {
		t.Error(d)
	}
	for _, row := range r.Rows {
		c := row.Cells[0]
		if row.A.Units != 4 || row.A.UnitOf != "start" || row.A.Good != 8 || c.A.N != 4 {
			t.Errorf("%d units of %s from %d repeats", row.A.Units, row.A.UnitOf, row.A.Good)
		}
		if c.Method != "paired by start in one task" || c.Pairs != 4 || c.Verdict != cell.Faster || *c.Hi > 0.92 || *c.Lo < 0.88 {
			t.Errorf("%s with %d pairs: %s, %v to %v", c.Method, c.Pairs, c.Verdict, *c.Lo, *c.Hi)
		}
		if rate := row.Cells[1]; rate.Metric != catalogue.DecodeTokensPerSecond || rate.Verdict != cell.Faster || *rate.Estimate < 1 {
			t.Errorf("a rate: %+v", rate)
		}
	}
	if o := r.Order; !o.Interleaved || o.Shared != 4 || o.GapSeconds != nil {
		t.Errorf("order: %+v", o)
	}
	// The other way round, by the values that the user names.
	back := compared(t, one(run), nil, compare.Options{By: "label", Base: "B", Other: "A"})
	if c := back.Rows[0].Cells[0]; back.A.Name != "B" || c.Verdict != cell.Slower || math.Abs(*c.Estimate**r.Rows[0].Cells[0].Estimate-1) > 1e-12 {
		t.Errorf("with B as the base: %s %+v", back.A.Name, c)
	}
}

// TestTooFew: one unit a side is no evidence, whatever it shows.
func TestTooFew(t *testing.T) {
	t.Parallel()
	text := strings.Replace(model, "repeats: 4", "repeats: 1", 1)
	a := steps(0.1).fill(t, newRun(t, text))
	w := steps(0.01)
	w.begin = stamp.Add(time.Hour)
	r := compared(t, one(a), one(w.fill(t, newRun(t, text))), compare.Options{})
	for _, row := range r.Rows {
		for _, c := range row.Cells {
			if c.Verdict != cell.TooFew || c.P != nil || c.Visible != nil || c.A.SD != nil && c.Metric == catalogue.StepSeconds {
				t.Errorf("%s: %+v", c.Metric, c)
			}
		}
	}
	if !strings.Contains(fmt.Sprint(r.Notes), "no evidence of repeatability") || r.Tested != 0 {
		t.Errorf("%v, %d tests", r.Notes, r.Tested)
	}
}

// TestFailuresAreSeen: what failed is in no mean, and the row says so.
func TestFailuresAreSeen(t *testing.T) {
	t.Parallel()
	text := strings.Replace(llm, "starts: 4", "starts: 3", 1)
	run := world{
		value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Start*3+p.Nth()) },
		touch: func(p plan.Pair, st plan.Setting, r *result.Result) {
			switch g := st.Serving.Group; {
			case g.Label == "B" && g.Ctx == 0 && p.Start == 2:
				r.Outcome, r.Reason = catalogue.Invalid, "not_idle"
			case g.Label == "A" && g.Ctx == 0 && p.Start == 1 && p.Nth() == 1:
				r.Outcome, r.Group.Succeeded, r.Group.Truncated = catalogue.Error, 1, 1
				r.Set(catalogue.TTFTSeconds, 99)
			}
		},
	}.fill(t, newRun(t, text))
	r := compared(t, one(run), nil, compare.Options{By: "label"})
	row, c := r.Rows[0], r.Rows[0].Cells[0]
	if row.A.Good != 5 || row.A.Units != 3 || row.B.Good != 4 || row.B.Units != 2 || c.A.Mean > 1 {
		t.Errorf("A %+v, B %+v, mean %v", row.A, row.B, c.A.Mean)
	}
	if c.Pairs != 2 || c.Unpaired != 1 {
		t.Errorf("%d pairs, %d without a partner", c.Pairs, c.Unpaired)
	}
	notes := fmt.Sprint(r.Notes)
	for _, want := range []string{"B: 2 of 6 are in no mean: 2 invalid (not_idle)", "A: 1 of 6 are in no mean: 1 error"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note %q in %s", want, notes)
		}
	}
	if row.A.Streams != 12 || row.A.Success != 11 {
		t.Errorf("%d of %d streams", row.A.Success, row.A.Streams)
	}
}

// TestOneVariant: a cold and a warm run of one variant make a report without a difference.
func TestOneVariant(t *testing.T) {
	t.Parallel()
	const warm = `version: 1
name: one
repeats: 3
workload: {kind: llm, server: {url: "http://h:8000"}, label: A, cache: CACHE, data: synth, ctx: 0, concurrency: 2, max_tokens: 64}
`
	w := world{value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Repeat) }}
	cold := w.fill(t, newRun(t, strings.Replace(warm, "CACHE", "cold", 1)))
	w.begin = stamp.Add(time.Hour)
	hot := w.fill(t, newRun(t, strings.Replace(warm, "CACHE", "warm", 1)))
	r := compared(t, []*folder.Run{cold, hot}, nil, compare.Options{})
	var got []string
	for _, row := range r.Rows {
		got = append(got, fmt.Sprintf("%s %s n=%d", row.Values[len(row.Values)-2], row.Values[len(row.Values)-1], row.Cells[0].A.N))
		if row.B != nil || row.Cells[0].B != nil || row.Cells[0].Estimate != nil {
			t.Errorf("something is compared: %+v", row)
		}
	}
	// The first repeat of a warm group fills the cache, and is in no row of the others.
	if len(got) != 3 || r.B != nil || r.Order != nil || !r.Comparable() {
		t.Errorf("%v", got)
	}
	both, err := compare.New(one(cold), one(hot), compare.Options{})
	if err != nil || both.Comparable() || len(both.Rows) != 0 || len(both.Single) != 3 {
		t.Fatalf("cold against warm: %v %+v", err, both)
	}
	if text := strings.Join(both.Apart(), "\n"); !strings.Contains(text, "--a COLD --a WARM") {
		t.Errorf("said %q", text)
	}
}

// TestTwice: the same execution counts once, wherever it stands.
func TestTwice(t *testing.T) {
	t.Parallel()
	run := steps(0.1).fill(t, newRun(t, model))
	other := copied(t, run)
	for _, tt := range []struct {
		name string
		a, b []*folder.Run
		want []string
	}{
		{"one folder on both sides", one(run), one(run), []string{"is given twice"}},
		{"one folder twice on a side", []*folder.Run{run, run}, nil, []string{"is given twice"}},
		{"a copy", one(run), one(other), []string{"the same execution stands in two places", run.Dir, other.Dir, "repeat 1, attempt 1"}},
	} {
		_, err := compare.New(tt.a, tt.b, compare.Options{})
		var m *compare.Mistake
		if !errors.As(err, &m) {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(m.Text, want) {
				t.Errorf("%s: %q lacks %q", tt.name, m.Text, want)
			}
		}
	}
}

// TestSides are sides that cannot be told.
func TestSides(t *testing.T) {
	t.Parallel()
	m := steps(0.1).fill(t, newRun(t, model))
	w := world{value: func(plan.Pair, plan.Setting) float64 { return 0.2 }}
	l := w.fill(t, newRun(t, llm))
	w.begin = stamp.Add(time.Hour)
	again := w.fill(t, newRun(t, llm))
	for _, tt := range []struct {
		name string
		a, b []*folder.Run
		o    compare.Options
		want string
	}{
		{"two kinds", one(m), one(l), compare.Options{}, "of `kind: model`"},
		{"no such axis", one(m), nil, compare.Options{By: "colour"}, `no run has an axis "colour"`},
		{"not two values", one(m), nil, compare.Options{By: "tokens", Base: "64", Other: "65"}, "no execution for side B"},
		{"both variants on both sides", one(l), one(again), compare.Options{}, "side A holds label=A and label=B"},
		{"unknown metric", one(m), nil, compare.Options{By: "cp", Metrics: []string{"speed"}}, `unknown metric "speed"`},
		{"an axis of one run", one(m), one(steps(1).fill(t, newRun(t, strings.Replace(model, "cp: [1, 4],", "cp: [1], size: [s],", 1)))), compare.Options{}, `axis "size"`},
	} {
		_, err := compare.New(tt.a, tt.b, tt.o)
		var mistake *compare.Mistake
		if !errors.As(err, &mistake) || !strings.Contains(mistake.Text, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if r := compared(t, []*folder.Run{l, again}, nil, compare.Options{By: "label"}); r.Rows[0].A.Units != 8 {
		t.Errorf("two runs with both variants have %d starts", r.Rows[0].A.Units)
	}
}

// TestOrderOfTime: what drifts between two blocks speaks for one of them.
func TestOrderOfTime(t *testing.T) {
	t.Parallel()
	a := steps(0.1).fill(t, newRun(t, model)) // 16 executions, a minute each
	w := steps(0.1)
	w.begin = stamp.Add(time.Hour)
	r := compared(t, one(a), one(w.fill(t, newRun(t, model))), compare.Options{})
	o := r.Order
	if o.Interleaved || o.GapSeconds == nil || *o.GapSeconds != (44*time.Minute+30*time.Second).Seconds() || o.LaterSeconds != 3600 {
		t.Errorf("%+v", o)
	}
	told := func(r *compare.Report) bool {
		return slices.ContainsFunc(r.Notes, func(n compare.Note) bool { return n.Code == catalogue.NotInterleaved })
	}
	if !told(r) {
		t.Errorf("no warning: %v", r.Notes)
	}
	// One execution of A that was run again at the end makes no turns of two blocks.
	w.begin, w.touch = stamp.Add(time.Hour), nil
	late := steps(0.1)
	late.touch = func(p plan.Pair, _ plan.Setting, x *result.Result) {
		if p.Repeat == 4 && p.Values[0] == "1" {
			x.Started, x.Ended = stamp.Add(3*time.Hour), stamp.Add(3*time.Hour+time.Minute)
		}
	}
	r = compared(t, one(late.fill(t, newRun(t, model))), one(w.fill(t, newRun(t, model))), compare.Options{})
	if r.Order.Interleaved || !told(r) {
		t.Errorf("%+v", r.Order)
	}
}

// TestTrend: a value that only grows over the repeats is told.
func TestTrend(t *testing.T) {
	t.Parallel()
	text := strings.Replace(model, "repeats: 4", "repeats: 5\norder: as-written", 1)
	w := world{value: func(p plan.Pair, _ plan.Setting) float64 { return 0.1 + 0.001*float64(p.Repeat) }}
	a := w.fill(t, newRun(t, text))
	b := steps(0.1)
	b.begin = stamp.Add(time.Hour)
	r := compared(t, one(a), one(b.fill(t, newRun(t, text))), compare.Options{})
	found := 0
	for _, n := range r.Notes {
		if n.Code == catalogue.Trend {
			found++
			if !strings.HasPrefix(n.Text, "A: step_seconds") {
				t.Errorf("said %q", n.Text)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d trends in %v", found, r.Notes)
	}
}

// TestFlags: a doubt about one side alone leaves nothing to conclude, one about both is a footnote.
func TestFlags(t *testing.T) {
	t.Parallel()
	throttled := func(_ plan.Pair, _ plan.Setting, r *result.Result) { r.Warn(catalogue.Throttled, "hot", "") }
	plain, hot := steps(0.1), steps(0.2)
	hot.touch, hot.begin = throttled, stamp.Add(time.Hour)
	a, b := plain.fill(t, newRun(t, model)), hot.fill(t, newRun(t, model))
	if c := compared(t, one(a), one(b), compare.Options{}).Rows[0].Cells[0]; c.Verdict != cell.NotAssessed || c.Why != "only B is marked throttled" {
		t.Errorf("%s: %s", c.Verdict, c.Why)
	}
	plain.touch, plain.begin = throttled, stamp.Add(2*time.Hour)
	r := compared(t, one(b), one(plain.fill(t, newRun(t, model))), compare.Options{})
	if c := r.Rows[0].Cells[0]; c.Verdict != cell.Faster || !strings.Contains(fmt.Sprint(r.Notes), "both: hot") {
		t.Errorf("%s, %v", c.Verdict, r.Notes)
	}
}

// TestManyRows: thousands of rows give the same report every time, and the JSON form has no number that is none.
func TestManyRows(t *testing.T) {
	t.Parallel()
	var tokens []string
	for n := 1; n <= 400; n++ {
		tokens = append(tokens, fmt.Sprint(n))
	}
	text := strings.NewReplacer("tokens: [64, 128]", "tokens: ["+strings.Join(tokens, ", ")+"]", "repeats: 4", "repeats: 2").Replace(model)
	run := steps(0.1).fill(t, newRun(t, text))
	var first []byte
	for range 2 {
		r := compared(t, one(run), nil, compare.Options{By: "cp"})
		if len(r.Rows) != 400 || r.Rows[0].Values[0] != "1" || r.Rows[399].Values[0] != "400" {
			t.Fatalf("%d rows, from %v to %v", len(r.Rows), r.Rows[0].Values, r.Rows[len(r.Rows)-1].Values)
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if d := cmp.Diff(string(first), string(data)); d != "" {
			t.Fatal(d)
		}
	}
}
