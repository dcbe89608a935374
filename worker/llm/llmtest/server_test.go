package llmtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
)

// bench is a simulated server and a client of it, in virtual time.
type bench struct {
	*testing.T
	server *llmtest.Server
	client *stream.Client
	key    string
}

func simulated(t *testing.T, c llmtest.Config, test func(b bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := llmtest.New(c)
		live := llmtest.Pipe(server)
		defer live.Close()
		client, err := stream.New(live.URL, stream.Options{Dial: live.Dial, Concurrency: 8, Key: stream.NewSecret(c.Key)})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		test(bench{t, server, client, c.Key})
	})
}

// body is a chat request with a prompt of one message; more are members of its object.
func body(prompt string, tokens int, more string) []byte {
	return fmt.Appendf(nil, `{"model":"tiny","messages":[{"role":"user","content":%q}],"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}%s}`, prompt, tokens, more)
}

func (b bench) ask(bodies ...[]byte) []account.Record {
	b.Helper()
	requests := make([]stream.Request, len(bodies))
	for i, body := range bodies {
		requests[i] = stream.Request{Path: "/v1/chat/completions", Body: body}
	}
	var out []account.Record
	for _, x := range b.client.Ready(b.Context(), requests...).Wait() {
		f, _ := account.Observe(x, b.client.Epoch(), account.Rules{NeedDone: true})
		out = append(out, account.Record{Facts: f, Numbers: account.Judge(f)})
	}
	return out
}

// call asks for a document, past the client of measured requests.
func call(server http.Handler, method, path, key, body string) (status int, text string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (b bench) get(path string) string {
	b.Helper()
	status, text := call(b.server, http.MethodGet, path, b.key, "")
	if status != http.StatusOK {
		b.Fatalf("%s: %d %s", path, status, text)
	}
	return text
}

// value is a sample of /metrics, without its labels but those given.
func (b bench) value(name, labels string) float64 {
	b.Helper()
	for line := range strings.Lines(b.get("/metrics")) {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, labels) {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
			if err != nil {
				b.Fatal(err)
			}
			return v
		}
	}
	b.Fatalf("no %s{%s}", name, labels)
	return 0
}

// Rule 34: the counters are those of the requests.
func TestCountersAddUp(t *testing.T) {
	t.Parallel()
	simulated(t, llmtest.Config{TokensPerFrame: 3, DraftTokens: 4, Prefill: time.Second, PerFrame: 10 * time.Millisecond}, func(b bench) {
		var bodies [][]byte
		for i := range 5 {
			bodies = append(bodies, body(strings.Repeat("word", 40+i), 10+i, ""))
		}
		burst := b.client.Ready(b.Context(), stream.Request{Path: "/v1/chat/completions", Body: bodies[0]})
		burst.Release()
		time.Sleep(500 * time.Millisecond)
		if v := b.value("vllm:num_requests_running", ""); v != 1 {
			b.Errorf("%v running", v)
		}
		burst.Wait()
		g := account.Sum(b.ask(bodies[1:]...))
		if !g.Valid || *g.CompletionSum != 11+12+13+14 {
			b.Fatalf("%+v", g)
		}
		prompt := *g.PromptTokens + 45 // of the first
		want := map[string]float64{
			"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0, "vllm:prompt_tokens_total": float64(prompt),
			"vllm:generation_tokens_total": 60, "vllm:prefix_cache_queries_total": float64(prompt),
			`vllm:request_success_total`: 0,
		}
		for name, v := range want {
			if got := b.value(name, ""); got != v {
				b.Errorf("%s is %v, not %v", name, got, v)
			}
		}
		if got := b.value("vllm:request_success_total", `finished_reason="length"`); got != 5 {
			b.Errorf("%v have finished", got)
		}
		// Rule 33: the identities of speculation.
		drafts, proposed := b.value("vllm:spec_decode_num_drafts_total", ""), b.value("vllm:spec_decode_num_draft_tokens_total", "")
		accepted, sum, before := b.value("vllm:spec_decode_num_accepted_tokens_total", ""), 0.0, drafts
		for i := range 4 {
			v := b.value("vllm:spec_decode_num_accepted_tokens_per_pos_total", fmt.Sprintf(`position="%d"`, i))
			if v > before {
				b.Errorf("position %d has %v after %v", i, v, before)
			}
			before, sum = v, sum+v
		}
		if proposed != 4*drafts || accepted > proposed || sum != accepted || drafts+accepted != 60 {
			b.Errorf("%v rounds, %v proposed, %v accepted, %v by position", drafts, proposed, accepted, sum)
		}
		b.server.Foreign(7, 3)
		if got := b.value("vllm:generation_tokens_total", ""); got != 63 {
			b.Errorf("%v tokens with those of somebody else", got)
		}
		b.server.Stale(0, 2)
		b.server.Restart()
		if got := b.value("vllm:generation_tokens_total", ""); got != 0 || b.value("vllm:num_requests_waiting", "") != 2 {
			b.Errorf("%v tokens after a restart", got)
		}
	})
}

