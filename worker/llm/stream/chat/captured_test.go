package chat_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/stream/chat"
	"cpbench/worker/llm/stream/sse"
)

// answer is what a stream says as a whole.
type answer struct {
	Choices, Content, Reasoning   int // frames with a choice, and with text
	ContentBytes, ReasoningBytes  int
	Digest                        string // of the content, its first characters
	Usages, Errors, Dones, Broken int
	Finish, ReasoningName         string
	Usage                         *chat.Usage
}

// read is the answer in a file.
func read(t *testing.T, path string) answer {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	frames, err := sse.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	digest := sha256.New()
	for _, f := range frames {
		if f.Comment {
			continue
		}
		c := chat.Decode(f.Data)
		switch c.Kind {
		case chat.Choice:
			a.Choices++
		case chat.Only:
			a.Usages++
		case chat.Failed:
			a.Errors++
		case chat.Done:
			a.Dones++
		case chat.Broken, chat.Other:
			a.Broken++
		}
		if c.Content != "" {
			a.Content++
			a.ContentBytes += len(c.Content)
			digest.Write([]byte(c.Content))
		}
		if c.Reasoning != "" {
			a.Reasoning++
			a.ReasoningBytes += len(c.Reasoning)
			a.ReasoningName = c.ReasoningName
		}
		if c.Finish != "" {
			a.Finish = c.Finish
		}
		if c.Usage != nil {
			a.Usage = c.Usage
		}
	}
	if a.Content > 0 {
		a.Digest = hex.EncodeToString(digest.Sum(nil))[:12]
	}
	return a
}

// TestCaptured reads streams as a vLLM 0.32.0 has sent them. The figures were counted in the files with grep, jq and
// sha256sum.
func TestCaptured(t *testing.T) {
	t.Parallel()
	usage := func(prompt, completion, reasoning, cached int64) *chat.Usage {
		return &chat.Usage{Prompt: &prompt, Completion: &completion, Reasoning: &reasoning, Cached: &cached}
	}
	for name, want := range map[string]answer{
		// 5 frames of reasoning, 111 of content: one token each, and 120 tokens in all with those that end the reasoning.
		"stream-think":  {Choices: 117, Content: 111, Reasoning: 5, ContentBytes: 515, ReasoningBytes: 23, Digest: "4ee39f735607", Usages: 1, Dones: 1, Finish: "length", ReasoningName: "reasoning", Usage: usage(31, 120, 5, 0)},
		"stream-answer": {Choices: 61, Content: 60, ContentBytes: 292, Digest: "a5a2cfa2f345", Usages: 1, Dones: 1, Finish: "length", Usage: usage(32, 60, 0, 0)},
		// 281 frames of text and 331 tokens: no count of frames is one of tokens.
		"stream-stop":             {Choices: 283, Content: 225, Reasoning: 56, ContentBytes: 1368, ReasoningBytes: 307, Digest: "52ab9a79bb7f", Usages: 1, Dones: 1, Finish: "stop", ReasoningName: "reasoning", Usage: usage(31, 331, 57, 0)},
		"stream-continuous-usage": {Choices: 30, Content: 24, Reasoning: 5, ContentBytes: 111, ReasoningBytes: 23, Digest: "662acb5d8ef4", Usages: 1, Dones: 1, Finish: "length", ReasoningName: "reasoning", Usage: usage(31, 30, 5, 0)},
		"stream-no-usage":         {Choices: 10, Content: 4, Reasoning: 5, ContentBytes: 28, ReasoningBytes: 23, Digest: "0d2a4941231d", Dones: 1, Finish: "length", ReasoningName: "reasoning"},
		"stream-effort-toplevel":  {Choices: 11, Reasoning: 10, ReasoningBytes: 42, Usages: 1, Dones: 1, Finish: "length", ReasoningName: "reasoning", Usage: usage(43, 10, 10, 0)},
		"stream-warm":             {Choices: 3, Content: 2, ContentBytes: 4, Digest: "28c21c2670bf", Usages: 1, Dones: 1, Finish: "length", Usage: usage(667, 3, 0, 640)},
		// With speculation and a stream interval of 4 a frame holds about four tokens.
		"ngram-answer":           {Choices: 52, Content: 51, ContentBytes: 1072, Digest: "974331359cbb", Usages: 1, Dones: 1, Finish: "length", Usage: usage(32, 200, 0, 0)},
		"ngram-continuous-usage": {Choices: 24, Content: 21, Reasoning: 2, ContentBytes: 432, ReasoningBytes: 23, Digest: "600948498d72", Usages: 1, Dones: 1, Finish: "length", ReasoningName: "reasoning", Usage: usage(31, 100, 5, 0)},
		// The server was told to end: an error in the stream, and [DONE] all the same.
		"cut-by-sigterm": {Choices: 112, Content: 100, Reasoning: 11, ContentBytes: 526, ReasoningBytes: 64, Digest: "cf1e84a304cf", Errors: 1, Dones: 1, ReasoningName: "reasoning"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(want, read(t, filepath.Join("testdata/vllm/0.32.0", name+".txt"))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestCapturedErrors reads bodies of answers that are no success.
func TestCapturedErrors(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]chat.Error{
		"bad-model":         {Message: "The model `other` does not exist. Valid aliases: tiny.", Type: "NotFoundError", Code: "404"},
		"bad-json":          {Message: "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.16', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting property name enclosed in double quotes'}}", Type: "Bad Request", Code: "400"},
		"bad-priority-type": {Message: "1 validation error:\n  {'type': 'int_parsing', 'loc': 'body.priority', 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'soon'}", Type: "Bad Request", Code: "400"},
		"budget-too-large":  {Message: "max_completion_tokens=5000 cannot be greater than max_model_len=4096. Please request fewer output tokens. (parameter=max_completion_tokens, value=5000)", Type: "BadRequestError", Code: "400"},
		"own-template":      {Message: "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted chat template.", Type: "BadRequestError", Code: "400"},
		"too-long":          {Message: "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=4097)", Type: "BadRequestError", Code: "400"},
		"no-route":          {Message: "Not Found"},
		"refused":           {Message: "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.", Type: "PermissionDeniedError", Code: "403"},
	} {
		body, err := os.ReadFile(filepath.Join("testdata/vllm/0.32.0", "error-"+name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(&want, chat.ParseError(body)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
