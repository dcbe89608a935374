package llmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Done is the last frame of a stream.
const Done = "data: [DONE]\n\n"

// Event is a frame with the given JSON.
func Event(data string) string { return "data: " + data + "\n\n" }

// Delta is a frame whose choice 0 has the given JSON members in its delta.
func Delta(members string) string {
	return Event(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{` + members + `},"finish_reason":null}]}`)
}

// Role is the frame that begins an answer and has no text.
func Role() string { return Delta(`"role":"assistant","content":""`) }

// Content is a frame with answer text.
func Content(text string) string { return Delta(`"content":` + quote(text)) }

// Reasoning is a frame with reasoning under a field name: reasoning_content or reasoning.
func Reasoning(name, text string) string { return Delta(quote(name) + ":" + quote(text)) }

// Tool is a frame with a piece of a tool call.
func Tool(arguments string) string {
	return Delta(`"tool_calls":[{"index":0,"function":{"arguments":` + quote(arguments) + `}}]`)
}

// Finish is a frame with a finish reason and no text.
func Finish(reason string) string {
	return Event(`{"choices":[{"index":0,"delta":{},"finish_reason":` + quote(reason) + `}]}`)
}

// UsageFrame is the frame of include_usage, with no choice.
func UsageFrame(prompt, completion int) string {
	return Event(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		prompt, completion, prompt+completion))
}

// Counted is a frame with answer text and the usage so far, as continuous_usage_stats makes them.
func Counted(text string, prompt, completion int) string {
	return Event(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`,
		quote(text), prompt, completion))
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string has no error
	return string(b)
}

// drain reads the request to its end, so that the client has written all of it.
func drain(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
