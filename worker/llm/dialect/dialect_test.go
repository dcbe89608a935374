package dialect

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fake is a server that answers by path. What has no answer is 404.
type fake struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]string // by path with query; a number in front is the status
	asked   []string          // method, path and body
	keys    []string
}

func newFake(t *testing.T, answers map[string]string) *fake {
	t.Helper()
	f := &fake{answers: answers}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	f.keys = append(f.keys, r.Header.Get("Authorization"))
	answer, ok := f.answers[r.URL.RequestURI()]
	if !ok {
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
		return
	}
	var code int
	if n, _ := fmt.Sscanf(answer, "%d ", &code); n == 1 {
		w.WriteHeader(code)
		answer = answer[4:]
	}
	_, _ = io.WriteString(w, answer)
}

// last is what was asked last, without the method.
func (f *fake) last(t *testing.T) (path, body string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	_, rest, _ := strings.Cut(f.asked[len(f.asked)-1], " ")
	path, body, _ = strings.Cut(rest, " ")
	return path, body
}

func ptr[T any](v T) *T { return &v }

func models(cards ...string) string {
	return `{"object":"list","data":[` + strings.Join(cards, ",") + `]}`
}

// servers are the lists and descriptions of one server of each kind, written after the reference and the servers'
// public sources.
var servers = map[Kind]map[string]string{
	VLLM: {
		"/v1/models": models(`{"id":"qwen","object":"model","owned_by":"vllm","root":"/models/Qwen3-32B","parent":null,"max_model_len":40960,"permission":[]}`),
		"/version":   `{"version":"0.11.2"}`,
	},
	SGLang: {
		"/v1/models":       models(`{"id":"qwen","object":"model","owned_by":"sglang","root":"Qwen/Qwen3-32B","max_model_len":32768}`),
		"/get_server_info": `{"version":"0.5.4","mem_fraction_static":0.8,"context_length":null}`,
	},
	LlamaCPP: {
		"/v1/models": `{"models":[{}],"object":"list","data":[{"id":"qwen.gguf","object":"model","owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]}`,
		"/props":     `{"default_generation_settings":{"n_ctx":8192,"params":{}},"total_slots":4,"model_path":"/models/qwen.gguf","build_info":"b10519-abc"}`,
	},
	TGI: {
		"/v1/models": models(`{"id":"org/model","object":"model","created":0,"owned_by":"org/model"}`),
		"/info":      `{"model_id":"org/model","max_total_tokens":4096,"max_input_tokens":4095,"version":"3.3.4"}`,
	},
	TRTLLM: {
		"/v1/models": models(`{"id":"qwen","object":"model","created":1,"owned_by":"tensorrt_llm"}`),
		"/version":   `{"version":"1.2.0"}`,
	},
	None: {"/v1/models": models(`{"id":"gpt","object":"model","owned_by":"somebody"}`)},
}

