// Package pace is a server whose every frame says when it was written. What a client adds to a time is then the
// difference between what it recorded and what it reads in the frame, however late the server itself was. Use Schedule
// as the handler of a server, in this process or in another one on the same machine, and Stamps on what came.
package pace

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// FrameSize is the length of a frame in bytes, that of vLLM's.
const FrameSize = 281

// Schedule says what the server answers to a POST, whatever it holds. Times count from the request's arrival. It is
// used by one server.
type Schedule struct {
	Frames int           // of each stream, behind which come a finish reason, the usage and [DONE]
	First  time.Duration // until the first frame
	Every  time.Duration // between two frames; 0: as fast as it can. Each frame is flushed
	// Streams take turns within Every, as a server writes one after the other; 0 or 1: no turns.
	Streams int

	arrived atomic.Int64
}

// Stamp is what a frame says of itself, in nanoseconds.
type Stamp struct {
	Written int64 // just before the frame was written, by Now
	Arrived int64 // when the server began with the request, by Now
	Late    int64 // behind its schedule, which is the server's doing; 0 without a pace
}

// A frame has the shape of vLLM's, and its text is a stamp: three numbers with a blank before each.
const (
	open   = `data: {"id":"chatcmpl-`
	middle = `","object":"chat.completion.chunk","created":1780000000,"model":"pace","choices":[{"index":0,"delta":{"content":"`
	behind = `"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"

	digits = 19 // of a number: 300 years
	// TextSize is the length of a frame's text.
	TextSize = 3 * (1 + digits)
	at       = FrameSize - len(behind) - TextSize
)

// newFrame is a frame without its stamp.
func newFrame() []byte {
	frame := bytes.Repeat([]byte{'0'}, FrameSize)
	copy(frame, open)
	copy(frame[at-len(middle):], middle)
	copy(frame[at+TextSize:], behind)
	return frame
}

// put writes a stamp into a frame.
func put(frame []byte, s Stamp) {
	for i, n := range [...]int64{s.Written, s.Arrived, s.Late} {
		from := at + i*(1+digits)
		frame[from] = ' '
		for k := from + digits; k > from; k-- {
			frame[k] = byte('0' + n%10)
			n /= 10
		}
	}
}

// Stamps are those of the frames at the start of an answer, in their order.
func Stamps(raw []byte) []Stamp {
	var all []Stamp
	for ; len(raw) >= FrameSize && bytes.HasPrefix(raw, []byte(open)); raw = raw[FrameSize:] {
		one := Texts(string(raw[at : at+TextSize]))
		if len(one) != 1 {
			break
		}
		all = append(all, one[0])
	}
	return all
}

// Texts are the stamps in the text of an answer, for clients that give nothing else.
func Texts(text string) []Stamp {
	var all []Stamp
	for ; len(text) >= TextSize; text = text[TextSize:] {
		var n [3]int64
		for i := range n {
			from := i * (1 + digits)
			v, err := strconv.ParseInt(text[from+1:from+1+digits], 10, 64)
			if err != nil || text[from] != ' ' {
				return all
			}
			n[i] = v
		}
		all = append(all, Stamp{n[0], n[1], n[2]})
	}
	return all
}

// end is what stands behind the frames.
func (s *Schedule) end() string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n" +
		fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":%d}}`, s.Frames, s.Frames+1) +
		"\n\ndata: [DONE]\n\n"
}

// ServeHTTP plays one stream.
func (s *Schedule) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	stamp := Stamp{Arrived: Now()}
	begun := time.Now()
	if r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	turn := time.Duration(0)
	if s.Streams > 1 {
		turn = time.Duration((s.arrived.Add(1)-1)%int64(s.Streams)) * s.Every / time.Duration(s.Streams)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return
	}
	frame := newFrame()
	for k := range s.Frames {
		if wait := s.First + turn + time.Duration(k)*s.Every; wait > 0 {
			due := begun.Add(wait)
			if !sleep(r, due) {
				return
			}
			stamp.Late = time.Since(due).Nanoseconds()
		}
		stamp.Written = Now()
		put(frame, stamp)
		if _, err := w.Write(frame); err != nil || out.Flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, s.end()) // a client that has gone is its own affair
}

// sleep waits for an instant; false if the client has gone.
func sleep(r *http.Request, until time.Time) bool {
	wait := time.Until(until)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
