package group_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/llmtest/visit"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/stream"
)

// stage is a simulated server and what a group needs of it.
type stage struct {
	t      *testing.T
	server *llmtest.Server
	seen   *dialect.Server
	load   group.Load
}

func newStage(t *testing.T, c llmtest.Config) *stage {
	t.Helper()
	server, seen := visit.Server(t, c)
	return &stage{t: t, server: server, seen: seen, load: group.Load{
		Server: seen, Metrics: &scrape.Source{Client: dialect.NewClient(), URLs: seen.MetricsURLs}, Cache: group.Cold,
		Patience: time.Second, Timeouts: stream.Timeouts{FirstByte: 5 * time.Second, Idle: 5 * time.Second, Total: 20 * time.Second},
	}}
}

// request is a stream with a text of its own, or the text of another.
func (s *stage) request(text, salt string, tokens int) group.Request {
	messages := []prompt.Message{{Role: "user", Content: text}}
	body, err := s.seen.Body(dialect.Request{Messages: messages, MaxTokens: tokens, Salt: salt})
	if err != nil {
		s.t.Fatal(err)
	}
	return group.Request{Prompt: prompt.Prompt{Messages: messages}, Salt: salt, Body: body, MaxTokens: tokens}
}

func (s *stage) run() *group.Report {
	s.t.Helper()
	r, err := group.Run(s.t.Context(), s.load)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func words(r *group.Report) []string {
	var out []string
	for _, reason := range r.Invalid {
		out = append(out, reason.Word)
	}
	return out
}

var long = strings.Repeat("word ", 100) // 125 tokens

func TestClean(t *testing.T) {
	t.Parallel()
	s := newStage(t, llmtest.Config{DraftTokens: 3, TokensPerFrame: 3, CountCached: true, PerFrame: time.Millisecond, ReasoningTokens: 3})
	s.load.Streams = []group.Request{s.request(long, "a", 30), s.request(long, "b", 30)}
	r := s.run()
	if len(r.Invalid) > 0 || !r.Group.Valid || r.Health.Verdict == "" || r.Health.Wall < r.Group.Wall {
		t.Fatalf("%+v %+v", r.Invalid, r.Health)
	}
	got := []any{r.Group.Succeeded, *r.Group.Tokens, r.Audit.Verdict, r.Cache.Verified, *r.Cache.Cached, *r.Speculation.Rounds, *r.Speculation.Accepted, r.Group.ConcurrencyMax}
	want := []any{2, int64(60), scrape.Clean, true, 0.0, 20.0, 40.0, 2}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for i, line := range r.Lines {
		if f := line.Record.Facts; f.Retokenized == nil || f.Retokenized.Reasoning == nil || line.Record.Numbers.Reasoning.Source != "retokenized_text" {
			t.Errorf("stream %d: its reasoning is not counted: %+v", i, f.Retokenized)
		}
		if c := line.Record.Facts.Conn; !c.Ahead || c.Reused {
			t.Errorf("stream %d: the connection was not opened ahead: %+v", i, c)
		}
	}
}

// Rule 18: of a fixed length, an answer that stops before it is told of.
func TestFixedLength(t *testing.T) {
	t.Parallel()
	s := newStage(t, llmtest.Config{StopAfter: 5})
	for _, fixed := range []bool{false, true} {
		r := s.request(long, fmt.Sprint(fixed), 30)
		r.Fixed = fixed
		s.load.Streams = []group.Request{r}
		short := slices.ContainsFunc(s.run().Group.Warnings, func(w account.Warning) bool { return w.Code == account.WarnShort })
		if short != fixed {
			t.Errorf("fixed %v: warned %v", fixed, short)
		}
	}
}

// Rule 23: a label is a claim, and the server's own count decides.
func TestCacheLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		config  llmtest.Config
		label   group.Label
		primed  bool
		evicted bool
		text    string
		want    group.Label
		invalid []string
		doubt   bool
	}{
		{"cold", llmtest.Config{CountCached: true}, group.Cold, false, false, long, group.Cold, nil, false},
		{"cold by counters", llmtest.Config{}, group.Cold, false, false, long, group.Cold, nil, false},
		{"salt ignored", llmtest.Config{CountCached: true, IgnoreSalt: true}, group.Cold, true, false, long, group.Cold, []string{group.CacheLabel}, false},
		{"salt ignored, by counters", llmtest.Config{IgnoreSalt: true}, group.Cold, true, false, long, group.Cold, []string{group.CacheLabel}, false},
		{"warm", llmtest.Config{CountCached: true}, group.Warm, true, false, long, group.Warm, nil, false},
		{"warm by counters", llmtest.Config{}, group.Warm, true, false, long, group.Warm, nil, false},
		{"evicted", llmtest.Config{CountCached: true}, group.Warm, true, true, long, group.Evicted, []string{group.CacheLabel}, false},
		{"no cache", llmtest.Config{NoCache: true}, group.Warm, true, false, long, group.Evicted, []string{group.CacheLabel}, false},
		{"too short to tell", llmtest.Config{CountCached: true}, group.Warm, true, false, "word", group.Warm, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c.config)
			s.load.Cache = c.label
			if c.primed {
				salt := "same"
				if c.label == group.Cold {
					salt = "another"
				}
				prime := s.load
				prime.Streams, prime.Cache = []group.Request{s.request(c.text, salt, 4)}, group.Cold
				if _, err := group.Run(t.Context(), prime); err != nil {
					t.Fatal(err)
				}
			}
			if c.evicted {
				s.server.Evict()
			}
			s.load.Streams = []group.Request{s.request(c.text, "same", 4)}
			r := s.run()
			if d := cmp.Diff(c.invalid, words(r)); d != "" || r.Cache.Label != c.want || (r.Cache.Doubt != "") != c.doubt {
				t.Errorf("%s\n%+v", d, r.Cache)
			}
		})
	}
}

