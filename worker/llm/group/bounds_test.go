package group_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/scrape"
)

// A server that no longer answers is asked for the count of one text, not of every channel of every stream.
func TestCountsEnd(t *testing.T) {
	t.Parallel()
	server := llmtest.New(llmtest.Config{ReasoningTokens: 2})
	var counts atomic.Int32
	live, err := llmtest.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tokenize" {
			counts.Add(1)
			panic(http.ErrAbortHandler)
		}
		server.ServeHTTP(w, r)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	seen, err := dialect.Detect(t.Context(), dialect.Options{URL: live.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, server: server, seen: seen, load: group.Load{
		Server: seen, Metrics: &scrape.Source{Client: dialect.NewClient(), URLs: seen.MetricsURLs}, Cache: group.Cold,
	}}
	for _, salt := range []string{"a", "b", "c", "d"} {
		s.load.Streams = append(s.load.Streams, s.request(long, salt, 4))
	}
	r := s.run()
	const tries = 3
	if n := counts.Load(); !r.Group.Valid || n != tries {
		t.Errorf("%d counts were asked for: %+v", n, r.Group)
	}
}
