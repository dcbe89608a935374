package table

import (
	"bytes"
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

const serving = `version: 1
name: llm_ab
zip: [{label: [A, "B|x"], host: [a, b]}]
repeats: 3
order: as-written
workload:
  kind: llm
  server: {url: "http://{host}:8000"}
  cache: [cold, warm]
  data: synth
  ctx: [0, 8000]
  concurrency: [2]
  mixed: {short_ctx: 1000}
  max_tokens: 256
  thinking: true
  reasoning_effort: high
  sampling: {temperature: 0}
columns: [{name: "tok/s per stream", value: "aggregate_tokens_per_second / concurrency"}]
`

// serve makes up the result of a group: TTFT of so many seconds, and two streams, or three in the mixed case.
func serve(pair plan.Pair, g plan.Group, r *result.Result, ttft float64) {
	r.Start = pair.Start
	label := "cold"
	if g.Cache == "warm" && pair.Nth() > 1 {
		label = "warm_repeat"
	}
	n := max(g.Concurrency, 3*btoi(g.Mixed != nil))
	r.Group = &result.Group{Cache: label, Audit: "clean", Client: "client_ok", Streams: n, Succeeded: n, Length: 1, Counts: "server_usage", Prompts: "5a"}
	r.Set(catalogue.TTFTSeconds, ttft)
	r.Set(catalogue.FirstVisibleSeconds, ttft+0.5*float64(btoi(g.Label == "A"))) // A thinks before it answers
	r.Set(catalogue.PromptUsedTokens, 150+float64(g.Ctx))
	r.Set(catalogue.DecodeTokensPerSecond, 40)
	r.Set(catalogue.AggregateTokensPerSecond, 72.5+float64(pair.Repeat))
	r.Set(catalogue.CachedFraction, 0.985*float64(btoi(label != "cold")))
	for k, v := range map[string]string{
		"server": "vllm", "server_version": "0.25.1", "served_model": "m_1", "served_root": "/models/m", "prompts": "synth/1", "cpbench": "v0-test",
		"served_limit_tokens": "32768",
	} {
		r.Provenance[k] = v
	}
}

func fillServing(t *testing.T) *Table {
	t.Helper()
	run := newRun(t, serving)
	measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
		g := st.Serving.Group
		ttft := 0.1 + float64(g.Ctx)*1e-4 + 0.01*float64(pair.Repeat)
		if g.Cache == "warm" && pair.Nth() > 1 {
			ttft /= 10
		}
		serve(pair, g, r, ttft)
		switch {
		case g.Mixed != nil && g.Ctx > 0:
			r.Set(catalogue.LongTTFTSeconds, 2*ttft)
			r.Set(catalogue.ShortGapBeforeP50Seconds, 0.02)
			r.Set(catalogue.ShortGapDuringP50Seconds, 0.2)
		case g.Mixed != nil:
			r.Outcome, r.Reason = catalogue.Invalid, "no_overlap"
			r.Metrics = map[string]*float64{}
		case g.Label != "A" && g.Ctx == 8000 && g.Cache == "cold" && pair.Repeat == 2:
			r.Outcome, r.Reason, r.Group.Succeeded, r.Group.Truncated = catalogue.Error, "1 of 2 streams failed: cut", 1, 1
		case g.Label != "A" && g.Ctx == 8000 && g.Cache == "warm" && pair.Nth() == 3:
			r.Outcome, r.Reason, r.Group.Cache = catalogue.Invalid, "evicted", "evicted"
		case g.Label != "A" && g.Ctx == 0 && pair.Repeat == 3:
			return false
		case g.Label == "A" && g.Ctx == 0 && pair.Repeat == 1:
			r.Metrics[catalogue.DecodeTokensPerSecond] = nil
			r.Warn(catalogue.ClientSuspect, "scheduling took 1.2 ms", "")
		}
		return true
	})
	return build(t, run)
}

func TestServingGolden(t *testing.T) {
	t.Parallel()
	table := fillServing(t)
	golden(t, "serving.md", table.WriteMarkdown)
	golden(t, "serving.txt", table.WriteText)
	golden(t, "serving.csv", table.WriteCSV)
	golden(t, "serving-raw.csv", table.WriteRaw)
}

func TestServingIsRectangular(t *testing.T) {
	t.Parallel()
	table := fillServing(t)
	for name, write := range map[string]func(io.Writer) error{"table": table.WriteCSV, "raw": table.WriteRaw} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		all, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
		want := map[string]int{"table": len(table.Rows) + 1, "raw": len(table.Set.Pairs) + 1}[name]
		if err != nil || len(all) != want {
			t.Errorf("%s: %d lines, want %d: %v", name, len(all), want, err)
		}
	}
}

// TestServingLabelsStayApart: cold, warm and evicted repeats are never in one mean.
func TestServingLabelsStayApart(t *testing.T) {
	t.Parallel()
	table := fillServing(t)
	for _, r := range table.Rows {
		for _, p := range r.pairs {
			if got := p.CacheLabel(); got != r.Serving.Cache {
				t.Errorf("a repeat that was %s stands in a row of %s", got, r.Serving.Cache)
			}
		}
		if table.axis(&r, "cache") == "cold" && r.Asked != 3 || r.Serving.Cache == warmRepeat && r.Asked > 2 {
			t.Errorf("%s has %d repeats", table.label(r.Values), r.Asked)
		}
	}
	if n := len(table.Rows); n != 8+2*8+1 { // the cold points, the warm ones twice, and one evicted
		t.Errorf("%d rows", n)
	}
}

