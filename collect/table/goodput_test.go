package table

import (
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// The goodput has columns where the spec sets limits, and nowhere else.
func TestGoodputColumns(t *testing.T) {
	t.Parallel()
	page := func(spec string) string {
		run := newRun(t, spec)
		measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
			serve(pair, st.Serving.Group, r, 0.1)
			r.Set(catalogue.GoodFraction, 0.5)
			r.Set(catalogue.GoodRequestsPerSecond, 1.25)
			return true
		})
		var b strings.Builder
		if err := build(t, run).WriteMarkdown(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	without := page(serving)
	if strings.Contains(strings.ToLower(without), "goodput") {
		t.Errorf("goodput stands in a table that has no limits:\n%s", without)
	}
	with := page(strings.Replace(serving, "  max_tokens: 256\n", "  max_tokens: 256\n  goodput: {preset: llama2-70b-interactive}\n", 1))
	for _, want := range []string{
		"Goodput: TTFT at most 450 ms, TPOT at most 40 ms (llama2-70b-interactive)", "goodput (%)", "goodput (req/s)", " 50.00 ± 0 ", " 1.250 ± 0 ",
	} {
		if !strings.Contains(with, want) {
			t.Errorf("the table lacks %q:\n%s", want, with)
		}
	}
}
