package account_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
	"cpbench/worker/llm/stream/chat"
)

const ms = int64(time.Millisecond)

// made is a record of a stream that began at start and brought text frames at the given times, all in milliseconds.
// The answer ends with the last one, in a read of its own.
func made(start int64, tokens int64, at ...int64) account.Record {
	f := account.Facts{StartNS: start * ms, ScheduledNS: n(-start * ms), Status: 200, Finish: "stop", EndNS: at[len(at)-1] * ms}
	before := int64(0)
	for range at {
		f.Kinds += "2"
	}
	for _, t := range at {
		f.ReadNS, f.ReadFrames, f.ReadBytes = append(f.ReadNS, (t-before)*ms), append(f.ReadFrames, 1), append(f.ReadBytes, 10)
		before = t
	}
	f.Kinds = f.Kinds[:len(at)-1] + "d"
	if tokens >= 0 {
		f.Usage = &account.Usage{Prompt: n(10), Completion: n(tokens)}
	}
	return account.Record{Facts: f, Numbers: account.Judge(f)}
}

// broken is made, and then something went wrong.
func broken(r account.Record, why account.Reason) account.Record {
	r.Facts.Failure = &account.Failure{Reason: why}
	r.Facts.Kinds = r.Facts.Kinds[:len(r.Facts.Kinds)-1] + "2"
	r.Numbers = account.Judge(r.Facts)
	return r
}

// hung brought text until 200 ms and was given up later.
func hung(end int64) account.Record {
	r := made(0, 2, 100, 200)
	r.Facts.EndNS = end * ms
	return broken(r, account.IdleTimeout)
}

// TestGroupRules has a case for each rule that concerns a group; the name begins with its number.
func TestGroupRules(t *testing.T) {
	t.Parallel()
	type g = account.Group
	for _, c := range []struct {
		name    string
		records []account.Record
		check   func(g) any
		want    any
	}{
		{"5 wall, skew and achieved concurrency", []account.Record{made(0, 2, 100, 200), made(50, 2, 100, 300), made(400, 2, 50, 100)}, func(g g) any {
			return []any{g.Wall, g.Skew, g.ConcurrencyMax, *g.ConcurrencyMean, g.Valid}
		}, []any{.5, .4, 2, .6 / .5, true}},
		{"5 a stream that ends where another begins was not open with it", []account.Record{made(0, 2, 100, 200), made(200, 2, 100, 200)}, func(g g) any {
			return g.ConcurrencyMax
		}, 1},
		{"5 a stream that hung was a load until its end", []account.Record{made(0, 2, 100, 200), hung(600)}, func(g g) any {
			return []any{g.Wall, *g.ConcurrencyMean}
		}, []any{.6, .8 / .6}},
		{"12 the aggregate is tokens over wall, never a sum of rates", []account.Record{made(0, 30, 100, 200), made(0, 70, 100, 500)}, func(g g) any {
			return []any{*g.Tokens, *g.TPS, *g.PromptTokens, *g.CompletionSum}
		}, []any{int64(100), 200.0, int64(20), int64(100)}},
		{"12, 22 tokens of failed streams are apart, and the group is failed", []account.Record{made(0, 30, 100, 500), broken(made(0, 70, 100, 500), account.Cut)}, func(g g) any {
			return []any{*g.Tokens, g.OtherTokens, *g.TPS, g.Valid, g.Truncated, g.Reasons, g.TTFT.N}
		}, []any{int64(30), int64(70), 60.0, false, 1, map[account.Reason]int{account.Cut: 1}, 1}},
		{"14 a sum with a part missing is no sum", []account.Record{made(0, 30, 100, 500), made(0, -1, 100, 500)}, func(g g) any {
			return []any{g.Tokens == nil, g.TPS == nil, g.PromptTokens == nil, g.CompletionSum == nil}
		}, []any{true, true, true, true}},
		{"8 nulls are counted and not averaged", []account.Record{made(0, 2, 100, 200), made(0, 2, 200)}, func(g g) any {
			return []any{g.TTFT.N, g.TTFT.Nulls, *g.TTFT.Mean, g.Nulls, g.Succeeded}
		}, []any{1, 1, .1, 1, 2}},
		{"4 behind a barrier a lag of more than 10 ms degrades", []account.Record{lagging(0), lagging(11)}, func(g g) any {
			return []any{g.Degraded, *g.Lag.Max}
		}, []any{true, .011}},
		{"4 less does not", []account.Record{lagging(0), lagging(9)}, func(g g) any { return g.Degraded }, false},
		{"4 in an open loop more than a twentieth of the mean gap degrades", []account.Record{scheduled(0, 0), scheduled(100, 6)}, func(g g) any { return g.Degraded }, true},
		{"4 in an open loop less does not", []account.Record{scheduled(0, 0), scheduled(100, 4)}, func(g g) any { return g.Degraded }, false},
		{"11 the peak counts frames, not tokens", []account.Record{made(0, 50, 100, 200, 300, 2000, 2100), made(0, 50, 250, 1250, 3000)}, func(g g) any {
			return []any{*g.Peak, g.PeakTokens == nil}
		}, []any{4.0, true}},
		{"29 the method is stated", []account.Record{made(0, 2, 100, 200)}, func(g g) any { return []any{g.Method, g.TTFT.P99 == nil} }, []any{"nearest-rank", true}},
		{"no streams", nil, func(g g) any { return []any{g.Valid, g.Tokens == nil, g.TTFT.Mean == nil} }, []any{false, true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := account.Sum(c.records)
			if d := cmp.Diff(c.want, c.check(got), near); d != "" {
				t.Errorf("(-want +got):\n%s%+v", d, got)
			}
			line, err := json.Marshal(got)
			var back account.Group
			if err != nil || json.Unmarshal(line, &back) != nil || !cmp.Equal(got, back) {
				t.Errorf("%v: not the same from a file: %s", err, cmp.Diff(got, back))
			}
		})
	}
}

