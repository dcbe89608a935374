package llmtest

import (
	"slices"
	"strings"
	"time"
)

// Shape is one way in which a real server has answered, and what a client must make of it.
type Shape struct {
	Name   string
	Why    string // what clients got wrong with it
	Script Script
	Want   Want
}

// Want is what is true of a Shape for a client with the bounds of Bounds. Texts are exact.
type Want struct {
	Outcome    string // success, truncated or failed
	Reason     string // of no success
	TTFT       time.Duration
	Visible    time.Duration
	Total      time.Duration
	Completion int
	Content    string
	Reasoning  string
	Tool       string
	Warnings   []string // codes
}

// Null is a duration or a count that must be null.
const Null = -1

// The times of all shapes: headers at once, the first write after First, one write every Pace from there.
const (
	First = 100 * time.Millisecond
	Pace  = 10 * time.Millisecond
)

// The bounds that a client of the shapes should have. Some shapes end by them.
const (
	FirstByteBound = 5 * time.Second
	IdleBound      = 2 * time.Second
	TotalBound     = time.Minute
)

// Shapes returns the list. A server that is tested for conformance should show none of those whose outcome is not
// success, and a client must pass all.
func Shapes() []Shape {
	return slices.Concat(framing(), channels(), counts(), endings(), failures())
}

// at is the instant of write i.
func at(i int) time.Duration { return First + time.Duration(i)*Pace }

// usual is what most shapes say: two words, and two tokens.
var usual = []string{Role(), Content("hello"), Content(" world"), Finish("stop"), UsageFrame(7, 2), Done}

func usualWant() Want {
	return Want{Outcome: "success", TTFT: at(1), Visible: at(1), Total: at(5), Completion: 2, Content: "hello world"}
}

// shape plays writes at the usual times and adapts what is wanted.
func shape(name, why string, writes []string, adapt func(*Want)) Shape {
	w := usualWant()
	w.Total = at(len(writes) - 1)
	if adapt != nil {
		adapt(&w)
	}
	return Shape{Name: name, Why: why, Script: Frames(First, Pace, writes...), Want: w}
}

// each changes the usual frames one by one.
func each(change func(frame string) string) []string {
	out := make([]string, len(usual))
	for i, f := range usual {
		out[i] = change(f)
	}
	return out
}

func framing() []Shape {
	lf := func(end string) func(string) string {
		return func(f string) string { return strings.ReplaceAll(f, "\n", end) }
	}
	later := func(n int) func(*Want) {
		return func(w *Want) { w.TTFT, w.Visible = at(n), at(n) }
	}
	return []Shape{
		shape("plain", "the usual stream of vLLM", usual, nil),
		shape("no_space", "data: without its space gave an empty success or an error",
			each(func(f string) string { return strings.Replace(f, "data: ", "data:", 1) }), nil),
		shape("other_fields", "event, id and retry lines, and unknown ones",
			each(func(f string) string { return "event: message\nid: 1\nretry: 5\nweight: 2\n" + f }), nil),
		shape("comments", "one comment swallowed the whole stream",
			slices.Concat([]string{": ping\n\n"}, usual[:2], []string{":\n\n"}, usual[2:]), later(2)),
		shape("comment_within", "a comment between the lines of an event",
			each(func(f string) string { return ": keep-alive\n" + f }), nil),
		shape("crlf", "CR LF ends gave an empty success", each(lf("\r\n")), nil),
		shape("cr", "CR alone ends a line", each(lf("\r")), nil),
		shape("byte_order_mark", "a mark before the first line",
			slices.Concat([]string{"\xef\xbb\xbf" + usual[0]}, usual[1:]), nil),
		shape("two_data_lines", "one object over two data lines",
			each(func(f string) string { return strings.Replace(f, `,"choices"`, ",\ndata: \"choices\"", 1) }), nil),
		shape("split_after_data", "a packet split behind data: failed the request",
			[]string{Role(), Content("hello"), Content(" world")[:5], Content(" world")[5:], Finish("stop"), UsageFrame(7, 2), Done}, nil),
		shape("split_before_space", "a packet split before a space lost it: helloworld",
			slices.Concat(usual[:2], cut(Content(" world"), " world"), usual[3:]), nil),
		shape("split_character", "a packet split inside a character",
			slices.Concat(usual[:1], cut(Content("né"), "\xa9"), usual[2:]),
			func(w *Want) { later(2)(w); w.Content = "né world" }),
		shape("split_blank_line", "the blank line of a frame comes later, and completes it",
			slices.Concat(usual[:1], []string{strings.TrimSuffix(usual[1], "\n"), "\n"}, usual[2:]), later(2)),
		shape("coalesced", "ten frames in one packet made nine gaps of 0 ms",
			slices.Concat(usual[:2], []string{strings.Repeat(Content("x"), 9) + Content(" y")}, usual[3:]),
			func(w *Want) { w.Content = "hello" + strings.Repeat("x", 9) + " y" }),
		shape("one_packet", "everything in one packet has no rate", []string{strings.Join(usual, "")},
			func(w *Want) { w.TTFT, w.Visible, w.Total = at(0), at(0), at(0) }),
		shape("long_line", "a line of 200 KB was too big",
			slices.Concat(usual[:2], []string{Content(strings.Repeat("y", 200_000))}, usual[3:]),
			func(w *Want) { w.Content = "hello" + strings.Repeat("y", 200_000) }),
		shape("unterminated_done", "the last frame without its blank line", append(usual[:5:5], "data: [DONE]"),
			func(w *Want) { w.Warnings = []string{"unterminated_tail"} }),
		shape("unterminated_usage", "usage lost for want of a blank line",
			append(usual[:4:4], strings.TrimSuffix(UsageFrame(7, 2), "\n\n")),
			func(w *Want) { w.Warnings = []string{"no_done", "unterminated_tail"} }),
	}
}