func TestMixed(t *testing.T) {
	t.Parallel()
	s := newStage(t, llmtest.Config{PerFrame: 10 * time.Millisecond})
	long2 := s.request(strings.Repeat(long, 4), "c", 10)
	s.load.Streams, s.load.Long, s.load.Delay = []group.Request{s.request("one", "a", 60), s.request("two", "b", 60)}, &long2, 100*time.Millisecond
	r := s.run()
	if len(r.Invalid) > 0 || r.Overlap == nil || !r.Overlap.Proven || len(r.Lines) != 3 || r.Lines[2].Role != "long" || r.Group.Succeeded != 3 || r.Health.Verdict == "" {
		t.Fatalf("%+v %+v %+v", r.Invalid, r.Overlap, r.Health)
	}
	if first := *r.Overlap.Shorts[1].FirstText; first > -0.1 {
		t.Errorf("the long request was sent %v s after a first text, and the delay is 0.1 s", -first)
	}
}

// Without an overlap the long request is not even sent.
func TestMixedWithoutOverlap(t *testing.T) {
	t.Parallel()
	s := newStage(t, llmtest.Config{})
	long2 := s.request(long, "c", 10)
	s.load.Streams, s.load.Long, s.load.Delay = []group.Request{s.request("one", "a", 3), s.request("two", "b", 3)}, &long2, 200*time.Millisecond
	r := s.run()
	if d := cmp.Diff([]string{group.NoOverlap}, words(r)); d != "" || r.Overlap != nil || len(r.Lines) != 2 {
		t.Errorf("%s %+v", d, r.Overlap)
	}
	if n := len(s.server.Requests("/v1/chat/completions")); n != 2 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	t.Run("busy", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, llmtest.Config{})
		s.server.Stale(1, 0)
		s.load.Streams = []group.Request{s.request(long, "a", 3)}
		r := s.run()
		if d := cmp.Diff([]string{group.NotIdle}, words(r)); d != "" || !strings.Contains(r.Invalid[0].Text, "stale gauge") {
			t.Errorf("%s %+v", d, r.Invalid)
		}
		if n := len(s.server.Requests("/v1/chat/completions")); n != 0 {
			t.Errorf("%d requests were sent to a busy server", n)
		}
	})
	t.Run("foreign traffic while counters settle", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, llmtest.Config{})
		s.load.Streams = []group.Request{s.request(long, "a", 3)}
		s.load.Settle = 300 * time.Millisecond
		go func() {
			for len(s.server.Requests("/v1/chat/completions")) == 0 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			s.server.Foreign(10, 5)
		}()
		if d := cmp.Diff([]string{group.Contaminated}, words(s.run())); d != "" {
			t.Error(d)
		}
	})
	t.Run("counters that fall", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, llmtest.Config{})
		s.load.Streams = []group.Request{s.request(long, "a", 3)}
		s.load.Settle = 300 * time.Millisecond
		go func() {
			for len(s.server.Requests("/v1/chat/completions")) == 0 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			s.server.Restart()
		}()
		r := s.run()
		if d := cmp.Diff([]string{group.CounterReset}, words(r)); d != "" || r.Cache.Label != group.Cold {
			t.Errorf("%s label %q", d, r.Cache.Label)
		}
	})
	// Rule 22.
	t.Run("a stream that fails", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, llmtest.Config{})
		s.server.Play(llmtest.Script{Status: 500, Steps: []llmtest.Step{{Write: `{"error":{"message":"no","type":"x"}}`}}})
		s.load.Streams = []group.Request{s.request(long, "a", 3), s.request(long, "b", 3)}
		r := s.run()
		if r.Group.Valid || r.Group.Failed != 1 || r.Group.Succeeded != 1 || len(r.Invalid) > 0 {
			t.Errorf("%+v %+v", r.Group, r.Invalid)
		}
	})
	t.Run("told to stop", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, llmtest.Config{PerFrame: time.Minute})
		s.load.Streams = []group.Request{s.request(long, "a", 30)}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for len(s.server.Requests("/v1/chat/completions")) == 0 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		r, err := group.Run(ctx, s.load)
		if err == nil || len(r.Lines) != 1 || r.Group.Valid {
			t.Errorf("%v %+v", err, r.Group)
		}
	})
}
