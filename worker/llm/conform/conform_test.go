package conform

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/scrape"
)

// usual is a server that does everything right, slowly enough that streams meet.
var usual = llmtest.Config{
	CountCached: true, Continuous: true, Prefill: 5 * time.Millisecond, PerFrame: 5 * time.Millisecond, MaxModelLen: 2000, ReasoningTokens: 3, CountReasoning: true,
}

// tested runs the battery on a simulated server, in virtual time.
func tested(t *testing.T, c llmtest.Config, prepare func(*llmtest.Server), look func(*llmtest.Server, *Report, error)) {
	t.Helper()
	routed(t, c, nil, prepare, look)
}

// routed answers requests that hold some text in another way than the simulated server.
func routed(t *testing.T, c llmtest.Config, routes map[string]http.Handler, prepare func(*llmtest.Server), look func(*llmtest.Server, *Report, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := llmtest.New(c)
		live := llmtest.Pipe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has gone
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			for text, h := range routes {
				if strings.Contains(string(body), text) && r.URL.Path == dialect.ChatPath {
					h.ServeHTTP(w, r)
					return
				}
			}
			server.ServeHTTP(w, r)
		}))
		defer live.Close()
		client := &http.Client{Transport: &http.Transport{DialContext: live.Dial}}
		defer client.CloseIdleConnections()
		seen, err := dialect.Detect(t.Context(), dialect.Options{URL: live.URL, Key: dialect.NewKey(c.Key), Client: client})
		if err != nil {
			t.Fatal(err)
		}
		if prepare != nil {
			prepare(server)
		}
		r, err := run(t.Context(), seen, &scrape.Source{Client: client, URLs: seen.MetricsURLs}, live.Dial)
		look(server, r, err)
	})
}

// remarks are the findings that are no pass, as VERDICT: what was seen.
func remarks(r *Report) map[string]string {
	out := map[string]string{}
	for _, f := range r.Findings {
		if f.Verdict != Pass {
			out[f.Name] = string(f.Verdict) + ": " + f.Seen
		}
	}
	return out
}

// What a simulated server cannot show.
var always = map[string]string{
	"characters":        "not offered: ",
	"too many requests": "not offered: ",
}

func TestGood(t *testing.T) {
	t.Parallel()
	tested(t, usual, nil, func(server *llmtest.Server, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		match(t, r, nil)
		bounded(t, server, r)
	})
}

// bounded looks at what the battery cost.
func bounded(t *testing.T, server *llmtest.Server, r *Report) {
	t.Helper()
	if r.Failed() || len(r.Findings) != len(Checks()) {
		t.Errorf("failed %v, %d findings", r.Failed(), len(r.Findings))
	}
	asked := 0
	requests := server.Requests("/v1/chat/completions")
	for _, q := range requests {
		_, after, ok := strings.Cut(q.Body, `"max_completion_tokens":`)
		n := 0
		for _, c := range after {
			if c < '0' || c > '9' {
				break
			}
			n = 10*n + int(c-'0')
		}
		if !ok && q.Body != `{"model": "x", "messages": [` {
			t.Errorf("a request without a bound: %.100s", q.Body)
		}
		asked += n
	}
	if len(requests) != MaxRequests || r.Requests != len(requests) || asked != MaxTokens {
		t.Errorf("%d requests for %d tokens; the bounds are %d and %d", len(requests), asked, MaxRequests, MaxTokens)
	}
	if MaxRequests > 20 || MaxTokens > 400 {
		t.Errorf("%d requests and %d tokens are no short battery", MaxRequests, MaxTokens)
	}
}

