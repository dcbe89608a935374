package llm

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/result"
)

// unseen is a server that nobody has looked at, and the session of its first group.
func unseen(t *testing.T, live *llmtest.Live) (*living, *session) {
	t.Helper()
	log, err := openRecords(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	client := dialect.NewClient()
	if live.Dial != nil {
		client.Transport = &http.Transport{DialContext: live.Dial, DisableKeepAlives: true}
	}
	seen, err := dialect.Detect(t.Context(), dialect.Options{URL: live.URL, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	l := &living{seen: seen, metrics: Source(seen, dialect.Key{})}
	l.metrics.Client = client
	s := &session{log: log, job: worker.Job{Run: &folder.Run{Plan: &plan.Plan{}}, Task: plan.Task{}, Log: slog.New(slog.DiscardHandler)}}
	s.spec.MaxTokens = 8
	return l, s
}

// A server that nobody has looked at or warmed up gets no group, although it may be idle a moment later.
func TestExamineGoesFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad  func(*llmtest.Server, *int) http.HandlerFunc
		want ending
	}{
		"busy": {func(s *llmtest.Server, _ *int) http.HandlerFunc {
			s.Stale(1, 0)
			time.AfterFunc(patience(&dialect.Server{})+2*time.Second, func() { s.Stale(0, 0) })
			return s.ServeHTTP
		}, ending{outcome: catalogue.Invalid, reason: "not_idle"}},
		"metrics that fail once": {func(s *llmtest.Server, n *int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/metrics" {
					if *n++; *n == 2 {
						http.Error(w, "not now", http.StatusServiceUnavailable)
						return
					}
				}
				s.ServeHTTP(w, r)
			}
		}, ending{outcome: catalogue.Error, reason: "the metrics could not be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := llmtest.New(llmtest.Config{})
				live := llmtest.Pipe(c.bad(server, new(int)))
				defer live.Close()
				l, session := unseen(t, live)
				end := l.examine(t.Context(), session, &result.Result{})
				if end.evidence = ""; end != c.want || l.looked || len(server.Requests("/v1/chat/completions")) > 0 {
					t.Errorf("%+v, looked %v", end, l.looked)
				}
			})
		})
	}
}

// A server that shows nothing of itself before its first request gets one.
func TestExamineWakes(t *testing.T) {
	t.Parallel()
	for _, lazy := range []bool{false, true} {
		server := llmtest.New(llmtest.Config{Lazy: lazy})
		live, err := llmtest.Listen(server)
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		l, session := unseen(t, live)
		end := l.examine(t.Context(), session, &result.Result{})
		sent := server.Requests("/v1/chat/completions")
		woken := len(sent) > 0 && strings.Contains(sent[0].Body, "cpbench-warmup-")
		if end != (ending{}) || !l.looked || woken != lazy || l.woken != lazy || len(l.findings.Worst(preflight.Warn)) > 0 {
			t.Errorf("%+v, looked %v, woken %v, %+v", end, l.looked, woken, l.findings)
		}
	}
}

// One that goes on to show nothing gets no other.
func TestExamineWakesOnce(t *testing.T) {
	t.Parallel()
	server := llmtest.New(llmtest.Config{})
	var stop context.CancelFunc
	looks := 0
	live, err := llmtest.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			server.ServeHTTP(w, r)
			return
		}
		if looks++; looks%2 == 0 { // in the wait for an idle server, which would be a long one
			stop()
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	l, session := unseen(t, live)
	for range 2 {
		var ctx context.Context
		ctx, stop = context.WithCancel(t.Context())
		end := l.examine(ctx, session, &result.Result{})
		if stop(); end.reason != "the wait for an idle server was cut off" || l.looked {
			t.Errorf("%+v", end)
		}
	}
	if n := len(server.Requests("/v1/chat/completions")); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// The key is in no finding of a server whose metrics quote it.
func TestKeyInMetrics(t *testing.T) {
	t.Parallel()
	live, err := llmtest.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, strings.Repeat("-", 190)+r.Header.Get("Authorization")+" is wrong", http.StatusUnauthorized)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	seen := &dialect.Server{URL: live.URL, MetricsURLs: []string{live.URL + "/metrics"}}
	found := preflight.Look(t.Context(), seen, Source(seen, dialect.NewKey("sk-very-secret")), 0, 0, nil)
	if text := fmt.Sprintf("%+v", found); !strings.Contains(text, "401") || strings.Contains(text, "sk-") {
		t.Error(text)
	}
}