// lagging began some milliseconds after a barrier that opened at 0.
func lagging(lag int64) account.Record { return scheduled(0, lag) }

// scheduled was meant to begin at one time and began later, in milliseconds.
func scheduled(intended, lag int64) account.Record {
	r := made(intended+lag, 2, 100, 200)
	r.Facts.ScheduledNS = n(-lag * ms)
	r.Numbers = account.Judge(r.Facts)
	return r
}

// Rule 29: nearest rank, and p99 from 100 values on.
func TestStat(t *testing.T) {
	t.Parallel()
	upTo := func(k int) []float64 {
		out := make([]float64, k)
		for i := range out {
			out[i] = float64(k - i) // the order does not matter
		}
		return out
	}
	for _, c := range []struct {
		k    int
		want account.Stat
	}{
		{0, account.Stat{}},
		{1, account.Stat{N: 1, Mean: s(1), P50: s(1), P90: s(1), P95: s(1), Max: s(1)}},
		{4, account.Stat{N: 4, Mean: s(2.5), P50: s(2), P90: s(4), P95: s(4), Max: s(4)}},
		{99, account.Stat{N: 99, Mean: s(50), P50: s(50), P90: s(90), P95: s(95), Max: s(99)}},
		{100, account.Stat{N: 100, Mean: s(50.5), P50: s(50), P90: s(90), P95: s(95), P99: s(99), Max: s(100)}},
	} {
		values := upTo(c.k)
		if d := cmp.Diff(c.want, account.NewStat(values)); d != "" || c.k > 1 && values[0] != float64(c.k) {
			t.Errorf("%d values:\n%s", c.k, d)
		}
	}
}

// The mixed case in virtual time: two short streams generate when the long request is sent, and slow down meanwhile.
func TestOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		short := llmtest.Script{Steps: []llmtest.Step{{}}}
		for i := range 40 {
			pace := 10 * time.Millisecond
			if i >= 20 && i < 25 { // the server is busy with the long prompt
				pace = 50 * time.Millisecond
			}
			short.Steps = append(short.Steps, llmtest.Step{After: pace, Write: llmtest.Content("a")})
		}
		short.Steps = append(short.Steps, llmtest.Step{Write: llmtest.Finish("stop") + llmtest.Done})
		server := llmtest.New(llmtest.Config{})
		server.Play(short, short, llmtest.Frames(250*time.Millisecond, 10*time.Millisecond, llmtest.Content("x"), llmtest.Finish("stop"), llmtest.Done))
		live := llmtest.Pipe(server)
		defer live.Close()
		c, err := stream.New(live.URL, stream.Options{Dial: live.Dial, Concurrency: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		first, second := stream.NewWatch(chat.HasText), stream.NewWatch(chat.HasText)
		request := func(w *stream.Watch) stream.Request {
			return stream.Request{Path: "/v1/chat/completions", Body: []byte("{}"), Watch: w}
		}
		shorts := c.Ready(t.Context(), request(first), request(second))
		long := c.Ready(t.Context(), request(nil))
		shorts.Release()
		<-first.Text()
		<-second.Text()
		time.Sleep(190 * time.Millisecond)
		if !first.Open() || !second.Open() {
			t.Fatal("the short streams have ended")
		}
		facts := func(x *stream.Exchange) account.Facts {
			f, _ := account.Observe(x, c.Epoch(), account.Rules{})
			return f
		}
		l := facts(long.Wait()[0])
		ended := shorts.Wait()
		o := account.NewOverlap(l, facts(ended[0]), facts(ended[1]))
		if !o.Proven || len(o.Shorts) != 2 {
			t.Fatalf("%+v", o)
		}
		got := o.Shorts[0]
		want := []any{true, s(-.19), s(.4), 19, s(.01), 5, s(.05), 15, s(.01)}
		if d := cmp.Diff(want, []any{got.Generating, got.FirstText, got.LastText, got.Before.N, got.Before.Max, got.During.N, got.During.P50, got.After.N, got.After.Max}, near); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		// Two that had ended before prove nothing.
		l.StartNS += int64(time.Second)
		if account.NewOverlap(l, facts(ended[0])).Proven || account.NewOverlap(l).Proven {
			t.Error("proven without an overlap")
		}
	})
}

