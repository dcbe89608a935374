package dialect

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/prompt"
)

// TestCaptured gives the answers of a vLLM 0.32.0 to those who ask. The counts are the lengths of the lists of tokens in
// the files, by jq.
func TestCaptured(t *testing.T) {
	t.Parallel()
	answer := func(name string) string {
		text, err := os.ReadFile("testdata/vllm/0.32.0/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	answers := map[string]string{"/v1/models": answer("models"), "/version": answer("version"), "/tokenize": answer("tokenize-text")}
	f := newFake(t, answers)
	s, err := Detect(t.Context(), Options{URL: f.URL})
	if err != nil {
		t.Fatal(err)
	}
	card := Card{ID: "tiny", Root: "/srv/models/tiny", MaxModelLen: ptr(4096), OwnedBy: "vllm"}
	if d := cmp.Diff([]any{VLLM, "0.32.0", card, []Card{card}, 4096}, []any{s.Kind, s.Version, s.Model, s.Models, *s.ContextLimit}); d != "" {
		t.Error(d)
	}
	messages := []prompt.Message{{Role: "user", Content: "the court record"}}
	count := func() (int, error) { return s.Counter(Template{})(t.Context(), messages) }
	text := func() (int, error) { return s.CountText(t.Context(), "the court record") }
	for _, c := range []struct {
		path, answer string
		status       string
		ask          func() (int, error)
		want         int
		err          string
	}{
		{"/tokenize", "tokenize-text", "", text, 5, ""},
		{"/tokenize", "tokenize-chat", "", count, 31, ""},
		{"/tokenize", "tokenize-chat-effort", "", count, 44, ""}, // with the effort in the template's arguments
		{"/tokenize", "tokenize-bad-model", "404 ", count, 0, "The model `none` does not exist"},
		{"/tokenize", "too-long", "400 ", count, 0, "maximum context length is 4096 tokens"},
	} {
		f.mu.Lock()
		f.answers[c.path] = c.status + answer(c.answer)
		f.mu.Unlock()
		n, err := c.ask()
		if n != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d, %v", c.answer, n, err)
		}
	}
}
