package scrape

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCaptured reads metrics as a vLLM 0.32.0 has told them: after 16 requests, and around three of them on a server with
// n-gram speculation. The figures were read in the files with grep.
func TestCaptured(t *testing.T) {
	t.Parallel()
	plain := load(t, "vllm/0.32.0/metrics.txt")
	want := map[string]float64{
		"running": 0, "waiting": 0, "prompt": 3026, "generated": 1344, "finished": 16, "preempted": 0, "queries": 3026, "hits": 640,
	}
	if d := cmp.Diff(want, reading(plain)); d != "" {
		t.Errorf("without speculation (-want +got):\n%s", d)
	}
	if size := plain.BlockSize(); size == nil || *size != 128 {
		t.Errorf("blocks of %v tokens", size)
	}
	before, after := load(t, "vllm/0.32.0/ngram-before.txt"), load(t, "vllm/0.32.0/ngram-after.txt")
	d := Between(before, after)
	if len(d.Resets) > 0 {
		t.Errorf("resets %v", d.Resets)
	}
	s := Speculate(d, after)
	if *s.Rounds != 52 || *s.Proposed != 156 || *s.Accepted != 111 || len(s.Broken) > 0 {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]float64{48. / 52, 35. / 52, 28. / 52}, s.PositionPerRound); diff != "" {
		t.Error(diff)
	}
	finished, prompt, output := int64(3), int64(93), int64(206)
	if a := Check(d, Own{Finished: &finished, PromptTokens: &prompt, OutputTokens: &output}); a.Verdict != "clean" {
		t.Errorf("%+v", a)
	}
	if back := Between(after, before); len(back.Resets) == 0 {
		t.Error("counters that fell are no reset")
	}
}
