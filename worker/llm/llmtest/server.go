package llmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config of a simulated vLLM.
type Config struct {
	Model       string // served name; empty is "tiny"
	Root        string // path or hub id; empty is "org/tiny"
	MaxModelLen int    // 0 is 4096
	Key         string // bearer token that is asked for; empty asks for none
	Priority    bool   // with priority scheduling; without, a priority other than 0 is refused
	Slots       int    // requests that run at the same time, the others wait; 0 has no limit

	Prefill         time.Duration // of every request
	PrefillPerToken time.Duration // of prompt tokens that are not cached
	PerFrame        time.Duration // one round of generation

	TokensPerFrame  int    // 0 is 1; above it the rest are accepted drafts, if there is speculation
	DraftTokens     int    // proposed in each round; 0 has no speculation and no such counters
	ReasoningTokens int    // tokens of reasoning before the answer
	ReasoningName   string // empty is "reasoning"
	StopAfter       int    // tokens after which the model stops by itself; 0: at the request's limit, with length

	CountReasoning bool // usage tells reasoning tokens
	CountCached    bool // usage tells cached tokens
	Continuous     bool // usage in every frame
	IgnoreSalt     bool // as older servers do
	NoCache        bool // without prefix caching
	NoTokenize     bool // without /tokenize
	Lazy           bool // shows gauges and counters only after its first request, as TGI does
}

// Block is the number of tokens in a block of the prefix cache.
const Block = 16

// charsPerToken is the whole tokenizer: a token is four characters, the last one may have fewer.
const charsPerToken = 4

// Server is a simulated vLLM. All methods may be called while it serves.
type Server struct {
	config Config
	slots  chan struct{}

	mu       sync.Mutex
	scripts  []Script
	requests []Received
	cache    map[string]bool
	counters counters
	stale    [2]int
}

// Received is a request as it came over the wire.
type Received struct {
	Path   string
	Header http.Header
	Body   string
}

// New makes a server.
func New(c Config) *Server {
	c.Model, c.Root = orElse(c.Model, "tiny"), orElse(c.Root, "org/tiny")
	c.ReasoningName = orElse(c.ReasoningName, "reasoning")
	c.MaxModelLen, c.TokensPerFrame = orElse(c.MaxModelLen, 4096), orElse(c.TokensPerFrame, 1)
	s := &Server{config: c}
	if c.Slots > 0 {
		s.slots = make(chan struct{}, c.Slots)
	}
	s.Restart()
	return s
}

func orElse[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// Play answers the next chat requests with scripts, one each, in place of a generation.
func (s *Server) Play(scripts ...Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts = append(s.scripts, scripts...)
}

// Requests returns what came to a path so far.
func (s *Server) Requests(path string) []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Received
	for _, r := range s.requests {
		if r.Path == path {
			out = append(out, r)
		}
	}
	return out
}

// Restart sets all counters to zero and empties the cache, as a new process would.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters = counters{started: time.Now(), perPosition: make([]int, s.config.DraftTokens), finished: map[string]int{}}
	s.cache = map[string]bool{}
}

// Foreign adds a request of somebody else's to the counters.
func (s *Server) Foreign(prompt, generated int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters.prompt += prompt
	s.counters.generated += generated
	s.counters.finished["stop"]++
}

// Stale adds to the gauges of running and waiting requests something that never goes away.
func (s *Server) Stale(running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = [2]int{running, waiting}
}

// Evict empties the prefix cache.
func (s *Server) Evict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache = map[string]bool{}
}

// ServeHTTP answers like vLLM.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, Received{r.URL.Path, r.Header.Clone(), string(body)})
	s.mu.Unlock()
	if s.config.Key != "" && strings.HasPrefix(r.URL.Path, "/v1/") && r.Header.Get("Authorization") != "Bearer "+s.config.Key {
		refuse(w, http.StatusUnauthorized, "Unauthorized", "a valid key is needed")
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /health", "GET /ping":
	case "GET /version":
		reply(w, map[string]any{"version": "0.99.0"})
	case "GET /v1/models":
		reply(w, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": s.config.Model, "object": "model", "created": 1, "owned_by": "vllm", "root": s.config.Root, "parent": nil,
			"max_model_len": s.config.MaxModelLen, "permission": []any{},
		}}})
	case "GET /metrics":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, s.metrics())
	case "POST /tokenize":
		s.tokenize(w, body)
	case "POST /v1/chat/completions":
		s.chat(w, r, body)
	default:
		refuse(w, http.StatusNotFound, "NotFoundError", "Not Found")
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is its own affair
}

func refuse(w http.ResponseWriter, status int, kind, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": fmt.Sprintf(format, args...), "type": kind, "param": nil, "code": status,
	}})
}
