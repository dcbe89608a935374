package conform

import (
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"cpbench/worker/llm/stream/chat"
)

// answerChecks look at one answer: its form.
var answerChecks = []check{
	{Check{"answer", "vllm#54708, vllm#57519", "an answer that was cut or holds an error is no success, and must not better a mean"}, func(e *evidence) (Verdict, string) {
		if !e.plain.ok() {
			return Fail, e.plain.failure()
		}
		return Pass, fmt.Sprintf("status %d, %d frames in %d reads", e.plain.facts.Status, len(e.plain.frames), len(e.plain.facts.ReadNS))
	}},
	{Check{"content type", "WHATWG event streams", "clients that go by it read the stream as one document, after its end"}, func(e *evidence) (Verdict, string) {
		media, _, err := mime.ParseMediaType(e.plain.facts.Type)
		if err != nil || media != "text/event-stream" {
			return Warn, fmt.Sprintf("%q, not text/event-stream", e.plain.facts.Type)
		}
		return Pass, e.plain.facts.Type
	}},
	{Check{"protocol", "vllm#21981", "one connection for each stream, and bytes that no proxy compresses, are what times are measured over"}, func(e *evidence) (Verdict, string) {
		if p := e.plain.facts.Protocol; p != "HTTP/1.1" {
			return Warn, p + " in answer to HTTP/1.1"
		}
		return Pass, "HTTP/1.1, not compressed"
	}},
	{Check{"framing", "WHATWG event streams; vllm#27412, vllm#51172, llama.cpp#25241", "cpbench reads every form that the standard allows; clients that split at `data: ` and LF LF count nothing in some of them"}, func(e *evidence) (Verdict, string) {
		ways, wrong := e.plain.framing()
		if len(wrong) > 0 {
			return Warn, strings.Join(append(wrong, ways...), ", ")
		}
		return Pass, strings.Join(ways, ", ")
	}},
	{Check{"role frame", "vllm#3759, vllm#3768", "a client that takes the first frame for the first token reports its time as TTFT"}, roleFrame},
	{Check{"usage", "sglang#5451, vllm#42532", "delivered tokens are counted by the server alone: without usage there is no rate"}, func(e *evidence) (Verdict, string) {
		if e.plain.numbers.CompletionTokens == nil {
			return Fail, "the answer tells no completion_tokens although stream_options.include_usage was sent"
		}
		return Pass, "in " + strings.Join(e.plain.usageAt(), ", in ")
	}},
	{Check{"done", "vllm#54708", "without [DONE] a stream that was cut after its usage looks like a whole one"}, func(e *evidence) (Verdict, string) {
		switch said := strings.ContainsRune(e.plain.facts.Kinds, 'd'); {
		case said:
			return Pass, "the stream ends with [DONE]"
		case e.server.Kind.Traits().AlwaysDone:
			return Fail, fmt.Sprintf("no [DONE], which %s always sends: something between has cut the stream", e.server.Kind)
		}
		return Warn, "no [DONE]"
	}},
	{Check{"finish at the limit", "OpenAI API", "`length` tells an answer that ran out of its budget from one that was complete"}, func(e *evidence) (Verdict, string) {
		switch reason := e.plain.facts.Finish; {
		case reason == "length":
			return Pass, "length"
		case reason == "stop" && !ignoresEnd[e.server.Kind]:
			return NotOffered, "the model stopped by itself, and this server cannot be asked to go on"
		default:
			return Warn, fmt.Sprintf("%q after %s", reason, tokensOf(e.plain))
		}
	}},
	{Check{"finish at a stop", "OpenAI API", "`stop` tells an answer that was complete from one that ran out of its budget"}, func(e *evidence) (Verdict, string) {
		switch a := e.stopped; {
		case a == nil:
			return NotOffered, "the answer had no text to stop at"
		case !a.ok():
			return Fail, a.failure()
		case a.facts.Finish == "stop":
			return Pass, fmt.Sprintf("stop, at %q", e.stop)
		default:
			return Warn, fmt.Sprintf("%q although the text %q, which came before, was to end it", a.facts.Finish, e.stop)
		}
	}},
	{Check{"characters", "vllm#51172", "a character that is split over two frames is lost to whoever decodes each frame by itself"}, characters},
	{Check{"reasoning", "sglang#23949, inference-perf#559, vllm#27752", "clients that do not know the field report a TTFT of the whole thinking, or none"}, func(e *evidence) (Verdict, string) {
		for _, a := range []*answer{e.plain, e.each} {
			if a != nil && a.facts.ReasoningName != "" {
				return Pass, fmt.Sprintf("comes in the field %q", a.facts.ReasoningName)
			}
		}
		return NotOffered, "no reasoning came: the model does not think, or the server has no parser for it"
	}},
}

// roleFrame tells how far the first frame is from the first text.
func roleFrame(e *evidence) (Verdict, string) {
	n := e.plain.numbers
	if n.TTFT == nil || n.FirstFrame == nil {
		return NotOffered, "the answer has no text"
	}
	for _, c := range e.plain.chunks {
		switch {
		case c.Text():
			return Pass, "there is none: text comes with the first frame"
		case c.Kind == chat.Choice && *n.FirstFrame == *n.TTFT:
			return Pass, fmt.Sprintf("in one read with the first text, which came after %.4g ms", *n.TTFT*1e3)
		case c.Kind == chat.Choice:
			return Pass, fmt.Sprintf("%.3g ms before the first text, which came after %.4g ms", (*n.TTFT-*n.FirstFrame)*1e3, *n.TTFT*1e3)
		}
	}
	return Pass, "there is none"
}

// characters looks at an answer that was asked to hold characters of several bytes.
func characters(e *evidence) (Verdict, string) {
	a := e.glyphs
	if !a.ok() {
		return Fail, a.failure()
	}
	if !utf8.Valid(a.x.Raw) {
		return Fail, "the stream is not valid UTF-8"
	}
	text := a.texts.Reasoning + a.texts.Content
	wide := 0
	for _, r := range text {
		if r >= utf8.RuneSelf && r != utf8.RuneError {
			wide++
		}
	}
	whole := strings.TrimRight(text, string(utf8.RuneError)) // the last one may be cut by the end of the budget
	switch broken := strings.Count(whole, string(utf8.RuneError)); {
	case broken > 0:
		return Warn, fmt.Sprintf("valid UTF-8, with %d replacement characters in the text: characters were cut, or the model wrote bytes that are none", broken)
	case wide == 0:
		return NotOffered, "valid UTF-8, but the model wrote no character of several bytes"
	}
	return Pass, fmt.Sprintf("valid UTF-8 with %d characters of several bytes", wide)
}

// tokensOf tells the tokens of an answer.
func tokensOf(a *answer) string {
	if n := a.numbers.CompletionTokens; n != nil {
		return fmt.Sprintf("%d tokens", *n)
	}
	return "an unknown number of tokens"
}
