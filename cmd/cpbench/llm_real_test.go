package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
	"cpbench/worker/llm/llmtest"
)

// TestLLMServer runs a sweep on a real vLLM, on the CPU, that the sweep starts by itself with drafts by n-gram. The
// model is tiny and knows nothing; what is looked at is that every claim about the numbers holds.
func TestLLMServer(t *testing.T) {
	t.Parallel()
	required := slices.Contains(strings.Split(os.Getenv("CPBENCH_TEST_REQUIRE"), ","), "llm")
	if os.Getenv("CPBENCH_TEST_LLM") == "" && !required {
		t.Skip("takes minutes: CPBENCH_TEST_LLM=1 or make llm-server-test runs it")
	}
	root := os.Getenv("XDG_CACHE_HOME")
	if root == "" {
		root = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	if _, err := os.Stat(filepath.Join(root, "cpbench/llm/made")); err != nil {
		t.Fatalf("no real LLM server: %v; make llm-server installs it", err)
	}
	start, err := filepath.Abs("../../worker/llm/llmtest/server/start.sh")
	if err != nil {
		t.Fatal(err)
	}
	s := newServing(t, llmtest.Config{})
	s.spec("repeats: 2\nresources: {time: 15m}", "  server:\n    command: [bash, "+quoted(start)+", "+quoted(filepath.Join(t.TempDir(), "server"))+`, '{port}', --speculative-config,
      '{{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":3,"prompt_lookup_min":1}}']
  cache: [cold, warm]
  ctx: [1500]
  concurrency: [1, 2]
  mixed: {short_ctx: 400, delay: 50ms}
  max_tokens: 600
  sampling: {temperature: 0, ignore_eos: true}
`)
	out, errs, code := s.run("run", "sweep.yaml")
	if code != exitDone {
		t.Fatalf("exit %d\n%s%s%v", code, out, errs, outcomes(s.results()))
	}
	for key, r := range s.results() {
		label, warm := "cold", strings.HasPrefix(key, "warm") && strings.HasSuffix(key, "r2")
		if warm {
			label = "warm_repeat"
		}
		if r.Outcome != catalogue.OK || r.Group.Cache != label || r.Group.Audit != "clean" {
			t.Errorf("%s: %s %s %+v", key, r.Outcome, r.Reason, r.Group)
			continue
		}
		if share := *r.Metrics[catalogue.CachedFraction]; (share > 0.8) != warm || (share == 0) == warm {
			t.Errorf("%s: %v of the prompt came from the cache", key, share)
		}
		if n, used := r.Metrics[catalogue.PromptMeasuredTokens], r.Metrics[catalogue.PromptUsedTokens]; *n != *used {
			t.Errorf("%s: %v tokens measured and %v used", key, *n, *used)
		}
		if p := r.Group.PerPosition; len(p) != 3 || *r.Metrics[catalogue.AcceptedPerRound] > 3 {
			t.Errorf("%s: accepted per position %v", key, p)
		}
	}
}

// quoted is a text in a YAML list.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
