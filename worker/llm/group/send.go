package group

import (
	"context"
	"errors"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/health"
	"cpbench/worker/llm/stream"
	"cpbench/worker/llm/stream/chat"
)

// The roles of a stream.
const (
	roleStream = "stream"
	roleShort  = "short"
	roleLong   = "long"
)

// request is a request for the client, one of some streams. Its room is a guess at the bytes of the answer, so that
// nothing grows while it comes: a frame of vLLM has about 280 bytes, and most have one token. All that is set aside ahead
// for a group is bounded: many streams with a large budget would ask for more memory than a job has, and seldom use it.
func (r *Request) request(watch *stream.Watch, streams int) stream.Request {
	const frame, rest, most, all = 300, 64 << 10, 64 << 20, 512 << 20
	return stream.Request{Path: dialect.ChatPath, Body: r.Body, Room: min(r.MaxTokens*frame+rest, most, all/streams), Watch: watch}
}

// send sends the streams and returns when all have ended. The client's health is that of the time in between: what was
// prepared before it has kept no stream waiting.
func (l *Load) send(ctx context.Context, client *stream.Client, r *Report) ([]*stream.Exchange, []string) {
	if l.Long != nil {
		return l.sendMixed(ctx, client, r)
	}
	requests, roles := make([]stream.Request, len(l.Streams)), make([]string, len(l.Streams))
	for i := range l.Streams {
		requests[i], roles[i] = l.Streams[i].request(nil, len(l.Streams)), roleStream
	}
	burst := client.Ready(ctx, requests...)
	// Without connections ahead of the barrier every stream opens its own, and says why it could not.
	_ = client.Dial(ctx, len(requests))
	watch := health.Begin("/")
	defer func() { r.Health = watch.End() }()
	r.Begun = burst.Release()
	return burst.Wait(), roles
}

// errAbandoned ends the long request that is not sent any more.
var errAbandoned = errors.New("the long request was not sent: the short ones were not both generating")

// sendMixed sends the short streams, and the long one when all of them generate. If they do not at that moment, the long
// one is not sent, and nothing is claimed.
func (l *Load) sendMixed(ctx context.Context, client *stream.Client, r *Report) ([]*stream.Exchange, []string) {
	var watches []*stream.Watch
	var requests []stream.Request
	var roles []string
	for i := range l.Streams {
		watches = append(watches, stream.NewWatch(chat.HasText))
		requests = append(requests, l.Streams[i].request(watches[i], len(l.Streams)+1))
		roles = append(roles, roleShort)
	}
	late, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	long := client.Ready(late, l.Long.request(nil, len(l.Streams)+1)) // prepared ahead, so that the short ones feel nothing of it
	shorts := client.Ready(ctx, requests...)
	_ = client.Dial(ctx, len(requests)) // as above
	watch := health.Begin("/")
	defer func() { r.Health = watch.End() }()
	r.Begun = shorts.Release()
	if generating(ctx, watches, l.Delay) {
		_ = client.Dial(late, 1)
	}
	if !open(watches) {
		abandon(errAbandoned)
		long.Wait()
		r.invalid(NoOverlap, "the short streams were not both generating %v after both had brought text: raise max_tokens, or lower mixed.delay", l.Delay)
		return shorts.Wait(), roles
	}
	long.Release()
	return append(shorts.Wait(), long.Wait()...), append(roles, roleLong)
}

// generating waits until all streams have brought text and the delay has passed since the last first text. It is false
// as soon as one of them has ended.
func generating(ctx context.Context, watches []*stream.Watch, delay time.Duration) bool {
	var last time.Time
	for _, w := range watches {
		select {
		case <-w.Text():
		case <-w.Ended():
			return false
		case <-ctx.Done():
			return false
		}
		if first := w.FirstText(); first.After(last) {
			last = first
		}
	}
	timer := time.NewTimer(time.Until(last.Add(delay)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return open(watches)
}

// open reports whether all streams generate.
func open(watches []*stream.Watch) bool {
	for _, w := range watches {
		if !w.Open() {
			return false
		}
	}
	return true
}

// overlap proves the mixed case from the logs of its streams.
func (r *Report) overlap() {
	if n := len(r.Lines); n > 0 && r.Lines[n-1].Role == roleLong {
		var shorts []account.Facts
		for _, line := range r.Lines[:n-1] {
			shorts = append(shorts, line.Record.Facts)
		}
		o := account.NewOverlap(r.Lines[n-1].Record.Facts, shorts...)
		r.Overlap = &o
		if !o.Proven && r.Group.Valid {
			r.invalid(NoOverlap, "the short streams brought no more text after the long request had been sent: raise max_tokens, or lower mixed.delay")
		}
	}
}
