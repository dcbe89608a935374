package scrape

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// edited is a golden text with changes: pairs of old and new.
func edited(t *testing.T, name string, pairs ...string) Snapshot {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s has no %q", name, pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return parse(t, text)
}

func ptr[T any](v T) *T { return &v }

// Rule 32: differences over all engines, position by position.
func TestBetween(t *testing.T) {
	t.Parallel()
	before := load(t, "vllm-2026.txt")
	after := edited(t, "vllm-2026.txt",
		`prompt_tokens_total{engine="0",model_name="org/qwen {spec}"} 1000.0`, `prompt_tokens_total{engine="0",model_name="org/qwen {spec}"} 1100.0`,
		`prompt_tokens_total{engine="1",model_name="org/qwen {spec}"} 500.0`, `prompt_tokens_total{engine="1",model_name="org/qwen {spec}"} 550.0`,
		`generation_tokens_total{engine="0",model_name="org/qwen {spec}"} 300.0`, `generation_tokens_total{engine="0",model_name="org/qwen {spec}"} 340.0`,
		`num_drafts_total 7"} 100.0`, `num_drafts_total 7"} 110.0`,
		`draft_tokens_total{engine="0",model_name="org/qwen {spec}"} 300.0`, `draft_tokens_total{engine="0",model_name="org/qwen {spec}"} 330.0`,
		`accepted_tokens_total{engine="0",model_name="org/qwen {spec}"} 180.0`, `accepted_tokens_total{engine="0",model_name="org/qwen {spec}"} 192.0`,
		`position="0"} 90.0`, `position="0"} 97.0`,
		`position="1"} 60.0`, `position="1"} 64.0`,
		`position="2"} 30.0`, `position="2"} 31.0`,
		// A label that did not occur before is no reset.
		`vllm:request_success_total{engine="1",finished_reason="stop"`, "vllm:request_success_total{engine=\"1\",finished_reason=\"length\",model_name=\"org/qwen {spec}\"} 2.0\nvllm:request_success_total{engine=\"1\",finished_reason=\"stop\"",
	)
	want := Delta{
		PromptTokens: ptr(150.0), GenerationTokens: ptr(40.0), Finished: ptr(2.0), Preempted: ptr(0.0), CacheQueries: ptr(0.0), CacheHits: ptr(0.0),
		Rounds: ptr(10.0), Proposed: ptr(30.0), Accepted: ptr(12.0), PerPos: []float64{7, 4, 1},
	}
	if diff := cmp.Diff(want, Between(before, after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	spec := Speculate(Between(before, after), after)
	if diff := cmp.Diff(Speculation{
		Rounds: ptr(10.0), Proposed: ptr(30.0), Accepted: ptr(12.0),
		AcceptedPerRound: ptr(1.2), AcceptedPerProposed: ptr(0.4), MeanLength: ptr(2.2), PositionPerRound: []float64{0.7, 0.4, 0.1},
	}, spec); diff != "" {
		t.Errorf("speculation (-want +got):\n%s", diff)
	}
}

// What a connector has brought from a cache outside was not computed either: a prompt that came from there is not cold.
func TestCacheOutside(t *testing.T) {
	t.Parallel()
	text := func(inside, outside string) Snapshot {
		return parse(t, "# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total 100\n"+
			"# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total "+inside+"\n"+
			"# TYPE vllm:external_prefix_cache_queries_total counter\nvllm:external_prefix_cache_queries_total 60\n"+
			"# TYPE vllm:external_prefix_cache_hits_total counter\nvllm:external_prefix_cache_hits_total "+outside+"\n")
	}
	d := Between(text("32", "0"), text("40", "16"))
	if diff := cmp.Diff([]*float64{ptr(24.0), ptr(0.0)}, []*float64{d.CacheHits, d.CacheQueries}); diff != "" {
		t.Errorf("hits and queries (-want +got):\n%s", diff)
	}
}

func TestMissingIsNil(t *testing.T) {
	t.Parallel()
	full, less := load(t, "vllm-2026.txt"), load(t, "vllm-openmetrics.txt")
	d := Between(less, less)
	if d.Rounds != nil || d.Finished != nil || d.PerPos != nil || d.CacheHits != nil || d.Preempted != nil {
		t.Errorf("what is not there has a difference: %+v", d)
	}
	if d.PromptTokens == nil || *d.PromptTokens != 0 {
		t.Errorf("what is there has none: %v", d.PromptTokens)
	}
	if d := Between(parse(t, ""), full); d.PromptTokens != nil || d.PerPos != nil {
		t.Errorf("a counter that was not there before has a difference: %+v", d)
	}
	anew := parse(t, state(0, 0, 0, 5)+"vllm:prompt_tokens_total 9\n")
	if d := Between(parse(t, state(0, 0, 0, 5)), anew); len(d.Resets) > 0 || d.PromptTokens != nil || d.GenerationTokens == nil {
		t.Errorf("a counter that was not there before has a difference: %+v", d)
	}
	s := Speculate(d, less)
	if s.AcceptedPerRound != nil || s.MeanLength != nil || s.PositionPerRound != nil || s.Lifetime != nil || s.Broken != nil {
		t.Errorf("speculation without counters: %+v", s)
	}
}

// Rule 32: a counter that fell or is gone fails the group, as does any other sign of a restart.
func TestResets(t *testing.T) {
	t.Parallel()
	const file = "vllm-2026.txt"
	for name, tc := range map[string]struct {
		edit []string
		want string
	}{
		"fall": {
			[]string{`generation_tokens_total{engine="1",model_name="org/qwen {spec}"} 100.0`, `generation_tokens_total{engine="1",model_name="org/qwen {spec}"} 99.0`},
			"fell from 100 to 99",
		},
		"fall hidden by another engine": {
			[]string{
				`prompt_tokens_total{engine="0",model_name="org/qwen {spec}"} 1000.0`, `prompt_tokens_total{engine="0",model_name="org/qwen {spec}"} 10.0`,
				`prompt_tokens_total{engine="1",model_name="org/qwen {spec}"} 500.0`, `prompt_tokens_total{engine="1",model_name="org/qwen {spec}"} 9500.0`,
			},
			"fell from 1000 to 10",
		},
		"fall of a histogram": {
			[]string{
				`iteration_tokens_total_count{engine="0",model_name="org/qwen {spec}"} 90.0`, `iteration_tokens_total_count{engine="0",model_name="org/qwen {spec}"} 9.0`,
				`le="+Inf",model_name="org/qwen {spec}"} 90.0`, `le="+Inf",model_name="org/qwen {spec}"} 9.0`,
			},
			"fell from 90 to 9",
		},
		"series gone": {
			[]string{"vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"org/qwen {spec}\"} 1.0\n", ""},
			`finished_reason="length",model_name="org/qwen {spec}"} is gone`,
		},
		// It has climbed past every old value.
		"process started anew": {[]string{"process_start_time_seconds 1.78500000011e+09", "process_start_time_seconds 1.78500009900e+09"}, "process_start_time_seconds has changed"},
		"created anew": {
			[]string{`prompt_tokens_created{engine="1",model_name="org/qwen {spec}"} 1.785000015e+09`, `prompt_tokens_created{engine="1",model_name="org/qwen {spec}"} 1.785000099e+09`},
			"has changed",
		},
		"engine less": {
			[]string{"vllm:num_requests_running{engine=\"1\",model_name=\"org/qwen {spec}\"} 0.0\n", ""}, "the engines were",
		},
		"engine more": {
			[]string{"vllm:num_requests_running{engine=\"1\"", "vllm:num_requests_running{engine=\"2\",model_name=\"org/qwen {spec}\"} 0.0\nvllm:num_requests_running{engine=\"1\""}, "the engines were",
		},
	} {
		d := Between(load(t, file), edited(t, file, tc.edit...))
		if len(d.Resets) != 1 || !strings.Contains(d.Resets[0], tc.want) {
			t.Errorf("%s: resets %q, want one with %q", name, d.Resets, tc.want)
		}
		if d.PromptTokens != nil || d.Accepted != nil || d.PerPos != nil {
			t.Errorf("%s: differences in spite of a reset: %+v", name, d)
		}
	}
	if d := Between(load(t, file), parse(t, "")); len(d.Resets) != maxResets+1 || !strings.HasPrefix(d.Resets[maxResets], "and ") {
		t.Errorf("all gone: %q", d.Resets)
	}
}

func TestGaugesMayFall(t *testing.T) {
	t.Parallel()
	d := Between(load(t, "vllm-2026.txt"), edited(t, "vllm-2026.txt", `kv_cache_usage_perc{engine="0",model_name="org/qwen {spec}"} 0.25`, `kv_cache_usage_perc{engine="0",model_name="org/qwen {spec}"} 0.0`))
	if len(d.Resets) > 0 {
		t.Error(d.Resets)
	}
}

// Rule 33: what must hold if there were rounds.
func TestIdentities(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		d    Delta
		want []string
	}{
		"good":        {Delta{Rounds: ptr(10.0), Proposed: ptr(30.0), Accepted: ptr(12.0), PerPos: []float64{7, 4, 1}}, nil},
		"no rounds":   {Delta{Rounds: ptr(0.0), Proposed: ptr(0.0), Accepted: ptr(0.0), PerPos: []float64{0, 1}}, nil},
		"too many":    {Delta{Rounds: ptr(10.0), Proposed: ptr(11.0), Accepted: ptr(12.0)}, []string{"12 tokens were accepted and only 11 proposed"}},
		"rising":      {Delta{Rounds: ptr(10.0), Proposed: ptr(30.0), Accepted: ptr(9.0), PerPos: []float64{4, 5}}, []string{"5 tokens were accepted at position 1 and only 4 at the one before"}},
		"sum differs": {Delta{Rounds: ptr(10.0), Proposed: ptr(30.0), Accepted: ptr(24.0), PerPos: []float64{7, 4, 1}}, []string{"the positions add up to 12 accepted tokens and the counter to 24"}},
	} {
		if diff := cmp.Diff(tc.want, Speculate(tc.d, Snapshot{}).Broken); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Rule 32: averages since the start are no result of a group.
func TestLifetimeIsNoResultOfTheGroup(t *testing.T) {
	t.Parallel()
	sg := load(t, "sglang-colon.txt")
	s := Speculate(Between(sg, sg), sg)
	if diff := cmp.Diff(Speculation{Lifetime: &Lifetime{ptr(2.75), ptr(0.875)}}, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Rule 34: sums that do not agree are foreign traffic, a restart or a fault.
func TestAudit(t *testing.T) {
	t.Parallel()
	d := Delta{Finished: ptr(3.0), PromptTokens: ptr(300.0), GenerationTokens: ptr(90.0), Preempted: ptr(0.0)}
	preempted := d
	preempted.Preempted, preempted.PromptTokens = ptr(1.0), ptr(420.0)
	for name, tc := range map[string]struct {
		d    Delta
		own  Own
		want Audit
	}{
		"clean": {d, Own{ptr(int64(3)), ptr(int64(300)), ptr(int64(90))}, Audit{Verdict: Clean}},
		"foreign": {d, Own{ptr(int64(2)), ptr(int64(200)), ptr(int64(90))}, Audit{Verdict: Contaminated, Differences: []Difference{
			{"requests", 3, 2}, {"prompt tokens", 300, 200},
		}}},
		"difference before agreement": {d, Own{ptr(int64(2)), ptr(int64(300)), ptr(int64(90))}, Audit{Verdict: Contaminated, Differences: []Difference{{"requests", 3, 2}}}},
		"preempted": {preempted, Own{ptr(int64(3)), ptr(int64(300)), ptr(int64(90))}, Audit{Verdict: Clean, Skipped: []string{
			"prompt tokens: 1 requests were preempted, and their prompts are counted again",
		}}},
		"answer without usage": {d, Own{Finished: ptr(int64(3))}, Audit{Verdict: Clean, Skipped: []string{
			"prompt tokens: not every answer tells them", "generated tokens: not every answer tells them",
		}}},
		"server without counters": {Delta{}, Own{ptr(int64(3)), ptr(int64(300)), ptr(int64(90))}, Audit{Verdict: Unaudited, Skipped: []string{
			"requests: the server does not count them", "prompt tokens: the server does not count them", "generated tokens: the server does not count them",
		}}},
		"restart": {Delta{Resets: []string{"x fell"}}, Own{}, Audit{Verdict: Contaminated, Skipped: []string{"everything: the counters began anew: x fell"}}},
	} {
		if diff := cmp.Diff(tc.want, Check(tc.d, tc.own)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
