package llmtest

import (
	"slices"
	"strings"
	"time"
)

func counts() []Shape {
	finish := func(usage string) string {
		return Event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":` + usage + `}`)
	}
	return []Shape{
		shape("usage_in_finish", "usage in the finish frame was ignored",
			append(usual[:3:3], finish(`{"prompt_tokens":7,"completion_tokens":2}`), Done), nil),
		shape("usage_twice", "usage in the finish frame and once more: the last one counts",
			append(usual[:3:3], finish(`{"prompt_tokens":7,"completion_tokens":1}`), UsageFrame(7, 2), Done), nil),
		shape("usage_everywhere", "cumulative usage in every frame was added up",
			[]string{Counted("", 7, 0), Counted("hello", 7, 1), Counted(" world", 7, 2), finish(`{"prompt_tokens":7,"completion_tokens":2}`), Done}, nil),
		shape("usage_missing", "no usage: no count, and no count of frames in its place",
			slices.Concat(usual[:4], usual[5:]), func(w *Want) { w.Completion = Null }),
		shape("usage_null", "usage null in every frame",
			each(func(f string) string { return strings.Replace(f, `{"choices":[{`, `{"usage":null,"choices":[{`, 1) }), nil),
		shape("many_tokens", "a frame is no token: two frames, sixteen tokens",
			[]string{Role(), Content("hello"), Content(" world"), Finish("length"), UsageFrame(7, 16), Done},
			func(w *Want) { w.Completion, w.Warnings = 16, []string{"coalesced"} }),
		shape("reasoning_above", "more reasoning than completion, as some versions of SGLang count",
			[]string{Role(), Reasoning("reasoning_content", "hm"), usual[1], usual[2], finish(`{"prompt_tokens":7,"completion_tokens":3,"reasoning_tokens":4}`), Done},
			func(w *Want) {
				w.Visible, w.Completion, w.Reasoning, w.Warnings = at(2), 3, "hm", []string{"reasoning_above_completion"}
			}),
		shape("timings", "llama.cpp: usage and timings in the finish frame",
			append(usual[:3:3], Event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"completion_tokens":2,"prompt_tokens":7},"timings":{"cache_n":3,"draft_n":4,"draft_n_accepted":1}}`), Done), nil),
	}
}

func endings() []Shape {
	short := func(reason string) func(*Want) {
		return func(w *Want) { w.Outcome, w.Reason, w.Completion = "truncated", reason, Null }
	}
	bad := func(reason string) []string {
		return slices.Concat(usual[:3], []string{Finish(reason)}, usual[4:])
	}
	badWant := func(w *Want) { w.Outcome, w.Reason = "failed", "bad_finish" }
	undrained := shape("undrained", "the body does not end after [DONE]", usual, func(w *Want) { w.Warnings = []string{"undrained"} })
	undrained.Script.Hang = true
	cutOff := shape("cut", "a connection that broke was a success", usual[:3], short("cut"))
	cutOff.Script.Cut, cutOff.Want.Total = true, at(2)
	late := shape("cut_after_done", "the connection breaks when all was said", usual, func(w *Want) { w.Warnings = []string{"unclean_end"} })
	late.Script.Cut = true
	hang := shape("hang", "a stream that falls silent", usual[:3], short("idle_timeout"))
	hang.Script.Hang = true
	return []Shape{
		shape("no_done", "[DONE] is missing", usual[:5], func(w *Want) { w.Warnings = []string{"no_done"} }),
		shape("no_done_no_usage", "a finish reason and then nothing", usual[:4], short("no_end")),
		shape("no_finish", "a proper end in the middle was a success", usual[:3], short("no_finish")),
		shape("only_done", "[DONE] alone was a success with TTFT 0", []string{Done}, func(w *Want) {
			*w = Want{Outcome: "truncated", Reason: "no_finish", TTFT: Null, Visible: Null, Total: at(0), Completion: Null}
		}),
		shape("only_comments", "pings and no answer", []string{":\n\n", ":\n\n"}, func(w *Want) {
			*w = Want{Outcome: "failed", Reason: "no_events", TTFT: Null, Visible: Null, Total: Null, Completion: Null}
		}),
		shape("length", "the budget ran out: a success, and no task done", bad("length"), nil),
		shape("abort", "an aborted answer is no success", bad("abort"), badWant),
		shape("content_filter", "a filtered answer is no success", bad("content_filter"), badWant),
		shape("repetition", "an answer stopped for repeating itself is no success", bad("repetition"), badWant),
		undrained, cutOff, late, hang,
	}
}

func failures() []Shape {
	inBand := func(name, why, frame string) Shape {
		return shape(name, why, []string{Role(), Content("hello"), Content(" world"), frame, Done}, func(w *Want) {
			w.Outcome, w.Reason, w.Completion = "failed", "in_band", Null
		})
	}
	nothing := func(reason string) Want {
		return Want{Outcome: "failed", Reason: reason, TTFT: Null, Visible: Null, Total: Null, Completion: Null}
	}
	status := func(name, why string, code int, header map[string]string, body string) Shape {
		if header == nil {
			header = map[string]string{"Content-Type": "application/json"}
		}
		return Shape{
			Name: name, Why: why, Want: nothing("http_status"),
			Script: Script{Status: code, Header: header, Steps: []Step{{0, body}}},
		}
	}
	return []Shape{
		inBand("error_in_band", "an error after two tokens was a success and bettered the mean",
			Event(`{"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}`)),
		inBand("error_flat", "the flat error of older SGLang",
			Event(`{"object":"error","message":"out of memory","type":"InternalServerError","param":null,"code":500}`)),
		inBand("error_text", "the error of TGI is a text",
			Event(`{"error":"Request failed during generation","error_type":"generation"}`)),
		shape("bad_json", "a frame that is no JSON may have held anything",
			slices.Concat(usual[:2], []string{"data: {\"choices\":[\n\n"}, usual[2:]), func(w *Want) {
				w.Outcome, w.Reason = "failed", "bad_frame"
			}),
		status("too_many", "a 429 lost its body", 429, map[string]string{"Content-Type": "application/json", "Retry-After": "3"},
			`{"error":{"message":"try later","type":"rate_limit","code":"busy"}}`),
		status("bad_request", "a prompt that is too long", 400, nil,
			`{"error":{"message":"maximum context length","type":"BadRequestError","param":null,"code":400}}`),
		status("bad_gateway", "the HTML of a gateway", 502, map[string]string{"Content-Type": "text/html"}, "<html>\n<h1>Bad Gateway</h1></html>"),
		status("redirect", "a redirect would post the prompt again", 307, map[string]string{"Location": "/elsewhere"}, ""),
		{
			Name: "compressed", Why: "a proxy that compresses holds frames back", Want: nothing("encoded"),
			Script: Script{Header: map[string]string{"Content-Encoding": "gzip"}, Steps: []Step{{First, "\x1f\x8b"}}},
		},
		{Name: "silent", Why: "no answer at all", Want: nothing("first_byte_timeout"), Script: Script{Silent: true}},
		{
			Name: "headers_only", Why: "headers and then nothing", Want: nothing("first_byte_timeout"),
			Script: Script{Steps: []Step{{}}, Hang: true},
		},
		{
			Name: "pings_forever", Why: "pings keep a request alive that never answers", Want: nothing("total_timeout"),
			Script: Script{Steps: slices.Repeat([]Step{{After: time.Second, Write: ":\n\n"}}, 100)},
		},
	}
}