// Rule 24 of the accounting: the page says how many of the prompts behind one barrier were different.
func TestServingUniquePrompts(t *testing.T) {
	t.Parallel()
	run := newRun(t, serving)
	measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
		serve(pair, st.Serving.Group, r, 1)
		if r.Group.Unique = r.Group.Streams; st.Serving.Group.Label == "A" && pair.Nth() == 1 {
			r.Group.Unique--
		}
		return true
	})
	// Two sizes under two caches of a group with 2 streams and one with 3, three repeats of two variants; of A the first
	// of each has one prompt twice.
	want := Field{"Unique prompts", "112 of 120 within their groups"}
	if meta := build(t, run).servingMeta(); !slices.Contains(meta, want) {
		t.Errorf("%q is not in %q", want, meta)
	}
}

// TestServingDrafts: accepted drafts by position have a table of their own, in which a start is one value.
func TestServingDrafts(t *testing.T) {
	t.Parallel()
	run := newRun(t, `version: 1
name: s
repeats: 2
workload: {kind: llm, label: [A, B], cache: cold, data: synth, ctx: 0, concurrency: 2, max_tokens: 5, starts: 3, server: {command: ["x{label}", "{port}"]}}
`)
	measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
		serve(pair, st.Serving.Group, r, 1)
		if st.Serving.Group.Label == "A" {
			r.Group.PerPosition = []float64{0.6 + 0.1*float64(pair.Start) + 0.01*float64(pair.Nth()), 0.25}
		}
		return true
	})
	table := build(t, run)
	var page bytes.Buffer
	table.writeDrafts(&page)
	// The starts have 0.715, 0.815 and 0.915; no share is above 1.
	want := "| A     | cold  | synth |   0 |       2 | 0.815 (0.567–1.00) | 0.250 (0.250–0.250) | 3 starts, 6 repeats |"
	if text := page.String(); !strings.Contains(text, want) || strings.Contains(text, "| B ") || !strings.Contains(text, "mean over the starts") {
		t.Errorf("%s", text)
	}
	var whole bytes.Buffer
	if err := table.WriteMarkdown(&whole); err != nil || !strings.Contains(whole.String(), "## Accepted drafts by position") {
		t.Errorf("%v, the page lacks it:\n%s", err, whole.String())
	}
}

// TestServingByStart: with several starts a value is the mean over starts, and its deviation that between starts.
func TestServingByStart(t *testing.T) {
	t.Parallel()
	run := newRun(t, `version: 1
name: s
repeats: 2
workload: {kind: llm, label: A, cache: cold, data: synth, ctx: 0, concurrency: 2, max_tokens: 5, starts: 3, server: {command: [x, "{port}"]}}
`)
	measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
		serve(pair, st.Serving.Group, r, float64(pair.Start)+0.1*float64(pair.Nth()))
		return pair.Start != 3 || pair.Nth() == 1 // of the third start only one repeat is there
	})
	table := build(t, run)
	r := table.Rows[0]
	// Starts 1, 2 and 3 have 1.15, 2.15 and 3.1 s: every start counts once, however many repeats it has.
	if mean, sd := r.Metrics[catalogue.TTFTSeconds], r.Serving.SD[catalogue.TTFTSeconds]; len(table.Rows) != 1 || r.Serving.Units != 3 ||
		math.Abs(mean-(1.15+2.15+3.1)/3) > 1e-12 || math.Abs(sd-0.9751) > 1e-3 {
		t.Errorf("%d rows, %d units, mean %v, sd %v", len(table.Rows), r.Serving.Units, mean, sd)
	}
	if got := table.behind(&r); got != "3 starts, 5 of 6 repeats" {
		t.Errorf("n is %q", got)
	}
}

func TestServingNothingMeasured(t *testing.T) {
	t.Parallel()
	golden(t, "serving-empty.md", build(t, newRun(t, serving)).WriteMarkdown)
}

// A server by URL that began anew between the repeats of a row is a doubt of that row; one that the tasks start is not,
// where the start is the unit.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	owned := strings.Replace(serving, `server: {url: "http://{host}:8000"}`, "starts: 2\n  server: {command: [serve, \"{port}\", \"{host}\"]}", 1)
	for name, tt := range map[string]struct {
		spec string
		want int
	}{"by URL": {serving, 4}, "by its command": {owned, 0}} {
		run := newRun(t, tt.spec)
		measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
			serve(pair, st.Serving.Group, r, 0.1)
			r.Provenance["server_started"] = "2026-11-01T00:00:00Z"
			if st.Serving.Group.Label == "A" && (pair.Repeat == 1 || pair.Start > 1) {
				r.Provenance["server_started"] = "2026-11-01T02:00:00Z"
			}
			return true
		})
		rows := 0
		tab := build(t, run)
		for _, r := range tab.Rows {
			for _, n := range r.Notes {
				rows += btoi(tab.Notes[n].Code == catalogue.ServerRestarted)
			}
		}
		if rows != tt.want {
			t.Errorf("%s: %d rows doubt it, want %d", name, rows, tt.want)
		}
	}
}
