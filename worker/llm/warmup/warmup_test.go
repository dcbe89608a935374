package warmup_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/llmtest/visit"
	"cpbench/worker/llm/warmup"
)

func TestRun(t *testing.T) {
	t.Parallel()
	server, seen := visit.Server(t, llmtest.Config{})
	server.Play(llmtest.Script{Status: 503, Steps: []llmtest.Step{{Write: `{"error":{"message":"it compiles","type":"x"}}`}}})
	rep, err := warmup.Run(t.Context(), warmup.Plan{Server: seen, Bursts: 2, Streams: 3, MaxTokens: 5, Sampling: map[string]any{"temperature": 0, "min_tokens": 5}})
	if err != nil {
		t.Fatal(err)
	}
	failed, of, why := rep.Failed()
	if failed != 1 || of != 6 || !strings.HasSuffix(why, ": it compiles") || rep.MaxTokens != 5 {
		t.Errorf("%d of %d, %q, %+v", failed, of, why, rep)
	}
	if b := rep.Bursts; len(b) != 2 || b[0].Failed != 1 || b[1].Failed != 0 || b[1].TTFT == nil || *b[1].TTFT <= 0 || b[1].Seconds < *b[1].TTFT {
		t.Errorf("%+v", b)
	}
	salts, texts := map[string]bool{}, map[string]bool{}
	for _, r := range server.Requests("/v1/chat/completions") {
		var body struct {
			Salt     string `json:"cache_salt"`
			Min      *int   `json:"min_tokens"`
			Max      int    `json:"max_completion_tokens"`
			Messages json.RawMessage
		}
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil || body.Min != nil || body.Max != 5 || !strings.HasPrefix(body.Salt, rep.Salt) {
			t.Errorf("%v: %s", err, r.Body)
		}
		salts[body.Salt], texts[string(body.Messages)] = true, true
	}
	if len(salts) != 6 || len(texts) != 6 || rep.Salt == "" {
		t.Errorf("%d salts and %d texts of 6 requests", len(salts), len(texts))
	}
	if n := len(server.Requests("/tokenize")); n != 0 {
		t.Errorf("%d texts were counted", n)
	}
}

// What cannot be said to a server is told before anything is sent, and an end is an end.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	server, seen := visit.Server(t, llmtest.Config{})
	if _, err := warmup.Run(t.Context(), warmup.Plan{Server: seen, Bursts: 1, Streams: 1, MaxTokens: 5, Sampling: map[string]any{"messages": 1}}); err == nil {
		t.Error("nothing is wrong")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := warmup.Run(ctx, warmup.Plan{Server: seen, Bursts: 3, Streams: 1, MaxTokens: 5}); err == nil || err.Error() != "enough" {
		t.Errorf("%v", err)
	}
	if n := len(server.Requests("/v1/chat/completions")); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
