package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// chat answers a chat request with a stream.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, body []byte) {
	s.mu.Lock()
	var script *Script
	if len(s.scripts) > 0 {
		script, s.scripts = &s.scripts[0], s.scripts[1:]
	}
	s.mu.Unlock()
	if script != nil {
		script.ServeHTTP(w, r)
		return
	}
	var a asked
	if err := json.Unmarshal(body, &a); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequestError", "%v", err)
		return
	}
	prompt := a.text()
	g := generation{server: s, ask: a, prompt: Count(prompt), limit: s.config.MaxModelLen - Count(prompt)}
	for _, asked := range []*int{a.MaxTokens, a.MaxCompletion} {
		if asked != nil {
			g.limit = *asked
		}
	}
	switch {
	case a.Model != "" && a.Model != s.config.Model:
		refuse(w, http.StatusNotFound, "NotFoundError", "The model `%s` does not exist.", a.Model)
	case !a.Stream:
		refuse(w, http.StatusBadRequest, "BadRequestError", "this server only streams")
	case a.Priority != 0 && !s.config.Priority:
		refuse(w, http.StatusBadRequest, "BadRequestError", "Got priority %d but Priority scheduling is not enabled.", a.Priority)
	case g.limit < 1 || g.prompt+g.limit > s.config.MaxModelLen:
		refuse(w, http.StatusBadRequest, "BadRequestError",
			"This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains %d input tokens.",
			s.config.MaxModelLen, g.limit, g.prompt)
	default:
		g.run(w, r, prompt)
	}
}

// generation is one answer.
type generation struct {
	server *Server
	ask    asked
	prompt int
	limit  int
	cached int
	sent   int // tokens
	text   string
}

func (g *generation) run(w http.ResponseWriter, r *http.Request, prompt string) {
	s := g.server
	s.gauge(&s.counters.waiting, 1)
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-r.Context().Done():
			s.gauge(&s.counters.waiting, -1)
			return
		}
	}
	s.gauge(&s.counters.waiting, -1)
	s.gauge(&s.counters.running, 1)
	defer s.gauge(&s.counters.running, -1)

	g.cached = s.lookup(prompt, g.ask.Salt)
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(frame string) bool {
		if _, err := w.Write([]byte(frame)); err != nil {
			return false
		}
		return http.NewResponseController(w).Flush() == nil
	}
	if !send("") || !pause(r, s.config.Prefill+time.Duration(g.prompt-g.cached)*s.config.PrefillPerToken) {
		return
	}
	s.add(func(c *counters) { c.prompt += g.prompt })
	if !send(g.frame(`"role":"assistant","content":""`, "null")) {
		return
	}
	total, finish := g.limit, "length"
	if stop := s.config.StopAfter; stop > 0 && stop < total && !g.ask.IgnoreEOS {
		total, finish = stop, "stop"
	}
	for g.sent < total {
		// The first frame comes with the end of the prefill.
		if g.sent > 0 && !pause(r, s.config.PerFrame) {
			return // an abort is in none of the counters of finished requests
		}
		if !send(g.round(min(s.config.TokensPerFrame, total-g.sent))) {
			return
		}
		total, finish = g.stopped(total, finish)
	}
	// Counters are written before the client can know that the stream has ended.
	s.add(func(c *counters) { c.finished[finish]++ })
	if !send(g.frame("", quote(finish))) {
		return
	}
	if g.ask.StreamOptions["include_usage"] && !send(Event(`{"choices":[],"usage":`+g.usage()+`}`)) {
		return
	}
	send(Done)
}

// stopped is the end of the answer and its reason: here and now, if the text holds one at which to stop.
func (g *generation) stopped(total int, finish string) (end int, reason string) {
	if slices.ContainsFunc(g.ask.Stop, func(stop string) bool { return strings.Contains(g.text, stop) }) {
		return g.sent, "stop"
	}
	return total, finish
}

// round makes a frame of n tokens and counts them. A round that speculates accepts all but the last of its tokens.
func (g *generation) round(n int) string {
	s := g.server
	name := "content"
	if left := s.config.ReasoningTokens - g.sent; left > 0 {
		name, n = s.config.ReasoningName, min(n, left)
	}
	text := ""
	for i := range n {
		text += fmt.Sprintf(" %03d", (g.sent+i)%1000)
	}
	g.sent += n
	g.text += text
	s.add(func(c *counters) {
		c.generated += n
		if s.config.DraftTokens > 0 {
			c.round(s.config.DraftTokens, n-1)
		}
	})
	return g.frame(quote(name)+":"+quote(text), "null")
}

func (g *generation) frame(delta, finish string) string {
	usage := ""
	if g.server.config.Continuous {
		usage = `,"usage":` + g.usage()
	}
	return Event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":` + quote(g.server.config.Model) +
		`,"choices":[{"index":0,"delta":{` + delta + `},"logprobs":null,"finish_reason":` + finish + `}]` + usage + `}`)
}

func (g *generation) usage() string {
	more := ""
	if g.server.config.CountReasoning {
		more += fmt.Sprintf(`,"completion_tokens_details":{"reasoning_tokens":%d}`, min(g.sent, g.server.config.ReasoningTokens))
	}
	if g.server.config.CountCached {
		more += fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, g.cached)
	}
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d%s}`, g.prompt, g.sent, g.prompt+g.sent, more)
}
