package dialect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Options say which server is meant.
type Options struct {
	URL    string // with or without /v1 at its end
	Model  string // id of the model; empty: the only one that is served
	Kind   Kind   // empty: found out
	Key    Key
	Client *http.Client // nil: NewClient
}

// Server is a server that answers, with all that has to be known to ask it.
type Server struct {
	URL     string `json:"url"` // without /v1
	Kind    Kind   `json:"server"`
	Version string `json:"version,omitempty"` // as the server says it; empty: it does not
	Model   Card   `json:"model"`             // the one that is asked
	Models  []Card `json:"models"`            // all that are served
	// ContextLimit is the largest number of tokens of prompt and output together, of one request; nil: not known.
	ContextLimit *int     `json:"context_limit"`
	MetricsURLs  []string `json:"metrics_urls"`
	// Renders: the server tells the tokens of a chat as it would generate from them (vLLM with --enable-scale-out).
	Renders bool `json:"renders,omitempty"`

	key    Key
	client *http.Client
}

// Card is an entry of the list of models: its identity is id and root.
type Card struct {
	ID          string `json:"id"`
	Root        string `json:"root,omitempty"`   // path or name of the weights
	Parent      string `json:"parent,omitempty"` // of an adapter: the model that it changes
	MaxModelLen *int   `json:"max_model_len"`
	OwnedBy     string `json:"owned_by,omitempty"`
}

// Detect finds out which server answers and what it serves. It reads only: nothing is generated and nothing is
// tokenized, so it fits a dry run.
func Detect(ctx context.Context, o Options) (*Server, error) {
	base, err := baseURL(o.URL)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: base, Kind: o.Kind, key: o.Key, client: o.Client}
	if s.client == nil {
		s.client = NewClient()
	}
	var list struct{ Data []Card }
	if err := s.get(ctx, "/v1/models", &list); err != nil {
		if o.Kind != None || o.Model == "" || !lacks(err) {
			return nil, fmt.Errorf("the models of %s: %w", base, err)
		}
		list.Data = []Card{{ID: o.Model}} // the user has said all that the list would
	}
	s.Models = list.Data
	if s.Model, err = choose(s.Models, o.Model); err != nil {
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	if s.Kind == "" {
		if s.Kind, err = s.recognise(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.describe(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	if path := s.Kind.Traits().Metrics; path != "" {
		s.MetricsURLs = []string{base + path + s.routed()}
	}
	return s, nil
}

// baseURL is the address without /v1 and without a slash at its end.
func baseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("the address of the server cannot be read as a URL") // the text may hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("%q is no address of a server: it starts with http:// or https://", u.Redacted())
	case u.User != nil:
		return "", errors.New("the address of the server holds a user or a password; name a variable or a file with the key in its place")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q is no address of a server: it has a query", u.Redacted())
	}
	return strings.TrimSuffix(strings.TrimRight(text, "/"), "/v1"), nil
}

// WrongModel is the error of a server that has models, and none or several that could be meant.
type WrongModel struct {
	Asked string // empty: none was named
	Has   []string
}

func (e *WrongModel) Error() string {
	has := strings.Join(e.Has, ", ")
	if e.Asked == "" {
		return "the server has several models: " + has
	}
	return fmt.Sprintf("the server has no model %q; it has %s", e.Asked, has)
}

// choose is the card of the model that is asked for.
func choose(cards []Card, id string) (Card, error) {
	var ids []string
	for _, c := range cards {
		if c.ID == id {
			return c, nil
		}
		ids = append(ids, c.ID)
	}
	switch {
	case len(cards) == 0:
		return Card{}, errors.New("the server serves no model")
	case id != "":
		return Card{}, &WrongModel{id, ids}
	case len(cards) > 1:
		return Card{}, &WrongModel{"", ids}
	}
	return cards[0], nil
}

// recognise finds the kind by who owns the model, and behind a proxy that rewrites the list by endpoints that only one
// kind has.
func (s *Server) recognise(ctx context.Context) (Kind, error) {
	for owner, kind := range map[string]Kind{"vllm": VLLM, "sglang": SGLang, "llamacpp": LlamaCPP, "tensorrt_llm": TRTLLM} {
		if s.Model.OwnedBy == owner {
			return kind, nil
		}
	}
	for _, p := range []struct {
		path, field string
		kind        Kind
	}{
		{"/props", "default_generation_settings", LlamaCPP},
		{"/info", "max_total_tokens", TGI},
		{"/get_server_info", "mem_fraction_static", SGLang},
	} {
		var answer map[string]any
		if err := s.get(ctx, p.path, &answer); err != nil {
			if ctx.Err() != nil {
				return "", context.Cause(ctx)
			}
			continue
		}
		if _, ok := answer[p.field]; ok {
			return p.kind, nil
		}
	}
	return None, nil
}

// describe asks for version and context limit, each where the kind has them.
func (s *Server) describe(ctx context.Context) error {
	var answer struct {
		Version   string
		BuildInfo string `json:"build_info"`
		MaxTotal  *int   `json:"max_total_tokens"`
		ModelID   string `json:"model_id"`
		ModelPath string `json:"model_path"`
		Default   struct {
			Context *int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	path := map[Kind]string{VLLM: "/version", TRTLLM: "/version", SGLang: "/get_server_info", LlamaCPP: "/props" + s.routed(), TGI: "/info"}[s.Kind]
	if path != "" {
		err := s.get(ctx, path, &answer)
		// Without /props or /info the context limit would be a guess; without a version nothing is wrong.
		if err != nil && (s.Kind == LlamaCPP || s.Kind == TGI || ctx.Err() != nil) {
			return err
		}
	}
	s.Version = cmp.Or(answer.Version, answer.BuildInfo)
	s.Model.Root = cmp.Or(s.Model.Root, answer.ModelPath, answer.ModelID)
	switch s.Kind {
	case VLLM:
		// A route for another method is there and renders nothing.
		var status *StatusError
		s.Renders = errors.As(s.get(ctx, renderPath, nil), &status) && status.Code == http.StatusMethodNotAllowed
		s.ContextLimit = s.lengthOf(s.Model)
	case LlamaCPP:
		// Of one slot. The card's n_ctx_train is the training's length and no limit.
		s.ContextLimit = answer.Default.Context
	case TGI:
		s.ContextLimit = answer.MaxTotal
	case SGLang, TRTLLM, None:
		s.ContextLimit = s.lengthOf(s.Model)
	}
	return nil
}

// lengthOf is the context limit of a card. That of an adapter has none: its parent's counts.
func (s *Server) lengthOf(c Card) *int {
	for range s.Models {
		if c.MaxModelLen != nil || c.Parent == "" {
			break
		}
		for _, p := range s.Models {
			if p.ID == c.Parent || p.Root == c.Parent {
				c = p
				break
			}
		}
	}
	return c.MaxModelLen
}

// routed is the query that tells a router of llama.cpp whose properties and counters are meant.
func (s *Server) routed() string {
	if s.Kind != LlamaCPP || len(s.Models) < 2 {
		return ""
	}
	return "?model=" + url.QueryEscape(s.Model.ID)
}