// match compares the remarks with those that are wanted, by the beginnings of their texts.
func match(t *testing.T, r *Report, want map[string]string) {
	t.Helper()
	all := maps.Clone(always)
	maps.Copy(all, want)
	got := remarks(r)
	for name, text := range all {
		if text == "pass" {
			if got[name] != "" {
				t.Errorf("%s: %q", name, got[name])
			}
			continue
		}
		begin, part, _ := strings.Cut(text, "|")
		if !strings.HasPrefix(got[name], begin) || !strings.Contains(got[name], part) {
			t.Errorf("%s: %q, not %q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := all[name]; !ok {
			t.Errorf("%s: %q, and nothing was wanted", name, got[name])
		}
	}
}

// TestConfigured runs the battery on servers that lack something.
func TestConfigured(t *testing.T) {
	t.Parallel()
	with := func(change func(*llmtest.Config)) llmtest.Config {
		c := usual
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		config  llmtest.Config
		prepare func(*llmtest.Server)
		want    map[string]string
	}{
		"salts are ignored": {with(func(c *llmtest.Config) { c.IgnoreSalt = true }), nil, map[string]string{"cold": "fail: 0 tokens of a new prompt, and "}},
		"no prefix cache":   {with(func(c *llmtest.Config) { c.NoCache = true }), nil, map[string]string{"warm": "warn: nothing of the same prompt"}},
		"no cached tokens":  {with(func(c *llmtest.Config) { c.CountCached = false }), nil, map[string]string{"cold": "not offered: |--enable-prompt-tokens-details", "warm": "not offered: "}},
		"no tokenizer":      {with(func(c *llmtest.Config) { c.NoTokenize = true }), nil, map[string]string{"tokenizer": "warn: |404", "template arguments": "not offered: ", "warm": "pass"}},
		"no usage in frames": {
			with(func(c *llmtest.Config) { c.Continuous = false }), nil,
			map[string]string{"usage in every frame": "warn: it was asked for and did not come"},
		},
		"one slot":     {with(func(c *llmtest.Config) { c.Slots = 1 }), nil, map[string]string{"streams at once": "warn: 1 of 4 generated at the same time"}},
		"no reasoning": {with(func(c *llmtest.Config) { c.ReasoningTokens = 0 }), nil, map[string]string{"reasoning": "not offered: "}},
		"older name":   {with(func(c *llmtest.Config) { c.ReasoningName = "reasoning_content" }), nil, nil},
		"many tokens in a frame": {with(func(c *llmtest.Config) { c.TokensPerFrame, c.ReasoningTokens = 8, 0 }), nil, map[string]string{
			"reasoning": "not offered: ", "coalescing": "warn: 0 of 6 frames|8 of 48 tokens",
		}},
		"speculation": {with(func(c *llmtest.Config) { c.TokensPerFrame, c.DraftTokens, c.PerFrame = 2, 3, 20*time.Millisecond }), nil, nil},
		"others use it": {usual, func(s *llmtest.Server) {
			time.AfterFunc(1100*time.Millisecond, func() { s.Foreign(7, 9) })
		}, map[string]string{"counters": "fail: requests: the server counts 11 and the answers 10"}},
		"a key": {with(func(c *llmtest.Config) { c.Key = "sesame-open-now" }), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tested(t, c.config, c.prepare, func(_ *llmtest.Server, r *Report, err error) {
				if err != nil {
					t.Fatal(err)
				}
				match(t, r, c.want)
			})
		})
	}
}

// TestPlayed lets the first answer, or a later one, be of another form.
func TestPlayed(t *testing.T) {
	t.Parallel()
	role, done := llmtest.Role(), llmtest.Done
	words := []string{llmtest.Content("hello"), llmtest.Content(" world"), llmtest.Content(" again")}
	length, count := llmtest.Finish("length"), llmtest.UsageFrame(7, 16)
	frames := func(list ...[]string) llmtest.Script {
		return llmtest.Frames(0, 20*time.Millisecond, slices.Concat(list...)...)
	}
	one := func(list ...string) []string { return list }
	good := frames(one(role), words, one(length, count, done))
	as := func(s llmtest.Script, change func(string) string) llmtest.Script {
		s.Steps = slices.Clone(s.Steps)
		for i := range s.Steps {
			s.Steps[i].Write = change(s.Steps[i].Write)
		}
		return s
	}
	typed := good
	typed.Header = map[string]string{"Content-Type": "application/json"}
	// A played answer counts in no counter, has another prompt, and nothing of a cache.
	side := map[string]string{
		"counters": "fail: ", "tokenizer": "fail: ", "cold": "not offered: ", "reasoning": "pass",
		"finish at a stop": "warn: ", "warm": "warn: nothing of the same prompt", // its text does not come again, and it has filled no cache
	}
	for name, c := range map[string]struct {
		script llmtest.Script
		want   map[string]string
	}{
		"another content type": {typed, map[string]string{"content type": `warn: "application/json"`}},
		"CR LF, no space, comments": {as(good, func(f string) string {
			return ":ping\r\n" + strings.ReplaceAll(strings.Replace(f, "data: ", "data:", 1), "\n", "\r\n")
		}), nil},
		"no blank line at the end":  {as(good, func(f string) string { return strings.Replace(f, "data: [DONE]\n\n", "data: [DONE]", 1) }), map[string]string{"framing": "warn: the last frame has no blank line"}},
		"no usage":                  {frames(one(role), words, one(length, done)), map[string]string{"usage": "fail: ", "budget": "not offered: ", "tokenizer": "not offered: ", "counters": "fail: "}},
		"no [DONE]":                 {frames(one(role), words, one(length, count)), map[string]string{"done": "fail: |vllm always sends"}},
		"stopped by itself":         {frames(one(role), words, one(llmtest.Finish("stop"), llmtest.UsageFrame(7, 3), done)), map[string]string{"finish at the limit": `warn: "stop" after 3 tokens`, "budget": "warn: 3 tokens, and 16"}},
		"too many tokens":           {frames(one(role), words, one(length, llmtest.UsageFrame(7, 17), done)), map[string]string{"budget": "fail: 17 tokens, and 16"}},
		"usage in the finish frame": {frames(one(role), words, one(llmtest.Event(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":16}}`), done)), nil},
		"no role frame":             {frames(words, one(length, count, done)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := maps.Clone(side)
			maps.Copy(want, c.want)
			tested(t, usual, func(s *llmtest.Server) { s.Play(c.script) }, func(_ *llmtest.Server, r *Report, err error) {
				if err != nil {
					t.Fatal(err)
				}
				match(t, r, want)
			})
		})
	}
}

// Every check says where it comes from and what it is for, and has a name of its own.
func TestChecks(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Checks() {
		if c.Name == "" || c.Source == "" || c.Why == "" || seen[c.Name] {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = true
	}
	if len(seen) < 20 {
		t.Errorf("only %d checks", len(seen))
	}
}
