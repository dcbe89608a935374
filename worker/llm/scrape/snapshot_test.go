package scrape

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T, name string) Snapshot {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

func parse(t *testing.T, text string) Snapshot {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reading is everything that is known of a snapshot; what is not known has no entry.
func reading(s Snapshot) map[string]float64 {
	out := map[string]float64{}
	put := func(name string, v *float64) {
		if v != nil {
			out[name] = *v
		}
	}
	for q, name := range map[quantity]string{
		running: "running", waiting: "waiting", promptTokens: "prompt", generationTokens: "generated", finished: "finished",
		preempted: "preempted", cacheQueries: "queries", cacheHits: "hits", rounds: "rounds", proposed: "proposed", accepted: "accepted",
	} {
		put(name, s.sum(q))
	}
	put("lifetime length", s.single(acceptLength))
	put("lifetime rate", s.single(acceptRate))
	for i, v := range s.positions() {
		out["accepted at "+string(rune('0'+i))] = v
	}
	return out
}

func TestNamesOfServersAndVersions(t *testing.T) {
	t.Parallel()
	sglang := map[string]float64{
		"running": 0, "waiting": 0, "prompt": 2000, "generated": 450, "finished": 8, "queries": 2000, "hits": 704,
		"lifetime length": 2.75, "lifetime rate": 0.875,
	}
	for file, want := range map[string]map[string]float64{
		"vllm-2025-04.txt": {"running": 0, "waiting": 0, "prompt": 65600, "generated": 9001, "finished": 42, "preempted": 0, "queries": 4100, "hits": 1200},
		"vllm-2026.txt": {
			"running": 0, "waiting": 0, "prompt": 1500, "generated": 400, "finished": 4, "preempted": 0, "queries": 1500, "hits": 64,
			"rounds": 140, "proposed": 420, "accepted": 240, "accepted at 0": 120, "accepted at 1": 80, "accepted at 2": 40,
		},
		"vllm-openmetrics.txt":  {"running": 1, "waiting": 2, "prompt": 77, "generated": 33},
		"vllm-old-engine.txt":   {"running": 0, "waiting": 0, "generated": 10, "lifetime rate": 0.625},
		"sglang-colon.txt":      sglang,
		"sglang-underscore.txt": sglang,
		// Without the counter of cached tokens the sum of all prompt tokens is not known.
		"llamacpp-b6700.txt": {"running": 1, "waiting": 3, "generated": 400},
		"llamacpp-b10519.txt": {
			"running": 0, "waiting": 0, "prompt": 1000, "generated": 400, "queries": 1000, "hits": 88,
			"rounds": 100, "proposed": 300, "accepted": 150, "accepted at 0": 80, "accepted at 1": 50, "accepted at 2": 20,
		},
		"tgi-3.txt":             {"running": 0, "waiting": 0, "prompt": 5000, "generated": 1000, "finished": 10},
		"trtllm-prometheus.txt": {"running": 0, "waiting": 0, "prompt": 700, "generated": 210, "finished": 7, "proposed": 90, "accepted": 60},
	} {
		if diff := cmp.Diff(want, reading(load(t, file))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestEveryGoldenTextIsRead(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d texts: %v", len(files), err)
	}
	for _, f := range files {
		if len(load(t, filepath.Base(f)).series) == 0 {
			t.Errorf("%s has no series", f)
		}
	}
}

func TestCountersWithAndWithoutTotal(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 5\n",
		"# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens 5\n",
		"vllm:prompt_tokens_total 5\n",
	} {
		s := parse(t, text)
		if got := s.sum(promptTokens); got == nil || *got != 5 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"vllm:prompt_tokens_total{a=\"b\" 5\n":                                       "text format parsing error",
		"vllm:prompt_tokens_total five\n":                                            "text format parsing error",
		"vllm:prompt_tokens_total 5":                                                 "unexpected end",
		"vllm:prompt_tokens_total{a=\"b\"} 5\nvllm:prompt_tokens_total{a=\"b\"} 6\n": "stands there twice",
		"# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total NaN\n":    "is NaN",
		"# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total +Inf\n":   "is +Inf",
		"<!DOCTYPE html><html>not metrics</html>\n":                                  "text format parsing error",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestLabelsAreText(t *testing.T) {
	t.Parallel()
	s := parse(t, "vllm:prompt_tokens_total{model_name=\"a \\\"b\\\" {x=\\\"1\\\"} vllm:prompt_tokens_total 9\\n\"} 5\nvllm:prompt_tokens_total{model_name=\"\"} 6\n")
	if got := s.sum(promptTokens); got == nil || *got != 11 {
		t.Errorf("sum %v", got)
	}
}

func TestPositionsNeedEveryPlace(t *testing.T) {
	t.Parallel()
	const name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
	for text, want := range map[string][]float64{
		name + "{position=\"0\"} 3\n" + name + "{position=\"1\"} 2\n": {3, 2},
		name + "{position=\"0\"} 3\n" + name + "{position=\"2\"} 2\n": nil,
		name + "{position=\"x\"} 3\n":                                 nil,
		name + "{position=\"-1\"} 3\n":                                nil,
		"vllm:prompt_tokens_total 1\n":                                nil,
	} {
		s := parse(t, text)
		if diff := cmp.Diff(want, s.positions()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	ten := parse(t, func() string {
		var b strings.Builder
		for i := range 12 {
			b.WriteString(name + "{position=\"" + strings.Repeat("1", i/10) + string(rune('0'+i%10)) + "\"} " + string(rune('1'+i%2)) + "\n")
		}
		return b.String()
	}())
	if got := ten.positions(); len(got) != 12 {
		t.Errorf("12 positions are read as %v", got)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no texts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("vllm:prompt_tokens_total{a=\"\\xff\"} 1e999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		// A text against itself: nothing has changed, and what is known once is known twice.
		d := Between(s, s)
		if len(d.Resets) > 0 {
			t.Fatalf("a snapshot differs from itself: %v", d.Resets)
		}
		for name, pair := range map[string][2]*float64{
			"prompt": {d.PromptTokens, s.sum(promptTokens)}, "generated": {d.GenerationTokens, s.sum(generationTokens)},
			"finished": {d.Finished, s.sum(finished)}, "rounds": {d.Rounds, s.sum(rounds)},
		} {
			if (pair[0] == nil) != (pair[1] == nil) {
				t.Errorf("%s: difference %v, sum %v", name, pair[0], pair[1])
			}
			if pair[0] != nil && *pair[0] != 0 {
				t.Errorf("%s differs from itself by %v", name, *pair[0])
			}
		}
		two, err := Merge(s, s)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := s.sum(promptTokens), two.sum(promptTokens); a != nil && *b != 2*(*a) && *b-*b == 0 {
			t.Errorf("two addresses have %v and one %v", *b, *a)
		}
	})
}

func TestStarted(t *testing.T) {
	t.Parallel()
	const text = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.76e+09\n"
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Started(), "2025-10-09T08:53:20Z"; got != want {
		t.Errorf("started %q, want %q", got, want)
	}
	var none Snapshot
	if got := none.Started(); got != "" {
		t.Errorf("started %q without a word of it", got)
	}
}