// TestAgain makes every number once more from the line of JSON, for any stream and any packets.
func TestAgain(t *testing.T) {
	t.Parallel()
	pieces := []string{
		llmtest.Role(), llmtest.Content("a"), llmtest.Content(" b"), llmtest.Reasoning("reasoning", "r"), llmtest.Tool("{"), ":\n\n",
		llmtest.Counted("c", 7, 3), llmtest.Counted("d", 7, 4), llmtest.Finish("stop"), llmtest.Finish("abort"), llmtest.UsageFrame(7, 5), llmtest.Done,
		llmtest.Event(`{"error":"no"}`), "data: {\n\n", usageWith(`"completion_tokens":3,"reasoning_tokens":4`), "data: [DO", "\r\n", "event: x\n",
	}
	rapid.Check(t, func(t *rapid.T) {
		x := &stream.Exchange{Status: 200, Start: time.Unix(1, 0), End: time.Unix(100, 0), Conn: stream.Conn{Count: rapid.IntRange(0, 2).Draw(t, "conns")}}
		for range rapid.IntRange(0, 12).Draw(t, "frames") {
			x.Raw = append(x.Raw, rapid.SampledFrom(pieces).Draw(t, "frame")...)
		}
		now := time.Duration(0)
		for off := 0; off < len(x.Raw); {
			now += time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "pause"))
			size := min(rapid.IntRange(1, 300).Draw(t, "size"), len(x.Raw)-off)
			x.Reads = append(x.Reads, stream.Read{At: now, Off: off, Len: size})
			off += size
		}
		x.Err = rapid.SampledFrom([]error{nil, nil, nil, stream.ErrIdleTimeout, stream.ErrTooLarge, fmt.Errorf("broken")}).Draw(t, "err")
		f, _ := account.Observe(x, time.Unix(0, 0), account.Rules{NeedDone: rapid.Bool().Draw(t, "need"), Target: rapid.Int64Range(0, 6).Draw(t, "target")})
		first := account.Judge(f)
		line, err := json.Marshal(account.Record{Facts: f, Numbers: first})
		if err != nil {
			t.Fatal(err)
		}
		var r account.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first, account.Judge(r.Facts)); d != "" {
			t.Fatalf("(-first +again):\n%s", d)
		}
		group := account.Sum([]account.Record{{Facts: f, Numbers: first}, r})
		if d := cmp.Diff(group, account.Sum([]account.Record{r, r})); d != "" {
			t.Fatalf("group (-first +again):\n%s", d)
		}
		check(t, f, first)
	})
}

// check holds for every request.
func check(t *rapid.T, f account.Facts, n account.Numbers) {
	for name, v := range map[string]*float64{
		"ttft_s": n.TTFT, "first_visible_s": n.Visible, "total_s": n.Total, "t_first_frame": n.FirstFrame, "last_text_s": n.LastText,
		"decode_tps": n.DecodeTPS, "decode_unbiased_tps": n.UnbiasedTPS, "tpot_s": n.TPOT,
	} {
		if _, why := n.Nulls[name]; why != (v == nil) {
			t.Fatalf("%s is %v, its null reason %q", name, v, n.Nulls[name])
		}
	}
	if n.TTFT != nil && (*n.FirstFrame > *n.TTFT || *n.TTFT > *n.LastText || *n.LastText > *n.Total) {
		t.Fatalf("out of order: %+v", n)
	}
	if n.Frames > 0 && n.FrameGap.N+n.Together != n.Frames-1 {
		t.Fatalf("%d gaps and %d coalesced of %d frames", n.FrameGap.N, n.Together, n.Frames)
	}
	if (n.Outcome == account.Success) != (n.Reason == "") || n.Outcome == account.Success && f.Finish == "" {
		t.Fatalf("%+v", n)
	}
}

// FuzzJudge: a line that somebody has changed must not stop whoever reads the file, and the numbers are JSON again.
func FuzzJudge(f *testing.F) {
	r := made(0, 5, 100, 200, 300)
	line, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(line))
	f.Add(`{"facts":{"kinds":"0123:","read_ns":[1,2],"read_frames":[9,-9,1],"usage_frames":[3,1],"usage_tokens":[1]}}`)
	f.Add(`{"facts":{"kinds":"22","read_ns":[9223372036854775807,9223372036854775807],"read_frames":[1,1],"usage":{"completion_tokens":9}}}`)
	f.Fuzz(func(t *testing.T, line string) {
		var r account.Record
		if json.Unmarshal([]byte(line), &r) != nil {
			return
		}
		r.Numbers = account.Judge(r.Facts)
		for _, v := range []any{r.Numbers, account.Sum([]account.Record{r, r}), account.NewOverlap(r.Facts, r.Facts)} {
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	})
}