func detect(t *testing.T, kind Kind) (*Server, *fake) {
	t.Helper()
	answers := map[string]string{}
	for path, text := range servers[kind] {
		answers[path] = text
	}
	f := newFake(t, answers)
	s, err := Detect(t.Context(), Options{URL: f.URL + "/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Kind]Server{
		VLLM:     {Version: "0.11.2", Model: Card{ID: "qwen", Root: "/models/Qwen3-32B", OwnedBy: "vllm", MaxModelLen: ptr(40960)}, ContextLimit: ptr(40960), MetricsURLs: []string{"/metrics"}},
		SGLang:   {Version: "0.5.4", Model: Card{ID: "qwen", Root: "Qwen/Qwen3-32B", OwnedBy: "sglang", MaxModelLen: ptr(32768)}, ContextLimit: ptr(32768), MetricsURLs: []string{"/metrics"}},
		LlamaCPP: {Version: "b10519-abc", Model: Card{ID: "qwen.gguf", Root: "/models/qwen.gguf", OwnedBy: "llamacpp"}, ContextLimit: ptr(8192), MetricsURLs: []string{"/metrics"}},
		TGI:      {Version: "3.3.4", Model: Card{ID: "org/model", Root: "org/model", OwnedBy: "org/model"}, ContextLimit: ptr(4096), MetricsURLs: []string{"/metrics"}},
		TRTLLM:   {Version: "1.2.0", Model: Card{ID: "qwen", OwnedBy: "tensorrt_llm"}, MetricsURLs: []string{"/prometheus/metrics"}},
		None:     {Model: Card{ID: "gpt", OwnedBy: "somebody"}},
	} {
		got, f := detect(t, kind)
		want.Kind, want.URL = kind, f.URL
		for i, path := range want.MetricsURLs {
			want.MetricsURLs[i] = f.URL + path
		}
		if diff := cmp.Diff(want, *got, cmpopts.IgnoreUnexported(Server{}), cmpopts.IgnoreFields(Server{}, "Models")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		if len(got.Models) != 1 {
			t.Errorf("%s: models %v", kind, got.Models)
		}
		for _, call := range f.asked {
			if !strings.HasPrefix(call, "GET ") || strings.Contains(call, "tokenize") {
				t.Errorf("%s: finding out what answers asks %q", kind, call)
			}
		}
	}
}

func TestDetectBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{SGLang, LlamaCPP, TGI} {
		answers := map[string]string{}
		for path, text := range servers[kind] {
			answers[path] = text
		}
		answers["/v1/models"] = models(`{"id":"m","owned_by":"proxy","max_model_len":100}`)
		f := newFake(t, answers)
		s, err := Detect(t.Context(), Options{URL: f.URL})
		if err != nil || s.Kind != kind {
			t.Errorf("%s is taken for %v: %v", kind, s, err)
		}
	}
	f := newFake(t, map[string]string{"/v1/models": models(`{"id":"m","owned_by":"proxy","max_model_len":100}`)})
	s, err := Detect(t.Context(), Options{URL: f.URL, Kind: VLLM})
	if err != nil || s.Kind != VLLM || s.Version != "" || *s.ContextLimit != 100 {
		t.Errorf("a kind that is given: %+v, %v", s, err)
	}
}

func TestWithoutAListOfModels(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	s, err := Detect(t.Context(), Options{URL: f.URL, Kind: None, Model: "m"})
	if err != nil || s.Model.ID != "m" || s.ContextLimit != nil || s.MetricsURLs != nil {
		t.Errorf("%+v, %v", s, err)
	}
	refuses := newFake(t, map[string]string{"/v1/models": "401 no"})
	for _, o := range []Options{{URL: f.URL, Kind: None}, {URL: f.URL, Model: "m"}, {URL: f.URL, Model: "m", Kind: VLLM}, {URL: refuses.URL, Model: "m", Kind: None}} {
		if _, err := Detect(t.Context(), o); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
}

func TestContextLimits(t *testing.T) {
	t.Parallel()
	base := `{"id":"base","root":"/m/base","parent":null,"max_model_len":4096,"owned_by":"vllm"}`
	for name, tc := range map[string]struct {
		cards []string
		model string
		want  *int
	}{
		"adapter has its parent's": {[]string{base, `{"id":"lora","root":"/m/lora","parent":"base","max_model_len":null,"owned_by":"vllm"}`}, "lora", ptr(4096)},
		"parent named by its root": {[]string{base, `{"id":"lora","root":"/m/lora","parent":"/m/base","max_model_len":null,"owned_by":"vllm"}`}, "lora", ptr(4096)},
		"adapter with its own":     {[]string{base, `{"id":"lora","root":"/m/lora","parent":"base","max_model_len":2048,"owned_by":"vllm"}`}, "lora", ptr(2048)},
		"parent is not there":      {[]string{`{"id":"lora","parent":"base","max_model_len":null,"owned_by":"vllm"}`}, "lora", nil},
		"circle":                   {[]string{`{"id":"a","parent":"b","owned_by":"vllm"}`, `{"id":"b","parent":"a","owned_by":"vllm"}`}, "a", nil},
	} {
		f := newFake(t, map[string]string{"/v1/models": models(tc.cards...), "/version": `{"version":"1"}`})
		s, err := Detect(t.Context(), Options{URL: f.URL, Model: tc.model})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, s.ContextLimit); diff != "" || s.Model.ID != tc.model || len(s.Models) != len(tc.cards) {
			t.Errorf("%s: model %+v (-want +got):\n%s", name, s.Model, diff)
		}
	}
}

func TestLlamaRouter(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string]string{
		"/v1/models":            models(`{"id":"a b.gguf","owned_by":"llamacpp"}`, `{"id":"c.gguf","owned_by":"llamacpp"}`),
		"/props?model=a+b.gguf": `{"default_generation_settings":{"n_ctx":2048}}`,
	})
	s, err := Detect(t.Context(), Options{URL: f.URL, Model: "a b.gguf"})
	if err != nil {
		t.Fatal(err)
	}
	if *s.ContextLimit != 2048 || s.MetricsURLs[0] != f.URL+"/metrics?model=a+b.gguf" {
		t.Errorf("limit %d, metrics %v", *s.ContextLimit, s.MetricsURLs)
	}
}

