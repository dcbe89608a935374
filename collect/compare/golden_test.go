package compare_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cpbench/collect/compare"
	"cpbench/collect/compare/sheet"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

var digests = regexp.MustCompile(`\(plan [0-9a-f]{12}\)`)

// page is the Markdown of a report, without the digests of plans, which every new key of the spec changes.
func page(t *testing.T, r *compare.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := sheet.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return digests.ReplaceAllString(b.String(), "(plan 0123456789ab)")
}

func golden(t *testing.T, name string, r *compare.Report) {
	t.Helper()
	got, path := page(t, r), filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
	rectangular(t, got)
}

// rectangular checks that every table has as many cells in each line.
func rectangular(t *testing.T, page string) {
	t.Helper()
	width := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			width = 0
			continue
		}
		bars := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if width == 0 {
			width = bars
		}
		if bars != width {
			t.Errorf("%d bars, want %d: %s", bars, width, line)
		}
	}
}

// abRun has both variants in every start, with a mixed case, warm groups, groups that failed, and a bar in a label.
func abRun(t *testing.T) *folder.Run {
	t.Helper()
	text := strings.NewReplacer("label: [A, B]", `label: [A, "B|x"]`, "cache: cold", "cache: [cold, warm]", "max_tokens: 64",
		"max_tokens: 64\n  mixed: {short_ctx: 1000}\n  sampling: {temperature: 0}").Replace(llm)
	return world{
		facts: map[string]string{"governor": "performance"},
		value: func(p plan.Pair, st plan.Setting) float64 {
			g := st.Serving.Group
			v := (0.1 + 1e-5*float64(g.Ctx)) * (1 + 0.05*float64(p.Start)) * jitter(p.Start*3+p.Nth())
			switch {
			case g.Label != "A" && g.Ctx == 8000:
				v *= 0.85 * (1 + 0.01*float64(p.Start*p.Start%3))
			case g.Label != "A" && g.Cache == "warm" && p.Start == 4:
				return -1
			}
			if g.Cache == "warm" && p.Nth() > 1 {
				v /= 10
			}
			if g.Label == "A" {
				v *= jitter(p.Start * 5)
			}
			return v * (1 + 0.002*float64(p.Start*len(g.Label)%4))
		},
		touch: func(p plan.Pair, st plan.Setting, r *result.Result) {
			g := st.Serving.Group
			r.Group.PerPosition = make([]float64, map[bool]int{true: 3, false: 5}[g.Label == "A"])
			switch {
			case g.Mixed != nil && g.Ctx == 0:
				r.Outcome, r.Reason, r.Metrics = catalogue.Invalid, "no_overlap", nil
			case g.Label == "A" && g.Ctx == 0 && p.Start == 2:
				r.Outcome, r.Reason = catalogue.Error, "1 of 2 streams failed: cut"
			case g.Label != "A" && g.Ctx == 0 && g.Cache == "cold" && p.Nth() == 1:
				r.Warn(catalogue.ClientSuspect, "scheduling took 1.2 ms | at p99", "")
			}
		},
	}.fill(t, newRun(t, text))
}

func TestGoldenVariants(t *testing.T) {
	t.Parallel()
	golden(t, "variants.md", compared(t, one(abRun(t)), nil, compare.Options{By: "label", Keys: []string{"speculation_depth"}}))
}

func TestGoldenRefused(t *testing.T) {
	t.Parallel()
	golden(t, "refused.md", compared(t, one(abRun(t)), nil, compare.Options{By: "label"}))
}

func TestGoldenOneVariant(t *testing.T) {
	t.Parallel()
	w := world{value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Repeat) }}
	cold := w.fill(t, newRun(t, strings.Replace(served, "LABEL", "A", 1)))
	w.begin = stamp.Add(time.Hour)
	warm := w.fill(t, newRun(t, strings.NewReplacer("LABEL", "A", "cache: cold", "cache: warm").Replace(served)))
	golden(t, "one-variant.md", compared(t, []*folder.Run{cold, warm}, nil, compare.Options{}))
}

