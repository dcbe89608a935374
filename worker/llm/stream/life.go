package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"cpbench/worker/llm/stream/chat"
)

// life is one request from the barrier to its end.
type life struct {
	client   *Client
	ctx      context.Context
	guard    *guard
	timeouts Timeouts
	request  *http.Request
	watch    *Watch
	log      log
	out      *Exchange

	// The hooks of httptrace run on goroutines of the transport, and may still do so when the request has ended.
	mu               sync.Mutex
	conn             Conn
	wrote, firstByte time.Time
}

// newBody reads a body that was built before. The transport must not know its type, or it would read it again.
func newBody(body []byte) io.ReadCloser { return io.NopCloser(io.MultiReader(bytes.NewReader(body))) }

// prepare does everything that can be done before the barrier, and returns what is to be done after it.
func (c *Client) prepare(ctx context.Context, r Request, out *Exchange) func(opened time.Time) {
	l := &life{client: c, timeouts: c.options.Timeouts, watch: r.Watch, out: out, log: newLog(r.Room)}
	ctx, cancel := context.WithCancelCause(ctx)
	l.guard = &guard{cancel: cancel}
	l.ctx = httptrace.WithClientTrace(ctx, l.trace())
	l.request = c.request(http.MethodPost, r.Path, r.Body).WithContext(l.ctx)
	return l.run
}

func (l *life) run(opened time.Time) {
	x := l.out
	x.Open = opened
	x.Start = time.Now()
	l.guard.start(l.timeouts.Total)
	l.guard.enter(ErrConnectTimeout, l.timeouts.Connect)
	x.Err = l.exchange()
	x.End = time.Now()
	l.guard.end()
	l.watch.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	x.Conn, x.Wrote, x.FirstByte = l.conn, l.wrote, l.firstByte
	x.Raw, x.Reads = l.log.bytes(), l.log.reads
	l.client.options.Key.mask(x.Raw)
}

// exchange sends the request and reads the answer.
func (l *life) exchange() error {
	resp, err := l.client.transport.RoundTrip(l.request)
	if err != nil {
		return l.explain(err)
	}
	defer resp.Body.Close()
	x := l.out
	x.Headers = time.Now()
	x.Status, x.Protocol, x.Type = resp.StatusCode, resp.Proto, resp.Header.Get("Content-Type")
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return l.client.statusError(resp)
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return fmt.Errorf("%w: %q", ErrEncoded, e)
	}
	return l.read(resp.Body)
}

// drainTime is how long a server may take to end the body after [DONE].
const drainTime = time.Second

// read takes the body to its end. Between two reads it does nothing that takes time: it stamps.
func (l *life) read(body io.Reader) error {
	var first, done bool
	for {
		into := l.log.room()
		n, err := body.Read(into)
		if n > 0 {
			l.log.add(time.Since(l.out.Start), n)
			switch {
			case !first:
				first = true
				l.guard.enter(ErrIdleTimeout, l.timeouts.Idle)
			case !done:
				l.guard.alive()
			}
			if !done && l.log.saidDone() {
				done = true
				l.guard.enter(errDrain, drainTime)
				l.watch.end()
			}
			if l.watch != nil {
				l.watch.look(&l.log, l.out.Start)
			}
		}
		switch {
		case errors.Is(err, io.EOF): // the transport says io.ErrUnexpectedEOF where the body was cut
			return nil
		case err != nil:
			if err = l.explain(err); errors.Is(err, errDrain) {
				l.out.Undrained = true
				return nil
			}
			return err
		case l.log.full():
			return fmt.Errorf("%w: at most %d bytes in %d reads are kept", ErrTooLarge, MaxAnswer, maxReads)
		}
	}
}

var errDrain = errors.New("body not ended after [DONE]")

// explain says why a request broke off: a bound of ours, the caller, or the transport.
func (l *life) explain(err error) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn.Count == 0 {
		return connectError(l.client.address, err)
	}
	return err
}

// statusError reads the body of a response that is no success.
func (c *Client) statusError(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody)) // what came is better than nothing
	c.options.Key.mask(body)
	_, _ = io.CopyN(io.Discard, resp.Body, readBuffer) // so that the connection can be used again
	return &StatusError{
		Status: resp.StatusCode, Body: body, Detail: chat.ParseError(body),
		RetryAfter: resp.Header.Get("Retry-After"), Location: resp.Header.Get("Location"),
	}
}

// call makes a request that is not measured.
func (c *Client) call(ctx context.Context, method, path string, body []byte, limit int64) ([]byte, error) {
	resp, err := c.aside.RoundTrip(c.request(method, path, body).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, fmt.Errorf("%s %s: %w", method, path, c.statusError(resp))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("%s %s: %w: at most %d bytes are read", method, path, ErrTooLarge, limit)
	}
	c.options.Key.mask(text)
	return text, nil
}