// Rule 23: a fresh salt is cold, the same salt is warm but for the last block.
func TestPrefixCache(t *testing.T) {
	t.Parallel()
	prompt := strings.Repeat("abcd", 95) // 100 tokens with the template
	cached := func(b bench, more string) int64 {
		b.Helper()
		r := b.ask(body(prompt, 2, more))[0]
		if r.Numbers.Outcome != account.Success || *r.Numbers.PromptTokens != 100 {
			b.Fatalf("%+v", r)
		}
		return *r.Numbers.CachedTokens
	}
	simulated(t, llmtest.Config{CountCached: true, PrefillPerToken: time.Millisecond}, func(b bench) {
		got := []int64{
			cached(b, `,"cache_salt":"x"`), cached(b, `,"cache_salt":"x"`), cached(b, `,"cache_salt":"y"`), cached(b, ""), cached(b, ""),
		}
		b.server.Evict()
		got = append(got, cached(b, ""))
		if d := cmp.Diff([]int64{0, 96, 0, 0, 96, 0}, got); d != "" {
			b.Errorf("(-want +got):\n%s", d)
		}
		if hits := b.value("vllm:prefix_cache_hits_total", ""); hits != 192 {
			b.Errorf("%v hits", hits)
		}
	})
	// The last token is always computed: of a prompt that is six whole blocks, five are taken from the cache.
	simulated(t, llmtest.Config{CountCached: true}, func(b bench) {
		whole := body(strings.Repeat("abcd", 91), 2, "")
		b.ask(whole)
		if r := b.ask(whole)[0].Numbers; *r.PromptTokens != 96 || *r.CachedTokens != 80 {
			b.Errorf("%d of %d cached", *r.CachedTokens, *r.PromptTokens)
		}
	})
	simulated(t, llmtest.Config{CountCached: true, IgnoreSalt: true}, func(b bench) {
		if got := []int64{cached(b, `,"cache_salt":"x"`), cached(b, `,"cache_salt":"y"`)}; !cmp.Equal(got, []int64{0, 96}) {
			b.Errorf("%v", got)
		}
	})
	simulated(t, llmtest.Config{CountCached: true, NoCache: true}, func(b bench) {
		if got := []int64{cached(b, ""), cached(b, "")}; !cmp.Equal(got, []int64{0, 0}) {
			b.Errorf("%v", got)
		}
	})
}

