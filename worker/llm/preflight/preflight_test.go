package preflight_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/llmtest/visit"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/scrape"
)

// meet starts a simulated server and finds out what it is.
func meet(t *testing.T, c llmtest.Config) (*llmtest.Server, *dialect.Server, *scrape.Source) {
	t.Helper()
	server, seen := visit.Server(t, c)
	return server, seen, &scrape.Source{Client: dialect.NewClient(), URLs: seen.MetricsURLs}
}

// remarks are the checks that are not ok, with their grade.
func remarks(f preflight.Findings) map[string]preflight.Grade {
	out := map[string]preflight.Grade{}
	for _, one := range f {
		if one.Grade != preflight.OK {
			out[one.Check] = one.Grade
		}
	}
	return out
}

func TestTry(t *testing.T) {
	t.Parallel()
	ten := 10
	noUsage := llmtest.Frames(0, 0, llmtest.Role(), llmtest.Content("hello"), llmtest.Finish("stop"), llmtest.Done)
	refusal := llmtest.Script{Status: 500, Steps: []llmtest.Step{{Write: `{"error":{"message":"no","type":"x"}}`}}}
	otherCount := llmtest.Frames(0, 0, llmtest.Role(), llmtest.Content("hello"), llmtest.Finish("stop"), llmtest.UsageFrame(7, 1), llmtest.Done)
	for name, c := range map[string]struct {
		config llmtest.Config
		play   []llmtest.Script
		trial  preflight.Trial
		want   map[string]preflight.Grade
		advice string
	}{
		"good":               {llmtest.Config{CountCached: true, ReasoningTokens: 3}, nil, preflight.Trial{Thinks: true, Warm: true}, map[string]preflight.Grade{}, ""},
		"good by counters":   {llmtest.Config{}, nil, preflight.Trial{Warm: true}, map[string]preflight.Grade{}, ""},
		"salt ignored":       {llmtest.Config{CountCached: true, IgnoreSalt: true}, nil, preflight.Trial{}, map[string]preflight.Grade{preflight.Salt: preflight.Bad}, "cache_salt"},
		"priority refused":   {llmtest.Config{}, nil, preflight.Trial{Priority: &ten}, map[string]preflight.Grade{preflight.Priority: preflight.Bad}, "--scheduling-policy priority"},
		"priority taken":     {llmtest.Config{Priority: true}, nil, preflight.Trial{Priority: &ten}, map[string]preflight.Grade{}, ""},
		"usage missing":      {llmtest.Config{}, []llmtest.Script{noUsage}, preflight.Trial{}, map[string]preflight.Grade{preflight.Usage: preflight.Bad}, "include_usage"},
		"other count":        {llmtest.Config{}, []llmtest.Script{otherCount}, preflight.Trial{}, map[string]preflight.Grade{preflight.Parity: preflight.Bad}, "template_kwargs"},
		"no reasoning":       {llmtest.Config{}, nil, preflight.Trial{Thinks: true}, map[string]preflight.Grade{preflight.Reasoning: preflight.Warn}, "--reasoning-parser"},
		"no tokenizer":       {llmtest.Config{NoTokenize: true}, nil, preflight.Trial{}, map[string]preflight.Grade{preflight.Tokenizer: preflight.Warn}, "ctx 0"},
		"no cache, and warm": {llmtest.Config{NoCache: true}, nil, preflight.Trial{Warm: true}, map[string]preflight.Grade{preflight.Cache: preflight.Bad}, "prefix cache on"},
		"no cache":           {llmtest.Config{NoCache: true}, nil, preflight.Trial{}, map[string]preflight.Grade{}, ""},
		"refused":            {llmtest.Config{}, []llmtest.Script{refusal}, preflight.Trial{}, map[string]preflight.Grade{preflight.Request: preflight.Bad}, "would meet the same"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, seen, metrics := meet(t, c.config)
			server.Play(c.play...)
			c.trial.Server, c.trial.Metrics = seen, metrics
			got := preflight.Try(t.Context(), c.trial)
			if d := cmp.Diff(c.want, remarks(got)); d != "" {
				t.Errorf("%s\n%+v", d, got)
			}
			for _, f := range got {
				if f.Grade != preflight.OK && !strings.Contains(f.Advice, c.advice) {
					t.Errorf("%s has no remedy with %q: %q", f.Check, c.advice, f.Advice)
				}
			}
		})
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	server, seen, metrics := meet(t, llmtest.Config{MaxModelLen: 1000})
	own := 500
	for name, c := range map[string]struct {
		urls             []string
		largest, reserve int
		limit            *int
		want             map[string]preflight.Grade
	}{
		"good":          {seen.MetricsURLs, 900, 100, nil, map[string]preflight.Grade{}},
		"too long":      {seen.MetricsURLs, 901, 100, nil, map[string]preflight.Grade{preflight.Limit: preflight.Warn}},
		"own limit":     {seen.MetricsURLs, 900, 100, &own, map[string]preflight.Grade{preflight.Limit: preflight.Warn}},
		"no metrics":    {nil, 0, 0, nil, map[string]preflight.Grade{preflight.Metrics: preflight.Bad}},
		"wrong metrics": {[]string{seen.URL + "/nothing"}, 0, 0, nil, map[string]preflight.Grade{preflight.Metrics: preflight.Bad}},
		"json":          {[]string{seen.URL + "/version"}, 0, 0, nil, map[string]preflight.Grade{preflight.Metrics: preflight.Bad}},
	} {
		t.Run(name, func(t *testing.T) {
			source := &scrape.Source{Client: metrics.Client, URLs: c.urls}
			got := preflight.Look(t.Context(), seen, source, c.largest, c.reserve, c.limit)
			if d := cmp.Diff(c.want, remarks(got)); d != "" {
				t.Errorf("%s\n%+v", d, got)
			}
		})
	}
	server.Stale(1, 0)
	if d := cmp.Diff(map[string]preflight.Grade{preflight.Metrics: preflight.Warn}, remarks(preflight.Look(t.Context(), seen, metrics, 0, 0, nil))); d != "" {
		t.Errorf("a busy server: %s", d)
	}
	for _, path := range []string{"/tokenize", "/v1/chat/completions"} {
		if n := len(server.Requests(path)); n != 0 {
			t.Errorf("a look sent %d requests to %s", n, path)
		}
	}
}

func TestProxy(t *testing.T) {
	_, seen, metrics := meet(t, llmtest.Config{})
	t.Setenv("HTTPS_PROXY", "http://user:password@proxy")
	got := preflight.Look(t.Context(), seen, metrics, 0, 0, nil)
	if d := cmp.Diff(map[string]preflight.Grade{preflight.Proxy: preflight.Warn}, remarks(got)); d != "" {
		t.Error(d)
	}
	for _, f := range got {
		if strings.Contains(f.Text, "password") {
			t.Errorf("a secret is told: %q", f.Text)
		}
	}
}