// cut splits a frame before some text in it.
func cut(frame, before string) []string {
	i := strings.Index(frame, before)
	return []string{frame[:i], frame[i:]}
}

func channels() []Shape {
	think := func(name string) []string {
		return []string{Role(), Reasoning(name, "hm"), Content("hello"), Content(" world"), Finish("stop"), UsageFrame(7, 3), Done}
	}
	thought := func(w *Want) { w.Visible, w.Completion, w.Reasoning = at(2), 3, "hm" }
	return []Shape{
		{
			Name: "early_role", Why: "a role frame at 1 ms made a TTFT of 1 ms",
			Script: Script{Steps: []Step{{}, {time.Millisecond, Role()}, {199 * time.Millisecond, usual[1]}, {Pace, usual[2]}, {Pace, usual[3]}, {Pace, usual[4]}, {Pace, Done}}},
			Want: Want{
				Outcome: "success", TTFT: 200 * time.Millisecond, Visible: 200 * time.Millisecond, Total: 240 * time.Millisecond,
				Completion: 2, Content: "hello world",
			},
		},
		shape("reasoning_content", "reasoning under the older name was ignored", think("reasoning_content"), thought),
		shape("reasoning", "reasoning under the newer name was ignored", think("reasoning"), thought),
		shape("reasoning_twice", "both names with the same text are one text",
			slices.Concat(usual[:1], []string{Delta(`"reasoning":"hm","reasoning_content":"hm"`)}, think("")[2:]), thought),
		shape("reasoning_only", "length within the thinking: no answer at all",
			[]string{Role(), Reasoning("reasoning", "hm"), Reasoning("reasoning", " so"), Finish("length"), UsageFrame(7, 2), Done},
			func(w *Want) { w.Visible, w.Content, w.Reasoning = Null, "", "hm so" }),
		shape("same_frame", "reasoning and content in one frame stamp both channels",
			slices.Concat(usual[:1], []string{Delta(`"reasoning":"hm","content":"hello"`)}, usual[2:]),
			func(w *Want) { w.Reasoning = "hm" }),
		shape("white_space", "white space is text",
			slices.Concat(usual[:1], []string{Content("\n")}, usual[2:]), func(w *Want) { w.Content = "\n world" }),
		shape("content_null", "a role frame with content null, and pings, as llama.cpp sends them",
			slices.Concat([]string{":\n\n", Delta(`"role":"assistant","content":null`)}, usual[1:]),
			func(w *Want) { w.TTFT, w.Visible = at(2), at(2) }),
		shape("progress", "frames of progress before the answer are no text",
			slices.Concat([]string{Event(`{"object":"progress","prompt_progress":{"total":7,"processed":3}}`)}, usual),
			func(w *Want) { w.TTFT, w.Visible = at(2), at(2) }),
		shape("tool_call", "a tool call is text for TTFT and not visible",
			[]string{Role(), Tool(`{"a":`), Tool(`1}`), Finish("tool_calls"), UsageFrame(7, 2), Done},
			func(w *Want) { w.Visible, w.Content, w.Tool = Null, "", `{"a":1}` }),
		shape("no_text", "control tokens alone are a success without a first text",
			[]string{Role(), Finish("stop"), UsageFrame(7, 2), Done},
			func(w *Want) { w.TTFT, w.Visible, w.Content = Null, Null, "" }),
		shape("other_choice", "only choice 0 counts",
			slices.Concat(usual[:2], []string{Event(`{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}`)}, usual[2:]), nil),
	}
}
