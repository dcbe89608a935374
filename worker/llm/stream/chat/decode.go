package chat

import (
	"bytes"
	"encoding/json"

	"cpbench/worker/llm/stream/sse"
)

// wire is a frame as the servers send it, with the fields of all dialects.
type wire struct {
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Timings json.RawMessage `json:"timings"` // llama.cpp
	Metrics json.RawMessage `json:"metrics"` // vLLM with --enable-per-request-metrics

	Error     json.RawMessage `json:"error"`      // an object, or TGI's text
	ErrorType string          `json:"error_type"` // TGI
	Object    string          `json:"object"`     // "error" in the flat form of SGLang and older vLLM
	Message   text            `json:"message"`
	Type      text            `json:"type"`
	Code      json.RawMessage `json:"code"`
}

type choice struct {
	Index  int   `json:"index"`
	Delta  delta `json:"delta"`
	Text   text  `json:"text"` // of plain completions
	Finish text  `json:"finish_reason"`
}

type delta struct {
	Content          text  `json:"content"`
	ReasoningContent text  `json:"reasoning_content"` // vLLM until 2025-11, SGLang, llama.cpp
	Reasoning        text  `json:"reasoning"`         // vLLM since, Ollama
	ToolCalls        calls `json:"tool_calls"`
	FunctionCall     *call `json:"function_call"`
}

type usage struct {
	Prompt     *int64 `json:"prompt_tokens"`
	Completion *int64 `json:"completion_tokens"`
	Reasoning  *int64 `json:"reasoning_tokens"` // SGLang
	Details    *struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	PromptDetails *struct {
		Cached *int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// Decode reads the data of one event. A frame that is not understood is Broken, whatever it holds.
func Decode(data []byte) Chunk {
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		return Chunk{Kind: Done}
	}
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return Chunk{Kind: Broken}
	}
	if e := w.failure(); e != nil {
		return Chunk{Kind: Failed, Err: e, Usage: w.Usage.read()}
	}
	c := Chunk{Usage: w.Usage.read(), Server: numbers(w.Timings, w.Metrics)}
	for _, ch := range w.Choices {
		if ch.Index != 0 {
			continue
		}
		c.take(ch)
	}
	switch {
	case len(w.Choices) > 0:
		c.Kind = Choice
	case c.Usage != nil:
		c.Kind = Only
	}
	return c
}

// take adds choice 0.
func (c *Chunk) take(ch choice) {
	d := ch.Delta
	c.Content += string(d.Content) + string(ch.Text)
	// A server that fills both names for the sake of old clients sends the same text twice.
	switch {
	case d.ReasoningContent != "":
		c.Reasoning, c.ReasoningName = string(d.ReasoningContent), "reasoning_content"
	case d.Reasoning != "":
		c.Reasoning, c.ReasoningName = string(d.Reasoning), "reasoning"
	}
	for _, t := range d.ToolCalls {
		c.Tool += t.text()
	}
	if d.FunctionCall != nil {
		c.Tool += d.FunctionCall.text()
	}
	if ch.Finish != "" {
		c.Finish = string(ch.Finish)
	}
}

// Text reports whether the frame brings text on any channel.
func (c *Chunk) Text() bool { return c.Reasoning != "" || c.Content != "" || c.Tool != "" }

// HasText reports whether a stream so far has brought text in a frame that is complete; for stream.NewWatch.
func HasText(raw []byte) bool {
	frames, _ := sse.Parse(raw) // a line that is too long ends the stream elsewhere
	for _, f := range frames {
		if f.Comment || f.Unterminated {
			continue
		}
		if c := Decode(f.Data); c.Text() {
			return true
		}
	}
	return false
}

func (u *usage) read() *Usage {
	if u == nil {
		return nil
	}
	out := &Usage{Prompt: u.Prompt, Completion: u.Completion, Reasoning: u.Reasoning}
	if u.Details != nil && u.Details.Reasoning != nil {
		out.Reasoning = u.Details.Reasoning
	}
	if u.PromptDetails != nil {
		out.Cached = u.PromptDetails.Cached
	}
	return out
}
