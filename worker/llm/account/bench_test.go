package account_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
)

// frame is as long as those of vLLM: 281 bytes.
var frame = llmtest.Event(fmt.Sprintf(`{"id":"chatcmpl-%s","object":"chat.completion.chunk","created":1780000000,"model":"org/model","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`, strings.Repeat("0", 75)))

// answer writes n frames, flushed one by one or not, as fast as it can.
func answer(n int, flush bool) http.Handler {
	end := llmtest.Finish("stop") + llmtest.UsageFrame(7, n) + llmtest.Done
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		out := http.NewResponseController(w)
		for range n {
			if _, err := io.WriteString(w, frame); err != nil {
				return
			}
			if flush && out.Flush() != nil {
				return
			}
		}
		_, _ = io.WriteString(w, end)
	})
}

// load runs one group and returns its exchanges.
func load(b *testing.B, c *stream.Client, streams, frames int) []*stream.Exchange {
	b.Helper()
	requests := make([]stream.Request, streams)
	for i := range requests {
		requests[i] = stream.Request{Path: "/v1/chat/completions", Body: []byte("{}"), Room: frames * (len(frame) + 16)}
	}
	burst := c.Ready(b.Context(), requests...)
	if err := c.Dial(b.Context(), streams); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
	out := burst.Wait()
	b.StopTimer()
	for _, x := range out {
		if x.Err != nil {
			b.Fatal(x.Err)
		}
	}
	return out
}

func client(b *testing.B, h http.Handler) *stream.Client {
	b.Helper()
	live, err := llmtest.Listen(h)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(live.Close)
	c, err := stream.New(live.URL, stream.Options{Concurrency: 512})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// BenchmarkGroup is a group of streams from a server in the same process: frames a second as they are stamped, and
// with all the work that is done when the group has ended.
func BenchmarkGroup(b *testing.B) {
	const frames = 1500
	for _, streams := range []int{1, 64, 512} {
		for _, flush := range []bool{true, false} {
			b.Run(fmt.Sprintf("streams=%d/flush=%v", streams, flush), func(b *testing.B) {
				c := client(b, answer(frames, flush))
				var accounting time.Duration
				b.ResetTimer()
				b.StopTimer()
				for range b.N {
					xs := load(b, c, streams, frames)
					begun := time.Now()
					records := make([]account.Record, len(xs))
					for i, x := range xs {
						f, _ := account.Observe(x, c.Epoch(), account.Rules{})
						records[i] = account.Record{Facts: f, Numbers: account.Judge(f)}
					}
					if g := account.Sum(records); !g.Valid || *g.Tokens != int64(frames*streams) {
						b.Fatalf("%+v", g)
					}
					accounting += time.Since(begun)
				}
				all := float64(b.N * streams * frames)
				b.ReportMetric(all/b.Elapsed().Seconds(), "frames/s")
				b.ReportMetric(all/(b.Elapsed()+accounting).Seconds(), "accounted/s")
			})
		}
	}
}

// BenchmarkAnswer is one long answer: the cost of a frame must not depend on how many came before it.
func BenchmarkAnswer(b *testing.B) {
	for _, frames := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("frames=%d", frames), func(b *testing.B) {
			c := client(b, answer(frames, false))
			var accounting time.Duration
			b.ResetTimer()
			b.StopTimer()
			for range b.N {
				x := load(b, c, 1, 1000)[0]
				begun := time.Now()
				f, _ := account.Observe(x, c.Epoch(), account.Rules{})
				if n := account.Judge(f); n.Outcome != account.Success || n.Frames != frames {
					b.Fatalf("%+v", n)
				}
				accounting += time.Since(begun)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*frames), "read-ns/frame")
			b.ReportMetric(float64(accounting.Nanoseconds())/float64(b.N*frames), "account-ns/frame")
		})
	}
}
