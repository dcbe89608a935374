package conform

import (
	"errors"
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

// TestRouted lets the server answer one request of the battery wrongly.
func TestRouted(t *testing.T) {
	t.Parallel()
	says := func(texts ...string) llmtest.Script {
		frames := []string{llmtest.Role()}
		for _, text := range append(slices.Repeat([]string{"x"}, 12), texts...) {
			frames = append(frames, llmtest.Event(`{"choices":[{"index":0,"delta":{"content":"`+text+`"}}]}`))
		}
		return llmtest.Frames(0, 20*time.Millisecond, append(frames, llmtest.Finish("length"), llmtest.UsageFrame(7, 12+len(texts)), llmtest.Done)...)
	}
	refuses := func(status int, header map[string]string, body string) llmtest.Script {
		return llmtest.Script{Status: status, Header: header, Steps: []llmtest.Step{{Write: body}}}
	}
	words := func(message string) string { return `{"error":{"message":"` + message + `","type":"T","code":1}}` }
	const glyphs, long, model, broken, again = "ten times over", "1998 1999 2000", "no-such-model", `"messages": [`, `"max_completion_tokens":32`
	for name, c := range map[string]struct {
		text   string
		script llmtest.Script
		want   map[string]string
	}{
		"characters":                {glyphs, says("\U0001f642 \u00e9", "\u6f22"), map[string]string{"characters": "pass", "counters": "fail: requests"}},
		"characters as escapes":     {glyphs, says(`\ud83d\ude42`), map[string]string{"characters": "pass", "counters": "fail: "}},
		"characters cut in escapes": {glyphs, says(`a\ud83d`, `\ude42b`), map[string]string{"characters": "warn: |2 replacement characters", "counters": "fail: "}},
		"the last one cut":          {glyphs, says("\u6f22", "\ufffd"), map[string]string{"characters": "pass", "counters": "fail: "}},
		"bytes that are none":       {glyphs, says("\xf0\x9f"), map[string]string{"characters": "fail: the stream is not valid UTF-8", "counters": "fail: "}},
		"everything in one read":    {glyphs, llmtest.Frames(0, 0, llmtest.Role()+llmtest.Content("a")+llmtest.Content("b")+llmtest.Finish("length")+llmtest.UsageFrame(7, 9)+llmtest.Done), map[string]string{"coalescing": "warn: all 2 frames", "counters": "fail: "}},
		"no count":                  {glyphs, llmtest.Frames(0, 20*time.Millisecond, llmtest.Role(), llmtest.Content("a"), llmtest.Content("b"), llmtest.Finish("length"), llmtest.Done), map[string]string{"tokens per frame": "not offered: ", "counters": "fail: "}},
		"a long prompt is cut":      {long, says("ok"), map[string]string{"prompt too long": "fail: it was answered: of a prompt of more than 2000 tokens 7 were used"}},
		"a long prompt in band":     {long, llmtest.Frames(0, 0, llmtest.Event(words("too long")), llmtest.Done), map[string]string{"prompt too long": "warn: status 200 with an error in the stream: too long"}},
		"a long prompt, and 500":    {long, refuses(500, nil, words("oh")), map[string]string{"prompt too long": "warn: status 500, where 400 is usual: oh"}},
		"a long prompt, no words":   {long, refuses(400, nil, "<html>"), map[string]string{"prompt too long": "warn: status 400 without a message"}},
		"a long prompt, and a cut":  {long, llmtest.Script{Cut: true}, map[string]string{"prompt too long": "fail: failed: cut"}},
		"any model":                 {model, says("ok"), map[string]string{"unknown model": "warn: it was answered"}},
		"no JSON":                   {broken, says("ok"), map[string]string{"broken JSON": "fail: it was answered"}},
		"busy": {again, refuses(429, map[string]string{"Retry-After": "3"}, words("later")), map[string]string{
			"finish at a stop": "fail: failed: http_status: later", "too many requests": "pass",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routed(t, usual, map[string]http.Handler{c.text: c.script}, nil, func(_ *llmtest.Server, r *Report, err error) {
				if err != nil {
					t.Fatal(err)
				}
				match(t, r, c.want)
			})
		})
	}
}

// A server that does not notice that its client has gone.
func TestAbortUnnoticed(t *testing.T) {
	t.Parallel()
	var server *llmtest.Server
	stuck := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Stale(1, 0)
		server.ServeHTTP(w, r)
	})
	routed(t, usual, map[string]http.Handler{"Count from 1": stuck}, func(s *llmtest.Server) { server = s }, func(_ *llmtest.Server, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		match(t, r, map[string]string{"abort": "fail: a request that was broken off still runs after 5"})
	})
	short := llmtest.Frames(0, 0, llmtest.Role(), llmtest.Content("1"), llmtest.Finish("stop"), llmtest.UsageFrame(7, 1), llmtest.Done)
	routed(t, usual, map[string]http.Handler{"Count from 1": short}, nil, func(_ *llmtest.Server, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got := remarks(r)["abort"]
		if got != "" && !strings.HasPrefix(got, "not offered: the answer had ended") {
			t.Errorf("%q", got)
		}
	})
}

