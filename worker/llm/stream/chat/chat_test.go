package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/stream/chat"
)

func n(v int64) *int64 { return &v }

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, data string
		want       chat.Chunk
	}{
		{"done", " [DONE]", chat.Chunk{Kind: chat.Done}},
		{"vllm role", `{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`, chat.Chunk{Kind: chat.Choice}},
		{"vllm text", `{"choices":[{"index":0,"delta":{"content":" a"},"finish_reason":null,"token_ids":null}]}`, chat.Chunk{Kind: chat.Choice, Content: " a"}},
		{"vllm reasoning", `{"choices":[{"index":0,"delta":{"reasoning":"r"}}]}`, chat.Chunk{Kind: chat.Choice, Reasoning: "r", ReasoningName: "reasoning"}},
		{"sglang reasoning", `{"choices":[{"index":0,"delta":{"role":null,"content":null,"reasoning_content":"r","tool_calls":null}}],"usage":null}`, chat.Chunk{Kind: chat.Choice, Reasoning: "r", ReasoningName: "reasoning_content"}},
		{"both names are one text", `{"choices":[{"delta":{"reasoning":"r","reasoning_content":"r"}}]}`, chat.Chunk{Kind: chat.Choice, Reasoning: "r", ReasoningName: "reasoning_content"}},
		{"reasoning of another kind", `{"choices":[{"delta":{"reasoning":{"effort":1},"content":"a"}}]}`, chat.Chunk{Kind: chat.Choice, Content: "a"}},
		{"ollama", `{"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"r"},"finish_reason":null}]}`, chat.Chunk{Kind: chat.Choice, Reasoning: "r", ReasoningName: "reasoning"}},
		{"parts", `{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`, chat.Chunk{Kind: chat.Choice, Content: "ab"}},
		{"plain completion", `{"choices":[{"index":0,"text":"a","finish_reason":"length"}]}`, chat.Chunk{Kind: chat.Choice, Content: "a", Finish: "length"}},
		{"tools", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`, chat.Chunk{Kind: chat.Choice, Tool: "f{}"}},
		{"tgi tools", `{"choices":[{"delta":{"tool_calls":{"index":0,"function":{"name":null,"arguments":"{}"}}}}]}`, chat.Chunk{Kind: chat.Choice, Tool: "{}"}},
		{"function call", `{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}`, chat.Chunk{Kind: chat.Choice, Tool: "f{"}},
		{"tgi finish", `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":"eos_token"}],"usage":null}`, chat.Chunk{Kind: chat.Choice, Finish: "eos_token"}},
		{"usage alone", `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}`, chat.Chunk{Kind: chat.Only, Usage: &chat.Usage{Prompt: n(7), Completion: n(2), Cached: n(4)}}},
		{"details", `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}`, chat.Chunk{Kind: chat.Only, Usage: &chat.Usage{Prompt: n(7), Completion: n(2), Reasoning: n(1)}}},
		{"sglang usage", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"reasoning_tokens":0,"prompt_tokens_details":null}}`, chat.Chunk{Kind: chat.Choice, Finish: "stop", Usage: &chat.Usage{Prompt: n(7), Completion: n(2), Reasoning: n(0)}}},
		{"details beat the top", `{"usage":{"reasoning_tokens":5,"completion_tokens_details":{"reasoning_tokens":1}}}`, chat.Chunk{Kind: chat.Only, Usage: &chat.Usage{Reasoning: n(1)}}},
		{"llama.cpp", `{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"usage":{"completion_tokens":2,"prompt_tokens":7},"timings":{"cache_n":3,"draft_n":4,"draft_n_accepted":1,"note":"x"}}`, chat.Chunk{Kind: chat.Choice, Finish: "stop", Usage: &chat.Usage{Prompt: n(7), Completion: n(2)}, Server: map[string]float64{"cache_n": 3, "draft_n": 4, "draft_n_accepted": 1}}},
		{"vllm metrics", `{"choices":[],"usage":{"completion_tokens":2},"metrics":{"time_to_first_token_ms":12.5,"queue_time_ms":null}}`, chat.Chunk{Kind: chat.Only, Usage: &chat.Usage{Completion: n(2)}, Server: map[string]float64{"time_to_first_token_ms": 12.5}}},
		{"tensorrt-llm", `{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"a","reasoning_content":null,"tool_calls":[]},"finish_reason":null,"stop_reason":null,"disaggregated_params":null}],"usage":null}`, chat.Chunk{Kind: chat.Choice, Content: "a"}},
		{"two pieces of choice 0", `{"choices":[{"index":0,"delta":{"content":"a","reasoning":"r"}},{"index":0,"delta":{"content":"b","reasoning":"s"},"finish_reason":"stop"}]}`, chat.Chunk{Kind: chat.Choice, Content: "ab", Reasoning: "rs", ReasoningName: "reasoning", Finish: "stop"}},
		{"other choice", `{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}`, chat.Chunk{Kind: chat.Choice}},
		{"error", `{"error":{"message":"m","type":"T","param":null,"code":500}}`, chat.Chunk{Kind: chat.Failed, Err: &chat.Error{Message: "m", Type: "T", Code: "500"}}},
		{"error with a word as code", `{"error":{"message":"m","type":"T","code":"busy"}}`, chat.Chunk{Kind: chat.Failed, Err: &chat.Error{Message: "m", Type: "T", Code: "busy"}}},
		{"error of odd fields", `{"error":{"message":{"a":1}}}`, chat.Chunk{Kind: chat.Failed, Err: &chat.Error{Message: `{"message":{"a":1}}`}}},
		{"error null is none", `{"error":null,"choices":[{"delta":{"content":"a"}}]}`, chat.Chunk{Kind: chat.Choice, Content: "a"}},
		{"sglang flat", `{"object":"error","message":"m","type":"T","param":null,"code":400}`, chat.Chunk{Kind: chat.Failed, Err: &chat.Error{Message: "m", Type: "T", Code: "400"}}},
		{"tgi error", `{"error":"m","error_type":"generation"}`, chat.Chunk{Kind: chat.Failed, Err: &chat.Error{Message: "m", Type: "generation"}}},
		{"progress", `{"object":"progress","prompt_progress":{"total":7}}`, chat.Chunk{Kind: chat.Other}},
		{"white space", `{"choices":[{"delta":{"content":"\n"}}]}`, chat.Chunk{Kind: chat.Choice, Content: "\n"}},
		{"bytes that are no text", "{\"choices\":[{\"delta\":{\"content\":\"a\xff\"}}]}", chat.Chunk{Kind: chat.Choice, Content: "a\ufffd"}},
		{"escapes", `{"choices":[{"delta":{"content":"\"{\\\u00e9\n"}}]}`, chat.Chunk{Kind: chat.Choice, Content: "\"{\\\u00e9\n"}},
		{"white space between all", " { \"choices\" : [ { \"index\" : 0 , \"delta\" : { \"content\" : \"a\" } } , { \"index\" : 1 } ] , \"usage\" : { \"completion_tokens\" : 2 } } ", chat.Chunk{Kind: chat.Choice, Content: "a", Usage: &chat.Usage{Completion: n(2)}}},
		{"texts that look like structure", `{"a":"]}\",","choices":[{"x":["}",{"delta":{"content":"no"}}],"delta":{"content":"a"}}]}`, chat.Chunk{Kind: chat.Choice, Content: "a"}},
		{"numbers of another kind", `{"choices":[],"usage":{"prompt_tokens":"7","completion_tokens":2.5,"prompt_tokens_details":{"cached_tokens":1e3}}}`, chat.Chunk{Kind: chat.Only, Usage: &chat.Usage{}}},
		{"no json", `{"choices":[`, chat.Chunk{Kind: chat.Broken}},
		{"no object", `7`, chat.Chunk{Kind: chat.Broken}},
		{"empty", ``, chat.Chunk{Kind: chat.Broken}},
		{"a form feed, which is no white space of JSON", "\f{}", chat.Chunk{Kind: chat.Broken}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, chat.Decode([]byte(c.data))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestParseError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       *chat.Error
	}{
		{"openai", `{"error":{"message":"m","type":"T","code":404}}`, &chat.Error{Message: "m", Type: "T", Code: "404"}},
		{"flat", `{"object":"error","message":"m","type":"T","code":400}`, &chat.Error{Message: "m", Type: "T", Code: "400"}},
		{"flat without object", `{"message":"m","code":1}`, &chat.Error{Message: "m", Code: "1"}},
		{"fastapi", `{"detail":"Not Found"}`, &chat.Error{Message: "Not Found"}},
		{"fastapi list", `{"detail":[{"loc":["body"]}]}`, &chat.Error{Message: `[{"loc":["body"]}]`}},
		{"html", `<html>`, nil},
		{"nothing", `{}`, nil},
		{"empty", ``, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, chat.ParseError([]byte(c.body))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestHasText(t *testing.T) {
	t.Parallel()
	text := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for raw, want := range map[string]bool{
		"":                   false,
		":\n\n" + text[:20]:  false,
		text[:len(text)-1]:   false, // not complete yet
		text:                 true,
		":\n\n" + text + ":": true,
		"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n": false,
		"data: [DONE]\n\n": false,
	} {
		if got := chat.HasText([]byte(raw)); got != want {
			t.Errorf("%q: %v", raw, got)
		}
	}
}

// FuzzDecode: what is JSON with a text in the usual place must give that text, and nothing else may be an error.
func FuzzDecode(f *testing.F) {
	f.Add("a", `{"role":"assistant"}`)
	f.Add("", `{"reasoning":"x","tool_calls":{"function":{"arguments":1}}}`)
	f.Add("\u2028\xff", `{"content":["a",{"text":2}],"function_call":[]}`)
	f.Fuzz(func(t *testing.T, text, extra string) {
		quoted, _ := json.Marshal(text)
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatal(err)
		}
		c := chat.Decode([]byte(`{"choices":[{"index":0,"delta":{"content":` + string(quoted) + `}}]}`))
		if c.Kind != chat.Choice || c.Content != want || c.Text() != (want != "") {
			t.Errorf("%q: %+v", text, c)
		}
		for _, data := range []string{extra, `{"choices":[{"delta":` + extra + `}]}`, `{"usage":` + extra + `}`, `{"error":` + extra + `}`, `{"timings":` + extra + `}`} {
			c := chat.Decode([]byte(data))
			if !json.Valid([]byte(data)) && strings.TrimSpace(data) != "[DONE]" && c.Kind != chat.Broken {
				t.Errorf("%q is no JSON: %+v", data, c)
			}
			if (c.Kind == chat.Failed) != (c.Err != nil) {
				t.Errorf("%q: %+v", data, c)
			}
			chat.ParseError([]byte(data))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-3e0f0c6f3a5f4d0f9a8e","object":"chat.completion.chunk","created":1780000000,"model":"org/some-model-70b","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":null,"padding":"................."}`)
	b.ReportAllocs()
	for b.Loop() {
		if c := chat.Decode(data); c.Content != " word" {
			b.Fatal(c)
		}
	}
}
