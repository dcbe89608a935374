package health

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/health/pace"
	"cpbench/worker/llm/stream"
)

// The schedule of the self-test: frames of the size that vLLM sends, at a pace of a hundred a second and stream. The
// streams take turns within a pace, as a server writes one after the other. Groups are repeated until there are streams
// enough for a 99th percentile, or mostGroups.
const (
	selfFrames = 50
	selfFirst  = 100 * time.Millisecond
	selfPace   = 10 * time.Millisecond

	enough     = 200
	mostGroups = 4
)

// Floor is what the client itself adds at a number of streams. The server is in the same process and writes into every
// frame when it wrote it, so its own lateness is in none of the errors. No error of a measurement is smaller.
type Floor struct {
	Streams int `json:"streams"` // at the same time
	Frames  int `json:"frames"`  // compared, of all groups
	// Send is from t0 until the request was written, Receive from the server's write of the first frame until the
	// client recorded it. Both are in a TTFT and neither is the server's: their sum is TTFTError.
	Send      account.Stat `json:"send_s"`
	Receive   account.Stat `json:"receive_s"`
	TTFTError account.Stat `json:"ttft_error_s"`
	GapError  account.Stat `json:"gap_error_s"`    // absolute
	Skew      float64      `json:"barrier_skew_s"` // the largest of the groups
	// ServerLate is how far behind its schedule the server wrote; it tells how busy this machine is.
	ServerLate account.Stat `json:"server_late_s"`
	Health     Health       `json:"health"` // of the worst group
}

// String is the one line that a person wants.
func (f Floor) String() string {
	name, worst := "p99", f.TTFTError.P99
	if worst == nil {
		name, worst = "max", f.TTFTError.Max
	}
	text := fmt.Sprintf("%s at %d streams", f.Health.Verdict, f.Streams)
	if worst != nil {
		text += fmt.Sprintf(", TTFT error p50 %.2f ms, %s %.2f ms", *f.TTFTError.P50*1e3, name, *worst*1e3)
	}
	if f.GapError.P50 != nil {
		text += fmt.Sprintf(", gap error p50 %.2f ms, max %.2f ms", *f.GapError.P50*1e3, *f.GapError.Max*1e3)
	}
	return text
}

// Selftest measures the floor at a number of concurrent streams, against a server of this process on loopback. It
// takes up to three seconds. Server and client share the processors, so a client of its own has a lower floor.
func Selftest(ctx context.Context, concurrency int) (Floor, error) {
	if concurrency < 1 {
		return Floor{}, fmt.Errorf("self-test with %d streams: at least 1 is needed", concurrency)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Floor{}, fmt.Errorf("self-test: %w", err)
	}
	server := &http.Server{
		Handler:           &pace.Schedule{Frames: selfFrames, First: selfFirst, Every: selfPace, Streams: concurrency},
		ReadHeaderTimeout: time.Minute,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // ends with Close
	}()
	defer func() {
		_ = server.Close()
		<-served
	}()
	f := Floor{Streams: concurrency}
	if err := f.measure(ctx, "http://"+l.Addr().String()); err != nil {
		return Floor{}, fmt.Errorf("self-test: %w", err)
	}
	return f, nil
}

// measure runs the groups.
func (f *Floor) measure(ctx context.Context, url string) error {
	c, err := stream.New(url, stream.Options{
		Concurrency: f.Streams,
		Timeouts:    stream.Timeouts{Connect: 10 * time.Second, Total: time.Minute},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests := make([]stream.Request, f.Streams)
	for i := range requests {
		requests[i] = stream.Request{Path: "/", Body: []byte("{}"), Room: (selfFrames + 4) * (pace.FrameSize + 16)}
	}
	clock := pace.NewClock()
	var s samples
	for range min(mostGroups, (enough+f.Streams-1)/f.Streams) {
		burst := c.Ready(ctx, requests...)
		if err := c.Dial(ctx, f.Streams); err != nil {
			cancel() // nothing is sent
			burst.Wait()
			return err
		}
		w := Begin("/")
		exchanges := burst.Wait()
		f.Health = worse(f.Health, w.End())
		if err := s.take(exchanges, clock); err != nil {
			return err
		}
	}
	f.Frames, f.Skew = len(s.late), s.skew
	f.Send, f.Receive, f.TTFTError = account.NewStat(s.send), account.NewStat(s.receive), account.NewStat(s.ttft)
	f.GapError, f.ServerLate = account.NewStat(s.gaps), account.NewStat(s.late)
	return nil
}

// samples are single errors, in seconds.
type samples struct {
	send, receive, ttft, gaps, late []float64
	skew                            float64
}

// take compares what a group recorded with what its frames say.
func (s *samples) take(exchanges []*stream.Exchange, clock pace.Clock) error {
	earliest, latest := exchanges[0].Start, exchanges[0].Start
	for i, x := range exchanges {
		if x.Err != nil {
			return fmt.Errorf("stream %d: %w", i, x.Err)
		}
		if x.Start.Before(earliest) {
			earliest = x.Start
		}
		if x.Start.After(latest) {
			latest = x.Start
		}
		if n := s.frames(x, clock); n != selfFrames {
			return fmt.Errorf("stream %d: %d of %d frames came", i, n, selfFrames)
		}
	}
	s.skew = max(s.skew, latest.Sub(earliest).Seconds())
	return nil
}

// frames takes one stream and returns how many frames it had.
func (s *samples) frames(x *stream.Exchange, clock pace.Clock) int {
	send := x.Wrote.Sub(x.Start).Seconds()
	s.send = append(s.send, send)
	var before float64
	k := 0
	stamps := pace.Stamps(x.Raw)
	for _, r := range x.Reads {
		for ; k < len(stamps) && (k+1)*pace.FrameSize <= r.Off+r.Len; k++ {
			took := float64(clock.Of(x.Start.Add(r.At))-stamps[k].Written) / 1e9
			if k == 0 {
				s.receive, s.ttft = append(s.receive, took), append(s.ttft, send+took)
			} else {
				s.gaps = append(s.gaps, math.Abs(took-before))
			}
			before = took
			s.late = append(s.late, float64(stamps[k].Late)/1e9)
		}
	}
	return k
}
