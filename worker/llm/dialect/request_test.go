package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/worker/llm/prompt"

	"github.com/google/go-cmp/cmp"
)

var hello = []prompt.Message{{Role: "user", Content: "1 < 2 & “é”"}}

func TestBody(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"1 < 2 & “é”"}]`
	all := Request{
		Messages: hello, MaxTokens: 100, Template: Template{Thinking: ptr(true), ReasoningEffort: "high"},
		Sampling: map[string]any{"temperature": 0.5, "min_tokens": 100}, Fresh: true, FrameUsage: true,
	}
	salted := all
	salted.Salt, salted.Priority = "s1", ptr(10)
	all.FrameUsage = false
	plain := Request{Messages: hello, MaxTokens: 7}
	const kwargs = `"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"high"}`
	for name, tc := range map[string]struct {
		kind Kind
		r    Request
		want string
	}{
		"vllm":           {VLLM, salted, `{"cache_salt":"s1",` + kwargs + `,"max_completion_tokens":100,` + messages + `,"min_tokens":100,"model":"m","priority":10,"reasoning_effort":"high","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"temperature":0.5}`},
		"sglang":         {SGLang, salted, `{"cache_salt":"s1",` + kwargs + `,"max_completion_tokens":100,` + messages + `,"min_tokens":100,"model":"m","priority":10,"reasoning_effort":"high","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"temperature":0.5}`},
		"llama.cpp":      {LlamaCPP, all, `{"cache_prompt":false,` + kwargs + `,"max_tokens":100,` + messages + `,"min_tokens":100,"model":"m","reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true},"temperature":0.5}`},
		"llama.cpp warm": {LlamaCPP, plain, `{"cache_prompt":true,"max_tokens":7,` + messages + `,"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"vllm plain":     {VLLM, plain, `{"max_completion_tokens":7,` + messages + `,"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"tgi":            {TGI, plain, `{"max_tokens":7,` + messages + `,"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"trtllm":         {TRTLLM, plain, `{"max_completion_tokens":7,` + messages + `,"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"none":           {None, plain, `{"max_tokens":7,` + messages + `,"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
	} {
		got, err := (&Server{Kind: tc.kind, Model: Card{ID: "m"}}).Body(tc.r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBodyRefuses(t *testing.T) {
	t.Parallel()
	with := func(change func(*Request)) Request {
		r := Request{Messages: hello, MaxTokens: 7}
		change(&r)
		return r
	}
	for name, tc := range map[string]struct {
		kind        Kind
		r           Request
		want        string
		unsupported bool
	}{
		"no budget":     {VLLM, with(func(r *Request) { r.MaxTokens = 0 }), "max_tokens is 0", false},
		"no messages":   {VLLM, with(func(r *Request) { r.Messages = nil }), "without messages", false},
		"template":      {VLLM, with(func(r *Request) { r.Sampling = map[string]any{"chat_template": "{{x}}"} }), "a chat template is never sent", false},
		"not theirs":    {VLLM, with(func(r *Request) { r.Sampling = map[string]any{"stream": false} }), `"stream" is set by another key`, false},
		"contradiction": {VLLM, with(func(r *Request) { r.Template = Template{Thinking: ptr(false), ReasoningEffort: "high"} }), "thinking: false contradicts reasoning_effort: high", false},
		"and the other": {VLLM, with(func(r *Request) { r.Template = Template{Thinking: ptr(true), ReasoningEffort: "none"} }), "thinking: true contradicts", false},
		"twice": {VLLM, with(func(r *Request) {
			r.Template = Template{Thinking: ptr(true), Arguments: map[string]any{"enable_thinking": false}}
		}), `"enable_thinking" is given twice`, false},
		"frames":          {LlamaCPP, with(func(r *Request) { r.FrameUsage = true }), "usage in every frame", true},
		"salt":            {LlamaCPP, with(func(r *Request) { r.Salt = "s" }), "cache salt", true},
		"priority":        {LlamaCPP, with(func(r *Request) { r.Priority = ptr(1) }), "priority", true},
		"template of tgi": {TGI, with(func(r *Request) { r.Template.Thinking = ptr(true) }), "arguments of the chat template (enable_thinking)", true},
	} {
		_, err := (&Server{Kind: tc.kind}).Body(tc.r)
		if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, ErrUnsupported) != tc.unsupported {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

// TestCountAndBodyAgree is trap 1 of the reference: what the template is told is the same in counting and generating,
// and an effort says in both that the model thinks.
func TestCountAndBodyAgree(t *testing.T) {
	t.Parallel()
	answers := map[Kind]map[string]string{
		VLLM:     {"/tokenize": `{"count":3,"max_model_len":1,"tokens":[1,2,3]}`},
		SGLang:   {"/v1/tokenize": `{"count":3,"max_model_len":1000000000000000019884624838656,"tokens":[1,2,3]}`},
		LlamaCPP: {"/v1/chat/completions/input_tokens": `{"input_tokens":3}`},
	}
	for _, template := range []Template{
		{},
		{Thinking: ptr(false)},
		{ReasoningEffort: "high"},
		{ReasoningEffort: "none"},
		{Thinking: ptr(true), ReasoningEffort: "low", Arguments: map[string]any{"style": "brief"}},
	} {
		for kind, answer := range answers {
			f := newFake(t, answer)
			s := &Server{URL: f.URL, Kind: kind, Model: Card{ID: "m"}, client: NewClient()}
			n, err := s.Counter(template)(t.Context(), hello)
			if err != nil || n != 3 {
				t.Errorf("%s: %d, %v", kind, n, err)
				continue
			}
			body, err := s.Body(Request{Messages: hello, MaxTokens: 1, Template: template})
			if err != nil {
				t.Fatal(err)
			}
			_, counted := f.last(t)
			var a, b map[string]any
			if json.Unmarshal([]byte(counted), &a) != nil || json.Unmarshal(body, &b) != nil {
				t.Fatal("no JSON")
			}
			for _, field := range []string{"messages", "chat_template_kwargs", "reasoning_effort", "model"} {
				if diff := cmp.Diff(a[field], b[field]); diff != "" {
					t.Errorf("%s: %s (-counted +generated):\n%s", kind, field, diff)
				}
			}
			args, _ := b["chat_template_kwargs"].(map[string]any)
			if e := template.ReasoningEffort; e != "" && args["enable_thinking"] != (e != "none") {
				t.Errorf("%s: effort %s gives the arguments %v", kind, e, args)
			}
		}
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind    Kind
		answers map[string]string
		want    int
		path    string
		fail    string
	}{
		"vllm":              {VLLM, map[string]string{"/tokenize": `{"count":12}`}, 12, "/tokenize", ""},
		"no count":          {VLLM, map[string]string{"/tokenize": `{"tokens":[1]}`}, 0, "", "the answer has no count"},
		"vllm without":      {VLLM, nil, 0, "", "no endpoint that counts the tokens of a chat: /tokenize: the server answers 404"},
		"vllm refuses":      {VLLM, map[string]string{"/tokenize": `400 {"message":"bad template"}`}, 0, "", "bad template"},
		"sglang before":     {SGLang, map[string]string{"/v1/tokenize": `400 {"message":"prompt: Field required"}`}, 0, "", "SGLang counts chats since April 2026"},
		"llama.cpp before":  {LlamaCPP, map[string]string{"/apply-template": `{"prompt":"<s>hi"}`, "/tokenize": `{"tokens":[1,{"id":2},3]}`}, 3, "/tokenize", ""},
		"llama.cpp refuses": {LlamaCPP, map[string]string{"/v1/chat/completions/input_tokens": `400 {"error":{"message":"bad template"}}`}, 0, "", "bad template"},
		"llama.cpp without": {LlamaCPP, map[string]string{"/v1/chat/completions/input_tokens": `{}`}, 0, "", "has no count"},
		"tgi":               {TGI, map[string]string{"/chat_tokenize": `{"tokenize_response":[{"id":1,"text":"a"},{"id":2,"text":"b"}],"templated_text":"ab"}`}, 2, "/chat_tokenize", ""},
		"tgi without":       {TGI, map[string]string{"/chat_tokenize": `{}`}, 0, "", "has no tokens"},
	} {
		f := newFake(t, tc.answers)
		s := &Server{URL: f.URL, Kind: tc.kind, Model: Card{ID: "m"}, client: NewClient()}
		n, err := s.Counter(Template{})(t.Context(), hello)
		if tc.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("%s: error %v, want one with %q", name, err, tc.fail)
			}
			if none := errors.Is(err, prompt.ErrNoCounter); none != (name == "vllm without" || name == "sglang before") {
				t.Errorf("%s: has no counter: %v", name, none)
			}
			continue
		}
		if path, _ := f.last(t); err != nil || n != tc.want || path != tc.path {
			t.Errorf("%s: %d by %s, %v", name, n, path, err)
		}
	}
	for _, kind := range []Kind{TRTLLM, None} {
		if (&Server{Kind: kind}).Counter(Template{}) != nil {
			t.Errorf("%s counts", kind)
		}
	}
}

// TestCountRendered is the rest of trap 1: what the server renders is what it generates from. A prompt that it refuses to
// render, as one above its limit, is counted all the same.
func TestCountRendered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rendered string
		want     int
	}{
		"rendered":    {`{"request_id":"r","token_ids":[5,6,7,8],"features":null}`, 4},
		"too long":    {`400 {"error":{"message":"maximum context length"}}`, 3},
		"older shape": {`[[{"role":"user"}],[{"prompt_token_ids":[1]}]]`, 3},
		"empty":       {`{}`, 3},
	} {
		f := newFake(t, map[string]string{renderPath: tc.rendered, "/tokenize": `{"count":3}`})
		s := &Server{URL: f.URL, Kind: VLLM, Model: Card{ID: "m"}, Renders: true, client: NewClient()}
		n, err := s.Counter(Template{ReasoningEffort: "high"})(t.Context(), hello)
		if err != nil || n != tc.want {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if !strings.Contains(f.asked[0], `"reasoning_effort":"high"`) || !strings.HasPrefix(f.asked[0], "POST "+renderPath) {
			t.Errorf("%s: asked %s", name, f.asked[0])
		}
	}
}

// TestCountText is trap 2 of the reference: no special tokens around a text that was generated.
func TestCountText(t *testing.T) {
	t.Parallel()
	for kind, tc := range map[Kind][3]string{
		VLLM:     {"/tokenize", `{"count":2}`, `{"add_special_tokens":false,"model":"m","prompt":"a <b>"}`},
		SGLang:   {"/v1/tokenize", `{"count":2}`, `{"add_special_tokens":false,"model":"m","prompt":"a <b>"}`},
		LlamaCPP: {"/tokenize", `{"tokens":[7,8]}`, `{"add_special":false,"content":"a <b>","model":"m","parse_special":false}`},
	} {
		f := newFake(t, map[string]string{tc[0]: tc[1]})
		s := &Server{URL: f.URL, Kind: kind, Model: Card{ID: "m"}, client: NewClient()}
		n, err := s.CountText(t.Context(), "a <b>")
		if path, body := f.last(t); err != nil || n != 2 || path != tc[0] || body != tc[2] {
			t.Errorf("%s: %d by %s with %s, %v", kind, n, path, body, err)
		}
	}
	for _, kind := range []Kind{TGI, TRTLLM, None} {
		if _, err := (&Server{Kind: kind}).CountText(t.Context(), "x"); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	s := Server{Kind: VLLM, Version: "1", Model: Card{ID: "m", Root: "r"}}
	base := s.Identity(Template{})
	if base == "" || base != s.Identity(Template{}) {
		t.Errorf("identity %q", base)
	}
	changed := s
	changed.Model.Root = "r2"
	rendering := s
	rendering.Renders = true
	for name, other := range map[string]string{"template": s.Identity(Template{Thinking: ptr(true)}), "weights": changed.Identity(Template{}), "way to count": rendering.Identity(Template{})} {
		if other == base {
			t.Errorf("another %s is no other identity", name)
		}
	}
}

// flaky is a transport that fails some times.
type flaky struct {
	codes []int // 0: the connection breaks
	calls []time.Time
}

func (f *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	code := f.codes[min(len(f.calls), len(f.codes)-1)]
	f.calls = append(f.calls, time.Now())
	if code == 0 {
		return nil, errors.New("connection reset")
	}
	return &http.Response{StatusCode: code, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
}

func TestBoundedTries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		codes []int
		calls int
		took  time.Duration
		ok    bool
	}{
		"at once":      {[]int{200}, 1, 0, true},
		"second":       {[]int{0, 200}, 2, 200 * time.Millisecond, true},
		"third":        {[]int{503, 429, 200}, 3, 1200 * time.Millisecond, true},
		"never":        {[]int{0}, 3, 1200 * time.Millisecond, false},
		"no use":       {[]int{400}, 1, 0, false},
		"server error": {[]int{500}, 1, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			transport := &flaky{codes: tc.codes}
			s := &Server{URL: "http://127.0.0.1:1", Kind: SGLang, client: &http.Client{Transport: transport}}
			start := time.Now()
			err := s.post(t.Context(), "/flush_cache", struct{}{}, nil)
			if len(transport.calls) != tc.calls || time.Since(start) != tc.took || (err == nil) != tc.ok {
				t.Errorf("%s: %d tries in %v: %v", name, len(transport.calls), time.Since(start), err)
			}
		})
	}
}

func TestNewClientGoesNowhereElse(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var leaked []string
	other := newFake(t, map[string]string{"/v1/models": models(`{"id":"m","owned_by":"vllm"}`)})
	f := newFake(t, nil)
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	_, err := Detect(t.Context(), Options{URL: f.URL, Key: NewKey("sk-very-secret")})
	if leaked = other.keys; len(leaked) > 0 || err == nil {
		t.Errorf("the key went to another server: %v, %v", leaked, err)
	}
	if tr, ok := NewClient().Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Error("a proxy is used")
	}
}

func ExampleKey() {
	fmt.Println(NewKey("sk-very-secret"))
	// Output: (hidden)
}