// A generation has its exact times, and cached tokens need no prefill.
func TestTimes(t *testing.T) {
	t.Parallel()
	simulated(t, llmtest.Config{Prefill: 50 * time.Millisecond, PrefillPerToken: time.Millisecond, PerFrame: 20 * time.Millisecond, ReasoningTokens: 2, CountReasoning: true, Continuous: true}, func(b bench) {
		prompt := body(strings.Repeat("abcd", 95), 5, "")
		cold, warm := b.ask(prompt)[0].Numbers, b.ask(prompt)[0].Numbers
		want := []float64{.150, .150, .190, .230, .150 - .096}
		got := []float64{*cold.FirstFrame, *cold.TTFT, *cold.Visible, *cold.Total, *warm.TTFT}
		for i := range want {
			if d := got[i] - want[i]; d > 1e-9 || d < -1e-9 {
				b.Errorf("%v, want %v", got, want)
				break
			}
		}
		if *cold.Reasoning.Tokens != 2 || *cold.Content.Tokens != 3 || cold.Finish != "length" || !cold.GapIsITL {
			b.Errorf("%+v", cold)
		}
	})
	simulated(t, llmtest.Config{Prefill: time.Second, Slots: 2}, func(b bench) {
		g := account.Sum(b.ask(body("a", 1, ""), body("b", 1, ""), body("c", 1, "")))
		if *g.TTFT.Max != 2 || *g.TTFT.P50 != 1 || g.ConcurrencyMax != 3 {
			b.Errorf("the third did not wait: %+v", g)
		}
	})
	simulated(t, llmtest.Config{StopAfter: 3}, func(b bench) {
		free, forced := b.ask(body("a", 9, ""))[0].Numbers, b.ask(body("a", 9, `,"ignore_eos":true`))[0].Numbers
		if free.Finish != "stop" || *free.CompletionTokens != 3 || forced.Finish != "length" || *forced.CompletionTokens != 9 {
			b.Errorf("%+v %+v", free, forced)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const long = "This model's maximum context length is 64 tokens."
	for _, c := range []struct {
		name   string
		config llmtest.Config
		body   []byte
		want   string // part of the message; empty is a success
		status int
	}{
		{"priority", llmtest.Config{}, body("a", 1, `,"priority":10`), "Priority scheduling is not enabled", 400},
		{"priority 0", llmtest.Config{}, body("a", 1, `,"priority":0`), "", 200},
		{"priority with scheduling", llmtest.Config{Priority: true}, body("a", 1, `,"priority":10`), "", 200},
		{"too long", llmtest.Config{MaxModelLen: 64}, body(strings.Repeat("abcd", 50), 10, ""), long, 400},
		{"just fits", llmtest.Config{MaxModelLen: 64}, body(strings.Repeat("abcd", 49), 10, ""), "", 200},
		{"newer name of the limit", llmtest.Config{MaxModelLen: 64}, body("abcd", 1, `,"max_completion_tokens":99`), long, 400},
		{"other model", llmtest.Config{Model: "big"}, body("a", 1, ""), "does not exist", 404},
		{"no JSON", llmtest.Config{}, []byte("{"), "unexpected end", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			simulated(t, c.config, func(b bench) {
				r := b.ask(c.body)[0]
				switch {
				case r.Facts.Status != c.status:
					b.Errorf("%+v", r.Facts)
				case c.want != "" && (r.Numbers.Reason != account.HTTPStatus || !strings.Contains(r.Facts.Failure.Text, c.want)):
					b.Errorf("%+v", r.Facts.Failure)
				case c.want == "" && r.Numbers.Outcome != account.Success:
					b.Errorf("%+v", r.Numbers)
				}
			})
		})
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	simulated(t, llmtest.Config{MaxModelLen: 128, Key: "sk-very-secret"}, func(b bench) {
		var models struct {
			Data []struct {
				ID, Root string
				Max      int `json:"max_model_len"`
			}
		}
		if err := json.Unmarshal([]byte(b.get("/v1/models")), &models); err != nil || models.Data[0].ID != "tiny" || models.Data[0].Max != 128 || models.Data[0].Root != "org/tiny" {
			b.Errorf("%+v %v", models, err)
		}
		count := func(request string) (out struct{ Count int }) {
			status, text := call(b.server, http.MethodPost, "/tokenize", b.key, request)
			if status != http.StatusOK || json.Unmarshal([]byte(text), &out) != nil {
				b.Error(status, text)
			}
			return out
		}
		// The count is that of the generation, but for what thinking adds; a text has a special token unless it is refused.
		got := []int{
			count(`{"messages":[{"role":"user","content":"abcdefgh"}]}`).Count,
			count(`{"messages":[{"role":"user","content":"abcdefgh"}],"chat_template_kwargs":{"enable_thinking":true}}`).Count,
			count(`{"prompt":"abcdefgh"}`).Count, count(`{"prompt":"abcdefgh","add_special_tokens":false}`).Count,
		}
		if d := cmp.Diff([]int{7, 10, 3, 2}, got); d != "" {
			b.Error(d)
		}
		if r := b.ask(body("abcdefgh", 2, ""))[0].Numbers; *r.PromptTokens != 7 {
			b.Errorf("%+v", r)
		}
		if text := b.get("/metrics"); !regexp.MustCompile(`(?m)^vllm:generation_tokens_created\{.*\} [\d.]+e\+\d+$`).MatchString(text) {
			b.Error(text)
		}
		if got := len(b.server.Requests("/tokenize")); got != 4 {
			b.Errorf("%d requests", got)
		}
	})
	simulated(t, llmtest.Config{}, func(b bench) {
		if status, _ := call(b.server, http.MethodGet, "/nowhere", "", ""); status != http.StatusNotFound {
			b.Error(status)
		}
	})
}

// Without its key the server answers 401, but for what is open to everybody.
func TestKey(t *testing.T) {
	t.Parallel()
	server := llmtest.New(llmtest.Config{Key: "sk-very-secret"})
	for key, want := range map[string]int{"": http.StatusUnauthorized, "sk-other": http.StatusUnauthorized, "sk-very-secret": http.StatusOK} {
		if status, text := call(server, http.MethodGet, "/v1/models", key, ""); status != want {
			t.Errorf("%q: %d %s", key, status, text)
		}
		if status, _ := call(server, http.MethodGet, "/metrics", key, ""); status != http.StatusOK {
			t.Errorf("%q: %d", key, status)
		}
	}
}

// Shapes are told apart by their names, and Play gives them to the next requests in order.
func TestPlay(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range llmtest.Shapes() {
		if seen[s.Name] || s.Why == "" || s.Want.Outcome == "" {
			t.Errorf("%q twice, or with nothing to say", s.Name)
		}
		seen[s.Name] = true
	}
	simulated(t, llmtest.Config{}, func(b bench) {
		b.server.Play(llmtest.Script{Status: http.StatusServiceUnavailable}, llmtest.Frames(0, 0, llmtest.Done))
		var got []account.Reason
		for range 3 {
			got = append(got, b.ask(body("a", 1, ""))[0].Numbers.Reason)
		}
		if d := cmp.Diff([]account.Reason{account.HTTPStatus, account.NoFinish, ""}, got); d != "" {
			b.Error(d)
		}
	})
}
