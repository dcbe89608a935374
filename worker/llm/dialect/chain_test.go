package dialect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/scrape"

	"github.com/google/go-cmp/cmp"
)

// usage is the last usage of a stream.
func usage(t *testing.T, stream []byte) (promptTokens, completion int64) {
	t.Helper()
	for line := range bytes.Lines(stream) {
		var frame struct {
			Usage *struct {
				Prompt     int64 `json:"prompt_tokens"`
				Completion int64 `json:"completion_tokens"`
			}
		}
		data, ok := bytes.CutPrefix(line, []byte("data: {"))
		if !ok {
			continue
		}
		if err := json.Unmarshal(append([]byte("{"), data...), &frame); err != nil {
			t.Fatal(err)
		}
		if frame.Usage != nil {
			promptTokens, completion = frame.Usage.Prompt, frame.Usage.Completion
		}
	}
	return promptTokens, completion
}

// chain is a server of llmtest under virtual time, found and ready to be asked.
type chain struct {
	fake    *llmtest.Server
	client  *http.Client
	server  *dialect.Server
	metrics scrape.Source
}

func newChain(t *testing.T, c llmtest.Config) *chain {
	t.Helper()
	fake := llmtest.New(c)
	live := llmtest.Pipe(fake)
	transport := &http.Transport{DialContext: live.Dial}
	t.Cleanup(func() { transport.CloseIdleConnections(); live.Close() })
	k := &chain{fake: fake, client: &http.Client{Transport: transport}}
	var err error
	if k.server, err = dialect.Detect(t.Context(), dialect.Options{URL: live.URL, Client: k.client, Key: dialect.NewKey(c.Key)}); err != nil {
		t.Fatal(err)
	}
	k.metrics = scrape.Source{Client: k.client, URLs: k.server.MetricsURLs, Authorize: k.server.Key().Authorize}
	return k
}

// generate sends one request and reads its whole stream.
func (k *chain) generate(t *testing.T, body []byte) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.server.URL+dialect.ChatPath, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	k.server.Key().Authorize(req)
	resp, err := k.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stream, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", resp.Status, stream, err)
	}
	return stream
}

// TestGroup goes the whole way of a group: what answers, a prompt to size, the idle gate, the request, the audit.
func TestGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newChain(t, llmtest.Config{Key: "sk-very-secret", DraftTokens: 3, TokensPerFrame: 3, PerFrame: 20 * time.Millisecond, Prefill: 100 * time.Millisecond})
		thinks := true
		template := dialect.Template{Thinking: &thinks, ReasoningEffort: "high"}
		sizer := prompt.Sizer{Count: k.server.Counter(template), Identity: k.server.Identity(template), Dir: t.TempDir()}
		source, err := prompt.Open(prompt.Synth, prompt.Files{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := sizer.Size(t.Context(), source, prompt.Key{Case: "synth 2000"}, 2000)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(k.fake.Requests("/tokenize")); n != p.Probes || n > 5 {
			t.Errorf("%d counts, of which the record has %d", n, p.Probes)
		}
		if limit, err := prompt.Fits(p.Tokens, 90, k.server.ContextLimit); err != nil || *limit != 4096 {
			t.Errorf("limit %v, %v", limit, err)
		}
		if len(k.fake.Requests("/v1/chat/completions")) > 0 {
			t.Error("something was generated before the group")
		}
		before, err := k.metrics.WaitIdle(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		body, err := k.server.Body(dialect.Request{Messages: p.Messages, MaxTokens: 90, Template: template, Salt: "fresh", Sampling: map[string]any{"ignore_eos": true}})
		if err != nil {
			t.Fatal(err)
		}
		promptTokens, completion := usage(t, k.generate(t, body))
		if checked, err := prompt.CheckParity(p.Tokens, &promptTokens); !checked || err != nil {
			t.Errorf("parity: %v, %v", checked, err)
		}
		after, err := k.metrics.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		one := int64(1)
		own := scrape.Own{Finished: &one, PromptTokens: &promptTokens, OutputTokens: &completion}
		d := scrape.Between(before, after)
		if diff := cmp.Diff(scrape.Audit{Verdict: scrape.Clean}, scrape.Check(d, own)); diff != "" || completion != 90 {
			t.Errorf("%d tokens of output; audit (-want +got):\n%s", completion, diff)
		}
		s := scrape.Speculate(d, after)
		if s.Rounds == nil || *s.Rounds != 30 || *s.AcceptedPerRound != 2 || len(s.Broken) > 0 || cmp.Diff([]float64{1, 1, 0}, s.PositionPerRound) != "" {
			t.Errorf("speculation %+v", s)
		}
		k.fake.Foreign(10, 5)
		if after, err = k.metrics.Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := scrape.Check(scrape.Between(before, after), own); a.Verdict != scrape.Contaminated || len(a.Differences) != 3 {
			t.Errorf("foreign traffic: %+v", a)
		}
		k.fake.Restart()
		if after, err = k.metrics.Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := scrape.Between(before, after); len(d.Resets) == 0 {
			t.Error("a restart is not seen")
		}
		k.fake.Stale(1, 0)
		var busy *scrape.NotIdle
		if _, err := k.metrics.WaitIdle(t.Context(), 3*time.Second); !errors.As(err, &busy) || !busy.Stale {
			t.Errorf("stale gauge: %v", err)
		}
	})
}

// TestTemplateArgumentsChangeTheCount shows that the check of parity sees trap 1: a count with other arguments.
func TestTemplateArgumentsChangeTheCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newChain(t, llmtest.Config{})
		messages := []prompt.Message{{Role: "user", Content: strings.Repeat("word ", 50)}}
		without, err := k.server.Counter(dialect.Template{})(t.Context(), messages)
		if err != nil {
			t.Fatal(err)
		}
		thinks := true
		body, err := k.server.Body(dialect.Request{Messages: messages, MaxTokens: 3, Template: dialect.Template{Thinking: &thinks}})
		if err != nil {
			t.Fatal(err)
		}
		used, _ := usage(t, k.generate(t, body))
		var mismatch *prompt.Mismatch
		if checked, err := prompt.CheckParity(&without, &used); !checked || !errors.As(err, &mismatch) {
			t.Errorf("%d and %d tokens: %v", without, used, err)
		}
		text, err := k.server.CountText(t.Context(), "abcdefgh")
		if err != nil || text != 2 {
			t.Errorf("a text of two tokens has %d: %v", text, err)
		}
	})
}
