// Package chat reads what one frame of a chat completion stream says: text by channel, the reason of the end, usage, an
// error. It knows the dialects of vLLM, SGLang, llama.cpp, TGI, TensorRT-LLM and Ollama, and needs not be told which
// one it reads. Use it on the frames of package sse.
package chat

// Chunk is the meaning of one frame.
type Chunk struct {
	// Kind is what the frame is, apart from the text that it brings.
	Kind Kind
	// Reasoning, Content and Tool are the texts of choice 0 by channel. White space is text.
	Reasoning, Content, Tool string
	// ReasoningName is the name of the field that held the reasoning; empty without reasoning.
	ReasoningName string
	// Finish is the finish reason of choice 0, empty if the frame has none.
	Finish string
	// Usage is nil if the frame has none.
	Usage *Usage
	// Server holds the numbers that the server itself tells of the request: llama.cpp's timings, vLLM's metrics, under
	// the server's names. Nil if there are none.
	Server map[string]float64
	// Err is the error that the frame reports, nil if it reports none.
	Err *Error
}

// Kind is what a frame is.
type Kind uint8

// The kinds of frames.
const (
	Other  Kind = iota // JSON without choices, usage or error, such as a progress frame
	Choice             // has a choice: text, a role alone, the finish reason
	Only               // has usage and no choice
	Done               // the word [DONE]
	Failed             // an error
	Broken             // no JSON that is understood
)

// Usage is the server's count. Completion is cumulative: of several usages the last one counts. Nil is "not said",
// which is not 0.
type Usage struct {
	Prompt     *int64
	Completion *int64
	Reasoning  *int64 // part of Completion by the standard, though some servers count beyond it
	Cached     *int64 // of Prompt, taken from the prefix cache
}

// Error is an error object of a server, in a frame or as the body of a response.
type Error struct {
	Message string
	Type    string
	Code    string // number or word, as text
}