// Without an answer there is nothing to look at, and a busy server is left alone.
func TestNothingToTest(t *testing.T) {
	t.Parallel()
	tested(t, usual, func(s *llmtest.Server) {
		s.Play(llmtest.Script{Status: 503, Steps: []llmtest.Step{{Write: `{"error":{"message":"loading","type":"x"}}`}}})
	}, func(server *llmtest.Server, r *Report, err error) {
		if err != nil || len(r.Findings) != 1 || !r.Failed() || r.Requests != 1 || len(server.Requests(dialect.ChatPath)) != 1 {
			t.Fatalf("%v %+v", err, r)
		}
		if got := r.Findings[0]; got.Verdict != Fail || got.Seen != "failed: http_status: loading" {
			t.Errorf("%+v", got)
		}
	})
	tested(t, usual, func(s *llmtest.Server) { s.Stale(1, 0) }, func(server *llmtest.Server, r *Report, err error) {
		var busy *scrape.NotIdle
		if !errors.As(err, &busy) || r != nil || len(server.Requests(dialect.ChatPath)) != 0 {
			t.Errorf("%v %+v", err, r)
		}
	})
}

// A server without metrics, or of which nothing is known, is tested for all the rest.
func TestWithoutMetrics(t *testing.T) {
	t.Parallel()
	lacks := func(more map[string]string) map[string]string {
		maps.Copy(more, map[string]string{"counters": "not offered: ", "abort": "not offered: "})
		return more
	}
	for name, c := range map[string]struct {
		kind dialect.Kind
		path string // of the metrics; empty: none are known
		want map[string]string
	}{
		"no metrics": {dialect.VLLM, "/nothing", lacks(map[string]string{"metrics": "warn: |404"})},
		"unknown kind": {dialect.None, "", lacks(map[string]string{
			"metrics": "warn: no address", "cold": "not offered: a server of an unknown kind has no salts", "budget": "not offered: 16 of 16 tokens",
			"usage in every frame": "not offered: ", "tokenizer": "not offered: ", "template arguments": "not offered: ",
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				live := llmtest.Pipe(llmtest.New(usual))
				defer live.Close()
				client := &http.Client{Transport: &http.Transport{DialContext: live.Dial}}
				defer client.CloseIdleConnections()
				seen, err := dialect.Detect(t.Context(), dialect.Options{URL: live.URL, Client: client, Kind: c.kind})
				if err != nil {
					t.Fatal(err)
				}
				m := &scrape.Source{Client: client}
				if c.path != "" {
					m.URLs = []string{live.URL + c.path}
				}
				r, err := run(t.Context(), seen, m, live.Dial)
				if err != nil {
					t.Fatal(err)
				}
				match(t, r, c.want)
			})
		})
	}
}
