package account_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
)

// Rules 18 and 19: what stands behind [DONE] is no part of the answer, whatever it is.
func TestBehindDone(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]string{
		"text":         llmtest.Content("more"),
		"error":        llmtest.Event(`{"error":{"message":"late"}}`),
		"broken":       "data: {\n\n",
		"usage":        llmtest.UsageFrame(9, 99),
		"finish":       llmtest.Finish("abort"),
		"done again":   llmtest.Done,
		"tail":         "data: {",
		"comment":      ":\n\n",
		"server times": llmtest.Event(`{"choices":[],"timings":{"cache_n":3}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := llmtest.Frames(llmtest.First, llmtest.Pace, llmtest.Role(), llmtest.Content("a"), llmtest.Content(" b"), llmtest.Finish("stop"), llmtest.UsageFrame(7, 2), llmtest.Done, extra)
				f, texts := play(t, script, account.Rules{NeedDone: true})
				got := account.Judge(f)
				if got.Outcome != account.Success || *got.CompletionTokens != 2 || got.Finish != "stop" || texts.Content != "a b" || f.TextBytes != [3]int{0, 3, 0} || f.InBand != nil || f.Server != nil {
					t.Errorf("%+v %+v", got, texts)
				}
				if d := cmp.Diff(s(.15), got.Total, near); d != "" {
					t.Error(d)
				}
				again(t, f, got)
			})
		})
	}
}

// Rule 14: a usage that counts nothing does not take away the one that did.
func TestEmptyUsageBehindUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		usage              string
		prompt, completion int64
	}{{`{}`, 7, 2}, {`{"completion_tokens":null}`, 7, 2}, {`{"prompt_tokens":8}`, 8, 2}, {`{"completion_tokens":3}`, 7, 3}} {
		_, got := judged(t, account.Rules{}, nil, llmtest.Role(), llmtest.Content("a"), llmtest.Finish("stop"), llmtest.UsageFrame(7, 2), llmtest.Event(`{"choices":[],"usage":`+c.usage+`}`), llmtest.Done)
		if d := cmp.Diff([]*int64{&c.prompt, &c.completion}, []*int64{got.PromptTokens, got.CompletionTokens}); d != "" {
			t.Errorf("%s: %s", c.usage, d)
		}
	}
}

// Rule 20: a success that is no event stream fails, and says what it was.
func TestNoEventStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind, body string
		want             account.Failure
	}{
		{
			"an error of a gateway", "application/json", `{"error":{"message":"no backend","type":"gateway","code":17}}`,
			account.Failure{Text: `no event stream but "application/json": no backend`, Type: "gateway", Code: "17"},
		},
		{
			"an answer in one piece", "application/json", `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`,
			account.Failure{Text: `no event stream but "application/json"`},
		},
		{"a page", "text/html; charset=utf-8", "<html>\n<p>log in</p>", account.Failure{Text: `no event stream but "text/html; charset=utf-8"`}},
		{"a long page", "text/html", strings.Repeat("<p>\n", 2000), account.Failure{Text: `no event stream but "text/html"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, _ := play(t, llmtest.Script{Header: map[string]string{"Content-Type": c.kind}, Steps: []llmtest.Step{{Write: c.body}}}, account.Rules{})
				if c.want.Reason = account.NoEvents; c.name != "an answer in one piece" {
					c.want.Body = c.body[:min(len(c.body), stream.MaxErrorBody)]
				}
				got := account.Judge(f)
				if d := cmp.Diff(&c.want, f.Failure); d != "" || got.Outcome != account.Failed || got.Reason != account.NoEvents {
					t.Errorf("%s%+v", d, got)
				}
				again(t, f, got)
			})
		})
	}
}

// long is an exchange of n text frames, each read by itself.
func long(n int) *stream.Exchange {
	x := &stream.Exchange{Status: 200, Type: "text/event-stream", Start: time.Unix(1, 0), End: time.Unix(1000, 0)}
	add := func(frame string) {
		x.Reads = append(x.Reads, stream.Read{At: time.Duration(len(x.Reads)+1) * time.Millisecond, Off: len(x.Raw), Len: len(frame)})
		x.Raw = append(x.Raw, frame...)
	}
	for range n {
		add(llmtest.Content(" word"))
	}
	add(llmtest.Finish("stop") + llmtest.UsageFrame(7, n) + llmtest.Done)
	return x
}

// What is left of an answer without its text is a few numbers for each frame, and the answer itself can go. No t.Parallel:
// allocations are counted for the whole process.
func TestRetained(t *testing.T) {
	const n = 10_000
	x := long(n)
	answer := weak.Make(&x.Raw[0])
	f, texts := account.Observe(x, time.Unix(0, 0), account.Rules{})
	numbers := account.Judge(f)
	if numbers.Outcome != account.Success || numbers.Frames != n || len(texts.Content) != 5*n {
		t.Fatalf("%+v", numbers)
	}
	x, texts = nil, account.Texts{}
	runtime.GC()
	if answer.Value() != nil {
		t.Error("the bytes of the answer are held by its facts or its numbers")
	}
	held := 8*(cap(f.ReadNS)+cap(f.ReadBytes)+cap(f.ReadFrames)+cap(f.FrameBytes)+cap(f.UsageFrames)+cap(f.UsageTokens)) + len(f.Kinds)
	if per := float64(held) / n; per > 40 {
		t.Errorf("%.1f bytes of facts for each frame", per)
	}
	runtime.KeepAlive(f)
	runtime.KeepAlive(numbers)
	_, _ = x, texts
}

// The work for a frame does not grow with the frames before it: twice the frames are twice the allocations and twice the
// bytes.
func TestLinear(t *testing.T) {
	cost := func(n int) (allocations, bytes float64) {
		x := long(n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, _ := account.Observe(x, time.Unix(0, 0), account.Rules{})
		account.Judge(f)
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)
	}
	a1, b1 := cost(20_000)
	a2, b2 := cost(40_000)
	if a2 > 2.2*a1 || b2 > 2.8*b1 { // a buffer that grows by halves may have just grown
		t.Errorf("%v allocations and %v bytes became %v and %v", a1, b1, a2, b2)
	}
	if a1/20_000 > 8 {
		t.Errorf("%.1f allocations for each frame", a1/20_000)
	}
}
