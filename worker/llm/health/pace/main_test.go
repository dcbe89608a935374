package pace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/health/pace"
	"cpbench/worker/llm/stream"
)

// roleVariable makes this program the server or the client of BenchmarkClients: each is a process of its own, so that
// neither runtime has the other's work.
const roleVariable = "CPBENCH_PACE_ROLE"

// job is what the processes are told, as JSON in a variable.
type job struct {
	URL     string        // of the server, for the client
	Streams int           // at the same time
	Frames  int           // of each
	First   time.Duration // of pace.Schedule
	Every   time.Duration
}

const jobVariable = "CPBENCH_PACE_JOB"

// loaded is what a client has measured of a job, in the form in which vLLM's tells it: seconds, by stream.
type loaded struct {
	Seconds float64     `json:"duration"` // of the whole load
	Starts  []float64   `json:"start_times"`
	TTFTs   []float64   `json:"ttfts"`
	Gaps    [][]float64 `json:"itls"` // between frames; the last one may be that to the end
	Texts   []string    `json:"generated_texts"`
	Errors  []string    `json:"errors"`
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	var j job
	err := json.Unmarshal([]byte(os.Getenv(jobVariable)), &j)
	if err == nil {
		err = map[string]func(job) error{"server": serve, "client": load}[role](j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve prints its address and serves until its input ends, as it does when whoever started it has gone.
func serve(j job) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	_ = http.Serve(l, &pace.Schedule{Frames: j.Frames, First: j.First, Every: j.Every, Streams: j.Streams})
	return nil
}

// load is our client with all that a group does, except for the counters of the server.
func load(j job) error {
	c, err := stream.New(j.URL, stream.Options{Concurrency: j.Streams})
	if err != nil {
		return err
	}
	requests := make([]stream.Request, j.Streams)
	for i := range requests {
		requests[i] = stream.Request{Path: "/v1/chat/completions", Body: body(i), Room: j.Frames*300 + 64<<10}
	}
	clock := pace.NewClock()
	burst := c.Ready(context.Background(), requests...)
	if err := c.Dial(context.Background(), j.Streams); err != nil {
		return err
	}
	begun := burst.Release()
	exchanges := burst.Wait()
	records := make([]account.Record, j.Streams)
	texts := make([]account.Texts, j.Streams)
	for i, x := range exchanges {
		records[i].Facts, texts[i] = account.Observe(x, c.Epoch(), account.Rules{NeedDone: true})
		records[i].Numbers = account.Judge(records[i].Facts)
	}
	g := account.Sum(records)
	out := loaded{Seconds: time.Since(begun).Seconds()}
	if !g.Valid || *g.Tokens != int64(j.Streams*j.Frames) {
		return fmt.Errorf("not every answer was whole: %+v", g)
	}
	for i, x := range exchanges {
		out.Starts = append(out.Starts, float64(clock.Of(x.Start))/1e9)
		out.TTFTs, out.Texts = append(out.TTFTs, *records[i].Numbers.TTFT), append(out.Texts, texts[i].Content)
		out.Gaps = append(out.Gaps, gaps(x))
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// gaps are the times between the frames of a stream; those of one read have come together.
func gaps(x *stream.Exchange) (all []float64) {
	var last time.Duration
	k := 0
	n := len(pace.Stamps(x.Raw))
	for _, r := range x.Reads {
		for ; k < n && (k+1)*pace.FrameSize <= r.Off+r.Len; k++ {
			if k > 0 {
				all = append(all, (r.At - last).Seconds())
			}
			last = r.At
		}
	}
	return all
}

// body is a request of the size that vLLM's client sends for a prompt of 1,000 words.
func body(i int) []byte {
	return fmt.Appendf(nil, `{"model":"pace","messages":[{"role":"user","content":%q}],"max_completion_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`, prompt(i))
}

func prompt(i int) string { return fmt.Sprintf("%d%s", i, strings.Repeat(" word", 1000)) }
