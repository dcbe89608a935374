package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"cpbench/worker/llm/stream/chat"
)

// life is one request from the barrier to its end, all of it on one goroutine: an answer waits for no other to run.
type life struct {
	client   *Client
	ctx      context.Context
	guard    *guard
	timeouts Timeouts
	message  []byte
	bad      error // why there is no message
	watch    *Watch
	log      log
	out      *Exchange
}

// prepare does everything that can be done before the barrier, and returns what is to be done after it.
func (c *Client) prepare(ctx context.Context, r Request, out *Exchange) func(opened time.Time) {
	l := &life{client: c, timeouts: c.options.Timeouts, watch: r.Watch, out: out, log: newLog(r.Room)}
	var cancel context.CancelCauseFunc
	l.ctx, cancel = context.WithCancelCause(ctx)
	l.guard = &guard{cancel: cancel}
	l.message, l.bad = c.message(r.Path, r.Body)
	return l.run
}

func (l *life) run(opened time.Time) {
	x := l.out
	x.Open = opened
	x.Start = time.Now()
	l.guard.start(l.timeouts.Total)
	if x.Err = l.bad; x.Err == nil {
		x.Err = l.exchange()
	}
	x.End = time.Now()
	l.guard.end()
	l.watch.end()
	x.Raw, x.Reads = l.log.bytes(), l.log.all()
	l.client.options.Key.mask(x.Raw)
}

// exchange sends the request over a connection and reads the answer.
func (l *life) exchange() error {
	l.guard.enter(ErrConnectTimeout, l.timeouts.Connect)
	pool := &l.client.pool
	k, err := pool.get(l.ctx)
	if l.ctx.Err() != nil {
		if err == nil {
			k.Close()
		}
		return context.Cause(l.ctx)
	}
	if err != nil {
		return connectError(pool.address, err)
	}
	x := l.out
	x.Conn = Conn{Got: time.Now(), Reused: k.used, Count: 1, Remote: k.ends[0], Local: k.ends[1]}
	if !k.used {
		x.Conn.Ahead, x.Conn.Connect = k.ahead, k.took
	}
	k.used = true
	l.guard.enter(ErrFirstByteTimeout, l.timeouts.FirstByte)
	// What waits on the connection is woken when the request is given up.
	asleep := context.AfterFunc(l.ctx, func() { _ = k.SetDeadline(time.Unix(1, 0)) })
	whole, err := l.talk(k)
	if asleep() && whole {
		k.since = time.Now()
		pool.park(k)
	} else {
		k.cut()
	}
	return l.explain(err)
}

// explain says why an answer broke off: a bound of ours or the caller, or else what the connection says.
func (l *life) explain(err error) error {
	var refused *StatusError
	if err == nil || l.ctx.Err() == nil || errors.As(err, &refused) {
		return err
	}
	if err = context.Cause(l.ctx); errors.Is(err, errDrain) {
		l.out.Undrained = true
		return nil
	}
	return err
}

// lastLook is how long an answer is looked for when a request could not be written in time.
const lastLook = 100 * time.Millisecond

// talk sends the request and reads the answer. whole says that the connection can carry another one.
func (l *life) talk(k *conn) (whole bool, err error) {
	x := l.out
	_, broken := k.Write(l.message)
	if broken == nil {
		x.Wrote = time.Now()
	}
	// A server that refuses a request before it has read all of it may have answered, and read no more.
	if broken != nil && errors.Is(context.Cause(l.ctx), ErrFirstByteTimeout) {
		_ = k.SetReadDeadline(time.Now().Add(lastLook)) // fails where reading does
	}
	if _, err := k.in.Peek(1); err != nil {
		if broken != nil {
			return false, broken
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return false, err
	}
	x.FirstByte = time.Now()
	resp, err := k.response() //nolint:bodyclose // to close it would read the rest of the answer: the connection is closed
	if err != nil {
		return false, err
	}
	x.Headers = time.Now()
	x.Status, x.Protocol, x.Type = resp.StatusCode, resp.Proto, resp.Header.Get("Content-Type")
	keep := broken == nil && !resp.Close
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return l.client.refused(resp, keep)
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return false, fmt.Errorf("%w: %q", ErrEncoded, e)
	}
	err = l.read(resp.Body)
	return keep && err == nil && k.in.Buffered() == 0, err
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
		case errors.Is(err, io.EOF): // io.ErrUnexpectedEOF is another one: the body was cut
			return nil
		case err != nil:
			return err
		case l.log.full():
			return fmt.Errorf("%w: at most %d bytes in %d reads are kept", ErrTooLarge, MaxAnswer, maxReads)
		}
	}
}

var errDrain = errors.New("body not ended after [DONE]")

// refused reads the body of a response that is no success. whole says that it was read to its end.
func (c *Client) refused(resp *http.Response, keep bool) (whole bool, err error) {
	const most = MaxErrorBody + readBuffer                     // more than is kept: so a key that lies across the cut is masked
	body, end := io.ReadAll(io.LimitReader(resp.Body, most+1)) // what came is better than nothing
	c.options.Key.mask(body)
	kept, location := bytes.Clone(body[:min(len(body), MaxErrorBody)]), []byte(resp.Header.Get("Location"))
	c.options.Key.mask(location)
	return keep && end == nil && len(body) <= most, &StatusError{
		Status: resp.StatusCode, Body: kept, Detail: chat.ParseError(kept),
		RetryAfter: resp.Header.Get("Retry-After"), Location: string(location),
	}
}
