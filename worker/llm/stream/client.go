// Package stream sends requests to an LLM server and records when every byte of the answers came. It reads and stamps
// and understands nothing: no parser, no log and no disk stands between two reads. Use it for measured requests; sse
// and chat read afterwards what was recorded, and account makes the numbers.
package stream

import (
	"context"
	"net"
	"net/url"
	"time"
)

// Options of a Client.
type Options struct {
	// Concurrency is the largest number of streams at the same time; below 1 it is 1. So many connections are kept.
	Concurrency int
	// Timeouts bound the phases of every request.
	Timeouts Timeouts
	// Key is sent as a bearer token; nil sends none.
	Key Secret
	// Dial opens a connection; nil is TCP. It must not be slower than what is measured: its time is the connect time.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Timeouts bound the phases of one request; zero means no bound. Each has an error of its own.
type Timeouts struct {
	Connect   time.Duration // from the start to a connection: ErrConnectTimeout
	FirstByte time.Duration // from the connection to the first byte of the answer's body, prefill included: ErrFirstByteTimeout
	Idle      time.Duration // between two reads of the body: ErrIdleTimeout
	Total     time.Duration // from the start to the end: ErrTotalTimeout
}

// Request is one request, ready to be sent. Its body was built before: nothing is encoded at the barrier.
type Request struct {
	Path string // below the base address, such as /v1/chat/completions
	Body []byte // JSON; never changed
	// Room is the expected size of the answer in bytes, which is set aside before the barrier; 0 is 1 MiB.
	Room int
	// Watch, if not nil, tells while the stream runs whether text has come and whether it is still open.
	Watch *Watch
}

// Exchange is what happened to one request. A zero time means that it never came to this.
type Exchange struct {
	Open  time.Time // the barrier opened
	Start time.Time // t0: just before the request was given to the connection pool
	Conn  Conn
	Wrote time.Time // the whole request was written
	// FirstByte is the first byte of the response, Headers the moment at which its header was read.
	FirstByte, Headers time.Time
	End                time.Time // end of the body, or the error

	Status   int // 0: no response
	Type     string
	Protocol string

	// Raw is the body of a successful response, each byte as it came, but the key is masked should it appear. Reads cut
	// it into what each Read brought.
	Raw   []byte
	Reads []Read
	// Err is nil if the body came to its proper end; else it wraps one of this package's errors, or is that of the
	// transport. A response with another status than 2xx is a *StatusError.
	Err error
	// Undrained says that the server sent [DONE] and did not end the body within a second; this is no error.
	Undrained bool
}

// Read is one return of Read: the bytes Raw[Off:Off+Len] were there at Start + At. Its position among the Reads is the
// read index: frames with the same one came together.
type Read struct {
	At  time.Duration
	Off int
	Len int
}

// Conn tells of the connection of a request.
type Conn struct {
	Got     time.Time     // the request had it
	Reused  bool          // it had carried a request before
	Ahead   bool          // it was opened by Dial before the barrier
	Connect time.Duration // what opening it took, TLS included; 0 if Reused
	Count   int           // connections that the request was given: 1, or 0 if it never had one
	Remote  string        // resolved address
	Local   string
}

// Client sends requests over HTTP/1.1, a connection for each stream. It follows no redirect and retries nothing.
type Client struct {
	base     *url.URL
	options  Options
	pool     pool
	epoch    time.Time
	warnings []string
}

// Epoch is the instant at which the client was made, with the wall clock's and the monotonic clock's reading, so that
// records of other clocks can be joined. All other times of one run should be told as distances from it.
func (c *Client) Epoch() time.Time { return c.epoch }

// Warnings tells what about the client's surroundings may spoil a measurement, such as proxy variables.
func (c *Client) Warnings() []string { return c.warnings }
