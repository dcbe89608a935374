package chat

import (
	"bytes"
	"encoding/json"

	"cpbench/worker/llm/stream/sse"
)

// blank is what may stand around a value of JSON: no other white space.
const blank = " \t\r\n"

// Decode reads the data of one event. A frame that is not understood is Broken, whatever it holds.
func Decode(data []byte) Chunk {
	data = bytes.Trim(data, blank)
	switch {
	case string(data) == "[DONE]":
		return Chunk{Kind: Done}
	case len(data) == 0 || data[0] != '{' || !json.Valid(data):
		return Chunk{Kind: Broken}
	}
	var c Chunk
	var choices, usage, timings, metrics []byte
	fault := false
	members(data, func(name, value []byte) {
		switch string(name) {
		case "choices":
			choices = value
		case "usage":
			usage = value
		case "timings": // llama.cpp
			timings = value
		case "metrics": // vLLM with --enable-per-request-metrics
			metrics = value
		case "error":
			fault = fault || string(value) != "null"
		case "object":
			fault = fault || string(value) == `"error"`
		}
	})
	c.Usage = readUsage(usage)
	if fault {
		if c.Err = failure(data); c.Err != nil {
			c.Kind = Failed
			return c
		}
	}
	c.Server = numbers(timings, metrics)
	some := false
	elements(choices, func(choice []byte) {
		some = true
		c.choice(choice)
	})
	switch {
	case some:
		c.Kind = Choice
	case c.Usage != nil:
		c.Kind = Only
	}
	return c
}

// choice adds a choice, if it is choice 0.
func (c *Chunk) choice(raw []byte) {
	var delta []byte
	var plain, finish string
	other := false
	members(raw, func(name, value []byte) {
		switch string(name) {
		case "index":
			n := number(value)
			other = n != nil && *n != 0
		case "delta":
			delta = value
		case "text": // of plain completions
			plain = text(value)
		case "finish_reason":
			finish = text(value)
		}
	})
	if other {
		return
	}
	var older, newer string
	members(delta, func(name, value []byte) {
		switch string(name) {
		case "content":
			c.Content += text(value)
		case "reasoning_content": // vLLM until 2025-11, SGLang, llama.cpp
			older = text(value)
		case "reasoning": // vLLM since, Ollama
			newer = text(value)
		case "tool_calls":
			c.Tool += calls(value)
		case "function_call": // before there were tools
			c.Tool += call(value)
		}
	})
	c.Content += plain
	// A server that fills both names for the sake of old clients sends the same text twice.
	switch {
	case older != "":
		c.Reasoning, c.ReasoningName = c.Reasoning+older, "reasoning_content"
	case newer != "":
		c.Reasoning, c.ReasoningName = c.Reasoning+newer, "reasoning"
	}
	if finish != "" {
		c.Finish = finish
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

// readUsage reads a usage object; nil if there is none.
func readUsage(raw []byte) *Usage {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	var u Usage
	var top *int64 // SGLang
	members(raw, func(name, value []byte) {
		switch string(name) {
		case "prompt_tokens":
			u.Prompt = number(value)
		case "completion_tokens":
			u.Completion = number(value)
		case "reasoning_tokens":
			top = number(value)
		case "completion_tokens_details":
			u.Reasoning = member(value, "reasoning_tokens")
		case "prompt_tokens_details":
			u.Cached = member(value, "cached_tokens")
		}
	})
	if u.Reasoning == nil {
		u.Reasoning = top
	}
	return &u
}

// member is a number within an object; nil if it is not there.
func member(raw []byte, want string) (out *int64) {
	members(raw, func(name, value []byte) {
		if string(name) == want {
			out = number(value)
		}
	})
	return out
}
