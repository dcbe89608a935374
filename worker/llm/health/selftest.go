package health

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/stream"
)

// The schedule of the self-test: frames of the size that vLLM sends, at a pace of a hundred a second and stream. The
// streams take turns within a pace, as a server writes one after the other.
const (
	selfFrames = 50
	selfFirst  = 100 * time.Millisecond
	selfPace   = 10 * time.Millisecond
	frameSize  = 281
)

// Floor is what the client itself adds at a number of streams: the difference between the instant at which a server in
// the same process began to write a frame, and that which the client recorded. No error of a measurement is smaller.
type Floor struct {
	Streams   int          `json:"streams"`
	Frames    int          `json:"frames"` // compared
	TTFTError account.Stat `json:"ttft_error_s"`
	GapError  account.Stat `json:"gap_error_s"` // absolute
	Skew      float64      `json:"barrier_skew_s"`
	Health    Health       `json:"health"`
}

// String is the one line that a person wants.
func (f Floor) String() string {
	name, worst := "TTFT error p99", f.TTFTError.P99
	if worst == nil {
		name, worst = "TTFT error", f.TTFTError.Max
	}
	text := fmt.Sprintf("%s at %d streams", f.Health.Verdict, f.Streams)
	if worst != nil {
		text += fmt.Sprintf(", %s <= %.2f ms", name, *worst*1e3)
	}
	if f.GapError.P50 != nil {
		text += fmt.Sprintf(", gap error p50 %.3f ms, max %.2f ms", *f.GapError.P50*1e3, *f.GapError.Max*1e3)
	}
	return text
}

// Selftest measures the floor at a number of concurrent streams, against a server of this process on loopback. It
// takes about a second. Server and client share the processors, so a client of its own has a lower floor.
func Selftest(ctx context.Context, concurrency int) (Floor, error) {
	if concurrency < 1 {
		return Floor{}, fmt.Errorf("self-test with %d streams: at least 1 is needed", concurrency)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Floor{}, fmt.Errorf("self-test: %w", err)
	}
	known := &schedule{written: make([][]time.Time, concurrency), begun: make(chan time.Time, 1)}
	server := &http.Server{Handler: known, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // ends with Close
	}()
	defer func() {
		_ = server.Close()
		<-served
	}()
	c, err := stream.New("http://"+l.Addr().String(), stream.Options{
		Concurrency: concurrency,
		Timeouts:    stream.Timeouts{Connect: 10 * time.Second, Total: time.Minute},
	})
	if err != nil {
		return Floor{}, err
	}
	defer c.Close()
	requests := make([]stream.Request, concurrency)
	for i := range requests {
		known.written[i] = make([]time.Time, 0, selfFrames)
		requests[i] = stream.Request{Path: "/?stream=" + strconv.Itoa(i), Body: []byte("{}")}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	burst := c.Ready(ctx, requests...)
	if err := c.Dial(ctx, concurrency); err != nil {
		cancel() // nothing is sent
		burst.Wait()
		return Floor{}, fmt.Errorf("self-test: %w", err)
	}
	w := Begin("/")
	known.begun <- burst.Release()
	exchanges := burst.Wait()
	f := Floor{Streams: concurrency, Health: w.End()}
	known.mu.Lock()
	defer known.mu.Unlock()
	return f, f.compare(exchanges, known.written)
}

// compare matches what was recorded with what was written.
func (f *Floor) compare(exchanges []*stream.Exchange, written [][]time.Time) error {
	var firsts, gaps []float64
	earliest, latest := exchanges[0].Start, exchanges[0].Start
	for i, x := range exchanges {
		if x.Err != nil {
			return fmt.Errorf("self-test: stream %d: %w", i, x.Err)
		}
		if x.Start.Before(earliest) {
			earliest = x.Start
		}
		if x.Start.After(latest) {
			latest = x.Start
		}
		var before float64
		frame := 0
		for _, r := range x.Reads {
			for ; frame < len(written[i]) && (frame+1)*frameSize <= r.Off+r.Len; frame++ {
				late := x.Start.Add(r.At).Sub(written[i][frame]).Seconds()
				if frame == 0 {
					firsts = append(firsts, late)
				} else {
					gaps = append(gaps, math.Abs(late-before))
				}
				before = late
				f.Frames++
			}
		}
		if frame != selfFrames {
			return fmt.Errorf("self-test: stream %d: %d of %d frames came", i, frame, selfFrames)
		}
	}
	f.Skew = latest.Sub(earliest).Seconds()
	f.TTFTError, f.GapError = account.NewStat(firsts), account.NewStat(gaps)
	return nil
}

// schedule is the server: it sends frames at known instants and notes when it did.
type schedule struct {
	begun chan time.Time

	mu      sync.Mutex
	written [][]time.Time // by stream
}

func (s *schedule) note(i int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[i] = append(s.written[i], at)
}

// ServeHTTP plays one stream.
func (s *schedule) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(r.URL.Query().Get("stream"))
	if err != nil || i < 0 || i >= len(s.written) {
		http.NotFound(w, r)
		return
	}
	var begun time.Time
	select {
	case begun = <-s.begun:
		s.begun <- begun // for the other streams
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return
	}
	frame := make([]byte, frameSize)
	copy(frame, "data: ")
	for k := 6; k < frameSize-2; k++ {
		frame[k] = 'x'
	}
	frame[frameSize-2], frame[frameSize-1] = '\n', '\n'
	turn := time.Duration(i) * selfPace / time.Duration(len(s.written))
	for k := range selfFrames {
		timer := time.NewTimer(time.Until(begun.Add(selfFirst + turn + time.Duration(k)*selfPace)))
		select {
		case <-timer.C:
		case <-r.Context().Done():
			timer.Stop()
			return
		}
		now := time.Now()
		if _, err := w.Write(frame); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
		s.note(i, now)
	}
}
