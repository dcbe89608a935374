package llm

import (
	"testing"

	"cpbench/plan"
	"cpbench/worker/llm/dialect"
)

// TestPromptKey: with salts all groups of a case have the same text. Without, what one group leaves in the cache must be
// nothing to another: a warm point has a text of its own, and so has every repeat of a cold one where no flag makes it cold.
func TestPromptKey(t *testing.T) {
	t.Parallel()
	for kind, n := range map[dialect.Kind]int{dialect.VLLM: 1, dialect.SGLang: 1, dialect.LlamaCPP: 2, dialect.TGI: 3, dialect.TRTLLM: 3, dialect.None: 3} {
		texts := map[any]bool{}
		for _, cache := range []string{"cold", "warm"} {
			for repeat := 1; repeat <= 2; repeat++ {
				g := plan.Group{Label: "A", Cache: cache, Data: "synth", Ctx: 100, Concurrency: 1}
				texts[promptKey(kind.Traits(), 1, g, want{ctx: 100}, 0, repeat)] = true
				g.Label = "B"
				texts[promptKey(kind.Traits(), 1, g, want{ctx: 100}, 0, repeat)] = true
			}
		}
		if len(texts) != n {
			t.Errorf("%s: %d texts, want %d: %v", kind, len(texts), n, texts)
		}
	}
}
