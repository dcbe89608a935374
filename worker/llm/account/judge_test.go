package account_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/llmtest"
)

// near compares seconds that were computed in different orders.
var near = cmpopts.EquateApprox(0, 1e-9)

func n(v int64) *int64     { return &v }
func s(v float64) *float64 { return &v }

// judged plays frames, the first after 100 ms and then one every 10 ms, and judges them.
func judged(t *testing.T, rules account.Rules, retokenized *account.Retokenized, frames ...string) (account.Facts, account.Numbers) {
	t.Helper()
	var f account.Facts
	var got account.Numbers
	synctest.Test(t, func(t *testing.T) {
		f, _ = play(t, llmtest.Frames(llmtest.First, llmtest.Pace, frames...), rules)
		f.Retokenized = retokenized
		got = account.Judge(f)
		again(t, f, got)
	})
	return f, got
}

func usageWith(more string) string {
	return llmtest.Event(`{"choices":[],"usage":{"prompt_tokens":7,` + more + `}}`)
}

// TestRules has a case for each rule of the accounting that concerns one request; the name begins with its number.
func TestRules(t *testing.T) {
	t.Parallel()
	role, done, stop := llmtest.Role(), llmtest.Done, llmtest.Finish("stop")
	a, b := llmtest.Content("a"), llmtest.Content(" b")
	think := llmtest.Reasoning("reasoning", "hm")
	two := llmtest.UsageFrame(7, 2)
	type null = map[string]account.Null
	for _, c := range []struct {
		name        string
		rules       account.Rules
		retokenized *account.Retokenized
		frames      []string
		check       func(t *testing.T, f account.Facts, got account.Numbers)
	}{
		{"2, 6 the instants of the beginning are four", account.Rules{}, nil, []string{":\n\n", role, think, a, stop, two, done}, func(t *testing.T, f account.Facts, got account.Numbers) {
			want := []*float64{s(0), s(.110), s(.120), s(.130), s(.160)}
			if d := cmp.Diff(want, []*float64{got.Headers, got.FirstFrame, got.TTFT, got.Visible, got.Total}, near); d != "" {
				t.Error(d)
			}
			if *f.HeadersNS != 0 || *f.ConnNS != 0 || *f.WroteNS != 0 || *f.FirstByteNS != 0 || got.QueueWait == nil {
				t.Errorf("%+v", f)
			}
		}},
		{"3, 10 frames of one read share the stamp and have no gap", account.Rules{}, nil, []string{role, a + b + b, b, stop, two, done}, func(t *testing.T, f account.Facts, got account.Numbers) {
			if got.Frames != 4 || got.Together != 2 || got.FrameGap.N != 1 || got.GapIsITL {
				t.Errorf("%+v", got)
			}
			if d := cmp.Diff(s(.010), got.FrameGap.P50, near); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff([]int{1, 3, 1, 1, 1, 1}, f.ReadFrames); d != "" {
				t.Error(d)
			}
		}},
		{"7 white space is text, both channels are stamped by one frame", account.Rules{}, nil, []string{role, llmtest.Delta(`"reasoning":" ","content":"\n"`), stop, two, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.Reasoning.Frames != 1 || got.Content.Frames != 1 || got.Tool.Frames != 0 {
				t.Errorf("%+v", got)
			}
			if d := cmp.Diff([]*float64{s(.11), s(.11), s(.11)}, []*float64{got.TTFT, got.Reasoning.First, got.Visible}, near); d != "" {
				t.Error(d)
			}
		}},
		{"7 tool calls count for ttft and are not visible", account.Rules{}, nil, []string{role, llmtest.Tool("{}"), a, llmtest.Finish("tool_calls"), two, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if d := cmp.Diff([]*float64{s(.11), s(.12), s(.11)}, []*float64{got.TTFT, got.Visible, got.Tool.First}, near); d != "" {
				t.Error(d)
			}
		}},
		{"8 no text is a success with nulls", account.Rules{}, nil, []string{role, stop, two, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			want := null{
				"ttft_s": account.NoText, "first_visible_s": account.NoText, "last_text_s": account.NoText, "decode_tps": account.NoText,
				"decode_unbiased_tps": account.NoText, "tpot_s": account.NoText, "reasoning.tps": account.NoText, "content.tps": account.NoText, "tool.tps": account.NoText,
			}
			if d := cmp.Diff(want, got.Nulls); d != "" || got.Outcome != account.Success {
				t.Error(got.Outcome, d)
			}
		}},
		{"9 decode_tps, and the unbiased one has no continuous usage", account.Rules{}, nil, []string{role, a, b, b, stop, llmtest.UsageFrame(7, 6), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if d := cmp.Diff(s(6/.02), got.DecodeTPS, near); d != "" || got.UnbiasedTPS != nil || got.Nulls["decode_unbiased_tps"] != account.NoContinuous {
				t.Error(got, d)
			}
		}},
		{"9, 10 continuous usage: unbiased rate, and gaps that are no ITL", account.Rules{}, nil, []string{llmtest.Counted("", 7, 0), llmtest.Counted("a", 7, 3), llmtest.Counted("b", 7, 4), llmtest.Counted("c", 7, 6), stop, llmtest.UsageFrame(7, 6), done}, func(t *testing.T, f account.Facts, got account.Numbers) {
			if d := cmp.Diff(s(3/.02), got.UnbiasedTPS, near); d != "" || got.GapIsITL {
				t.Error(got, d)
			}
			if d := cmp.Diff([]int64{0, 3, 4, 6, 6}, f.UsageTokens); d != "" {
				t.Error(d)
			}
		}},
		{"10 gaps are ITL where each frame is known to hold one token", account.Rules{}, nil, []string{llmtest.Counted("", 7, 0), llmtest.Counted("a", 7, 1), llmtest.Counted("b", 7, 2), llmtest.Counted("c", 7, 3), stop, llmtest.UsageFrame(7, 3), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if !got.GapIsITL || got.FrameGap.N != 2 {
				t.Errorf("%+v", got)
			}
		}},
		{"10 tpot; role, comment, finish and usage frames make no gap", account.Rules{}, nil, []string{role, a, ":\n\n", b, stop, llmtest.UsageFrame(7, 3), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if d := cmp.Diff([]*float64{s(.01), s(.02)}, []*float64{got.TPOT, got.FrameGap.Max}, near); d != "" || got.FrameGap.N != 1 || got.Comments != 1 {
				t.Error(got, d)
			}
		}},
		{"11 one token has no rate", account.Rules{}, nil, []string{role, a, stop, llmtest.UsageFrame(7, 1), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.DecodeTPS != nil || got.TPOT != nil || got.Nulls["tpot_s"] != account.SingleToken || got.Nulls["decode_tps"] != account.SingleToken {
				t.Errorf("%+v", got)
			}
		}},
		{"11 one read has no rate", account.Rules{}, nil, []string{role, a + b, stop, two, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.DecodeTPS != nil || got.TPOT != nil || got.Nulls["decode_tps"] != account.SingleRead || got.Nulls["content.tps"] != account.SingleRead {
				t.Errorf("%+v", got)
			}
		}},
		{"13 stalls", account.Rules{StallFactor: 1.5}, nil, []string{role, a, a, a, ":\n\n", ":\n\n", a, stop, two, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if d := cmp.Diff(account.Stalls{Longest: s(.03), Count: 1, Factor: 1.5}, got.Stalls, near); d != "" {
				t.Error(d)
			}
		}},
		{"14 the last usage counts, and no count of frames stands in for it", account.Rules{}, nil, []string{role, a, b, b, stop, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.CompletionTokens != nil || got.CountSource != account.MissingCount || got.Nulls["decode_tps"] != account.NoUsage || got.Outcome != account.Success {
				t.Errorf("%+v", got)
			}
		}},
		{"14 usage that falls is told", account.Rules{}, nil, []string{llmtest.Counted("a", 7, 5), llmtest.Counted("b", 7, 4), stop, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if *got.CompletionTokens != 4 || !slices.Contains(codes(got.Warnings), string(account.WarnFalling)) {
				t.Errorf("%+v", got)
			}
		}},
		{"15 the server's reasoning beats the tokenizer's", account.Rules{}, &account.Retokenized{Reasoning: n(90), Content: n(91)}, []string{role, think, think, a, a, stop, usageWith(`"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":4}`), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			want := []account.Channel{
				{Frames: 2, First: s(.11), Last: s(.12), Tokens: n(4), Source: account.ServerUsage, TPS: s(3 / .01)},
				{Frames: 2, First: s(.13), Last: s(.14), Tokens: n(5), Source: account.ServerUsage, Note: "includes control tokens", TPS: s(4 / .01)},
			}
			if d := cmp.Diff(want, []account.Channel{got.Reasoning, got.Content}, near); d != "" {
				t.Error(d)
			}
		}},
		{"15 without it each channel is retokenized", account.Rules{}, &account.Retokenized{Reasoning: n(3), Content: n(5), Tool: n(2)}, []string{role, think, think, a, a, llmtest.Tool("{"), llmtest.Tool("}"), stop, two, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			want := []account.Channel{
				{Frames: 2, First: s(.11), Last: s(.12), Tokens: n(3), Source: account.RetokenizedText, TPS: s(2 / .01)},
				{Frames: 2, First: s(.13), Last: s(.14), Tokens: n(5), Source: account.RetokenizedText, TPS: s(4 / .01)},
				{Frames: 2, First: s(.15), Last: s(.16), Tokens: n(2), Source: account.RetokenizedText, TPS: s(1 / .01)},
			}
			if d := cmp.Diff(want, []account.Channel{got.Reasoning, got.Content, got.Tool}, near); d != "" {
				t.Error(d)
			}
		}},
		{"15 neither: missing", account.Rules{}, nil, []string{role, a, b, stop, two, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.Content.Tokens != nil || got.Content.Source != account.MissingCount || got.Content.TPS != nil || got.Nulls["content.tokens"] != account.NoCount {
				t.Errorf("%+v", got)
			}
		}},
		{"15 more reasoning than completion keeps the raw count and no answer", account.Rules{}, nil, []string{role, think, a, b, stop, usageWith(`"completion_tokens":3,"reasoning_tokens":4`), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if *got.Reasoning.Tokens != 4 || got.Content.Tokens != nil || got.Nulls["content.tokens"] != account.Above || !slices.Contains(codes(got.Warnings), string(account.WarnReasoning)) {
				t.Errorf("%+v", got)
			}
		}},
		{"15 reasoning 0 is said, and is not absent", account.Rules{}, &account.Retokenized{Content: n(1)}, []string{role, a, b, stop, usageWith(`"completion_tokens":3,"reasoning_tokens":0`), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if *got.Reasoning.Tokens != 0 || *got.Content.Tokens != 3 || got.Content.Source != account.ServerUsage {
				t.Errorf("%+v", got)
			}
		}},
		{"15 reasoning 0 beside reasoning text is a field that was not filled", account.Rules{}, &account.Retokenized{Reasoning: n(2), Content: n(1)}, []string{role, think, think, a, b, stop, usageWith(`"completion_tokens":5,"reasoning_tokens":0`), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if *got.Reasoning.Tokens != 2 || got.Reasoning.Source != account.RetokenizedText || *got.Content.Tokens != 1 || got.Content.Source != account.RetokenizedText {
				t.Errorf("%+v", got)
			}
		}},
		{"18 no [DONE] is a failure where it is always sent", account.Rules{NeedDone: true}, nil, []string{role, a, b, stop, two}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.Outcome != account.Failed || got.Reason != account.NoDone {
				t.Errorf("%+v", got)
			}
		}},
		{"18 stop before the target is flagged", account.Rules{Target: 5}, nil, []string{role, a, b, stop, two, done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.Outcome != account.Success || !slices.Contains(codes(got.Warnings), string(account.WarnShort)) {
				t.Errorf("%+v", got)
			}
		}},
		{"18 an answer that was made of nothing is flagged", account.Rules{}, nil, []string{stop, llmtest.UsageFrame(7, 0), done}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.Outcome != account.Success || !slices.Contains(codes(got.Warnings), string(account.WarnNoAnswer)) {
				t.Errorf("%+v", got)
			}
		}},
		{"18 JSON that is cut by the end is a cut, not a bad frame", account.Rules{}, nil, []string{role, a, `data: {"choices":[`}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if got.Outcome != account.Truncated || got.Reason != account.Cut {
				t.Errorf("%+v", got)
			}
		}},
		{"19 what comes after [DONE] is no part of the answer", account.Rules{}, nil, []string{role, a, b, stop, two, done + a, ":\n\n" + a}, func(t *testing.T, _ account.Facts, got account.Numbers) {
			if d := cmp.Diff(s(.15), got.Total, near); d != "" || got.Frames != 2 || got.Outcome != account.Success {
				t.Error(got, d)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, got := judged(t, c.rules, c.retokenized, c.frames...)
			c.check(t, f, got)
		})
	}
}