// TestGoldenModel compares two runs of a model, one of which has other sizes, another version and a search that got
// further.
func TestGoldenModel(t *testing.T) {
	t.Parallel()
	const sweep = `version: 1
name: m_1
matrix: {cp: [1, 4], tokens: [64, 128]}
repeats: 5
order: as-written
workload: {kind: model, mode: inference, command: ["true"], ranks: cp, point: {tokens: tokens}, iterations: 10, max_fit: {axis: tokens, from: 64, to: 512, step: 64}}
`
	at := func(speed float64, grow int64) world {
		return world{
			value: func(p plan.Pair, st plan.Setting) float64 {
				return speed * float64(st.Ranks) * (1 + 0.01*float64(p.Repeat*p.Repeat%7))
			},
			touch: func(p plan.Pair, st plan.Setting, r *result.Result) {
				if p.Case != "" {
					fits, oom := 320+grow*int64(st.Ranks), 384+grow*int64(st.Ranks)
					r.MaxFit = &result.MaxFit{Axis: "tokens", Fits: &fits, OOM: &oom, Ended: "closed"}
					r.Metrics = nil
					return
				}
				r.Set(catalogue.PeakAllocatedBytes, 3e9/float64(st.Ranks)+1e6*float64(grow))
				r.Warn(catalogue.Unsteady, fmt.Sprintf("not settled after %d steps", 20+grow), "")
			},
		}
	}
	a := at(0.1, 0).fill(t, newRun(t, sweep))
	w := at(0.097, 32)
	w.begin = stamp.Add(26 * time.Hour)
	touch := w.touch
	w.touch = func(p plan.Pair, st plan.Setting, r *result.Result) {
		touch(p, st, r)
		r.Provenance["cpbench"], r.Provenance["host"] = "v2", "n2"
		if st.Ranks == 4 {
			r.Provenance["gpu"] = "H200 *fast*"
		}
	}
	b := w.fill(t, newRun(t, strings.Replace(sweep, "[64, 128]", "[128, 256]", 1)))
	golden(t, "model.md", compared(t, one(a), one(b), compare.Options{Accept: []string{"cpbench"}}))
}

// TestManyUnlike: rows that were refused for their prompts, or failed in the same way, stand in one line however many they
// are.
func TestManyUnlike(t *testing.T) {
	t.Parallel()
	text := strings.Replace(served, "ctx: [0, 100]", "ctx: [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200, 1300]", 1)
	w := world{value: func(plan.Pair, plan.Setting) float64 { return 0.2 }}
	own := func(salt string) func(plan.Pair, plan.Setting, *result.Result) {
		return func(_ plan.Pair, st plan.Setting, r *result.Result) {
			if r.Group.Prompts = fmt.Sprint(salt, st.Serving.Group.Ctx, "aaaaaaaaaaaa"); salt == "x" {
				r.Outcome = catalogue.Error
			}
		}
	}
	w.touch = own("a")
	a := one(w.fill(t, newRun(t, strings.Replace(text, "LABEL", "A", 1))))
	for salt, want := range map[string]string{
		"b": "- all 14 rows: `prompts_sha256` (a0aaaaaaaaaa, a1000aaaaaaa, a100aaaaaaaa, a1100aaaaaaa and 10 more; b0aaaaaaaaaa, ",
		"x": "- B: 3 error: cache=cold data=synth ctx=0 concurrency=2 cache label=cold; ",
	} {
		w.touch, w.begin = own(salt), stamp.Add(time.Hour)
		r := compared(t, a, one(w.fill(t, newRun(t, strings.Replace(text, "LABEL", "B", 1)))), compare.Options{})
		got := page(t, r)
		_, list, ok := strings.Cut(got, want)
		if n := strings.Count(list, "\n- "); !ok || n != 0 {
			t.Errorf("%s: %v, %d more lines: %s", salt, ok, n, got)
		}
	}
}

// TestFold: of hundreds of rows the page shows those that claim something, and says how many it leaves out.
func TestFold(t *testing.T) {
	t.Parallel()
	var tokens []string
	for n := 1; n <= 300; n++ {
		tokens = append(tokens, fmt.Sprint(n))
	}
	text := strings.NewReplacer("tokens: [64, 128]", "tokens: ["+strings.Join(tokens, ", ")+"]", "repeats: 4", "repeats: 2").Replace(model)
	w := world{value: func(p plan.Pair, st plan.Setting) float64 {
		v := jitter(p.Repeat + st.Values["tokens"].(int))
		if st.Values["tokens"].(int) > 290 {
			v *= float64(st.Ranks)
		}
		return v
	}}
	r := compared(t, one(w.fill(t, newRun(t, text))), nil, compare.Options{By: "cp", Metrics: []string{catalogue.StepSeconds}})
	got := page(t, r)
	lines := strings.Count(got, "\n| ") - 12 // of the tables, without their heads
	if n := strings.Count(got, "| slower "); n != 10 || lines > 110 {
		t.Errorf("%d rows that claim something, %d lines", n, lines)
	}
	if !strings.Contains(got, "200 more rows without a claim are left out here; --json has all.") || !strings.Contains(got, "Geometric mean of the ratios of 300 rows") {
		t.Errorf("the end is %s", got[len(got)-300:])
	}
}