func TestDetectRefuses(t *testing.T) {
	t.Parallel()
	two := models(`{"id":"a","owned_by":"vllm"}`, `{"id":"b","owned_by":"vllm"}`)
	const address = "check the address"
	for name, tc := range map[string]struct {
		answers map[string]string
		model   string
		want    string
		advice  string
	}{
		"no list":              {nil, "", `/v1/models: the server answers 404 Not Found`, address},
		"no JSON":              {map[string]string{"/v1/models": "<html>"}, "", "not the JSON that was expected", address},
		"no model":             {map[string]string{"/v1/models": models()}, "", "the server serves no model", address},
		"several":              {map[string]string{"/v1/models": two}, "", "the server has several models: a, b", "name one of them"},
		"unknown":              {map[string]string{"/v1/models": two}, "c", `the server has no model "c"; it has a, b`, "name one of them"},
		"llama without /props": {map[string]string{"/v1/models": models(`{"id":"a","owned_by":"llamacpp"}`)}, "", "/props: the server answers 404", address},
		"wrong key":            {map[string]string{"/v1/models": "401 bad key sk-very-secret given"}, "", `401 Unauthorized: "bad key (hidden) given"`, "wants a key"},
		"the server's words":   {map[string]string{"/v1/models": `401 {"error":{"message":"no \"key\"","code":401}}`}, "", `Unauthorized: "no \"key\""`, "wants a key"},
		"redirect":             {map[string]string{"/v1/models": "307 "}, "", "307 Temporary Redirect", address},
	} {
		f := newFake(t, tc.answers)
		_, err := Detect(t.Context(), Options{URL: f.URL, Model: tc.model, Key: NewKey("sk-very-secret")})
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "very-secret") {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
		if got := Advice(err); !strings.Contains(got, tc.advice) {
			t.Errorf("%s: advice %q, want one with %q", name, got, tc.advice)
		}
	}
	for url, want := range map[string]string{
		"127.0.0.1:8000":              "", // the parser's words
		"ftp://127.0.0.1/v1":          "starts with http:// or https://",
		"http://u:pa55@127.0.0.1/":    "holds a user or a password",
		"http://127.0.0.1/?key=pa55":  "it has a query",
		"http://u:pa55@127.0.0.1\x7f": "cannot be read as a URL",
	} {
		if _, err := Detect(t.Context(), Options{URL: url}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "u:pa55") {
			t.Errorf("%q: error %v, want one with %q", url, err, want)
		}
	}
}

// A server that renders chats has the path for another method than the one that asks: nothing is rendered to find out.
func TestDetectRendering(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]bool{"405 ": true, "404 ": false, "501 ": false} {
		answers := map[string]string{renderPath: status + `{"detail":"Method Not Allowed"}`}
		for path, text := range servers[VLLM] {
			answers[path] = text
		}
		s, err := Detect(t.Context(), Options{URL: newFake(t, answers).URL})
		if err != nil || s.Renders != want {
			t.Errorf("%s: renders %v, %v", status, s.Renders, err)
		}
	}
}

func TestServerInARecord(t *testing.T) {
	t.Parallel()
	s, _ := detect(t, VLLM)
	s.key = NewKey("sk-very-secret")
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if out := string(text) + fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(out, "very-secret") {
		t.Errorf("the key stands in %s", out)
	}
	if !strings.Contains(string(text), `"model":{"id":"qwen","root":"/models/Qwen3-32B","max_model_len":40960,"owned_by":"vllm"}`) {
		t.Errorf("record %s", text)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, k := range []Kind{VLLM, SGLang, LlamaCPP, TGI, TRTLLM, None} {
		if _, ok := servers[k]; !ok {
			t.Errorf("no server of kind %s is tested", k)
		}
		if k.Traits().budget == "" {
			t.Errorf("%s has no field for the largest number of tokens", k)
		}
	}
	if v, s := VLLM.Traits(), SGLang.Traits(); v.Priority != LowerFirst || s.Priority != HigherFirst || v.Speculation != BySums || s.Speculation != ByLifetime {
		t.Errorf("traits %+v and %+v", v, s)
	}
	if diff := cmp.Diff([]string{"reasoning", "reasoning_content"}, VLLM.Traits().Reasoning); diff != "" {
		t.Error(diff)
	}
}