// Rule 20: what a failure leaves in the record.
func TestFailureIsKept(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"try later","type":"rate_limit","code":"busy"}}`
	for _, c := range []struct {
		name   string
		script llmtest.Script
		want   account.Failure
	}{
		{"status", llmtest.Script{Status: 429, Header: map[string]string{"Retry-After": "3"}, Steps: []llmtest.Step{{Write: body}}}, account.Failure{Reason: account.HTTPStatus, Text: "try later", Type: "rate_limit", Code: "busy", Body: body, RetryAfter: "3"}},
		{"status without words", llmtest.Script{Status: 502, Steps: []llmtest.Step{{Write: "<b>no"}}}, account.Failure{Reason: account.HTTPStatus, Text: `status 502: "<b>no"`, Body: "<b>no"}},
		{"silence", llmtest.Script{Silent: true}, account.Failure{Reason: account.FirstByteTimeout, Text: "no first byte in time: more than 5s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, _ := play(t, c.script, account.Rules{})
				if d := cmp.Diff(&c.want, f.Failure); d != "" {
					t.Error(d)
				}
				again(t, f, account.Judge(f))
			})
		})
	}
	f, _ := judged(t, account.Rules{}, nil, llmtest.Role(), llmtest.Event(body), llmtest.Done)
	if d := cmp.Diff(&account.Failure{Reason: account.InBand, Text: "try later", Type: "rate_limit", Code: "busy"}, f.InBand); d != "" {
		t.Error(d)
	}
}

// TestSplits cuts one stream at every byte, inside words and characters too: the answer is always the same, and every
// frame has the time of the packet that completed it.
func TestSplits(t *testing.T) {
	t.Parallel()
	frames := []string{llmtest.Role(), llmtest.Content("h\u00e9llo"), strings.ReplaceAll(llmtest.Content(" w\u00f6rld"), "\n", "\r\n"), llmtest.Finish("stop"), llmtest.UsageFrame(7, 2), llmtest.Done}
	whole := strings.Join(frames, "")
	for at := 1; at < len(whole); at++ {
		synctest.Test(t, func(t *testing.T) {
			f, texts := play(t, llmtest.Frames(llmtest.First, llmtest.Pace, whole[:at], whole[at:]), account.Rules{})
			got := account.Judge(f)
			first, total := 0.0, 0
			for i, frame := range frames {
				total += len(frame)
				complete := total
				if strings.HasSuffix(frame, "\r\n") {
					complete-- // the CR completes it
				}
				if i == 1 {
					first = llmtest.First.Seconds()
					if complete > at {
						first += llmtest.Pace.Seconds()
					}
				}
			}
			if d := cmp.Diff(s(first), got.TTFT, near); d != "" || texts.Content != "h\u00e9llo w\u00f6rld" || got.Outcome != account.Success || *got.CompletionTokens != 2 {
				t.Errorf("split at %d: %s%+v %+v", at, d, texts, got)
			}
			if f.ReadFrames[0]+f.ReadFrames[1] != len(frames) {
				t.Errorf("split at %d: frames by read %v", at, f.ReadFrames)
			}
		})
	}
}

// Rule 4: the time from the intended start holds what the request waited before it was sent.
func TestScheduled(t *testing.T) {
	t.Parallel()
	f, _ := judged(t, account.Rules{}, nil, llmtest.Role(), llmtest.Content("a"), llmtest.Done)
	f.ScheduledNS = n(-int64(500 * time.Millisecond))
	got := account.Judge(f)
	if d := cmp.Diff([]*float64{s(.5), s(.62), s(.12)}, []*float64{got.Lag, got.Scheduled, got.Total}, near); d != "" {
		t.Error(d)
	}
}
