package stream

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Burst is a number of requests behind one barrier.
type Burst struct {
	open    chan struct{}
	opened  time.Time
	done    sync.WaitGroup
	results []*Exchange
	once    sync.Once
}

// Ready prepares requests in full and parks each before the barrier: the HTTP requests are built, the buffers are
// set aside, the garbage is collected. It sends nothing. Call Dial before it, Release after it. When ctx ends, the
// requests end with its cause.
func (c *Client) Ready(ctx context.Context, requests ...Request) *Burst {
	b := &Burst{open: make(chan struct{}), results: make([]*Exchange, len(requests))}
	var parked sync.WaitGroup
	for i, r := range requests {
		b.results[i] = &Exchange{}
		parked.Add(1)
		b.done.Go(func() {
			run := c.prepare(ctx, r, b.results[i])
			parked.Done()
			<-b.open
			run(b.opened)
		})
	}
	parked.Wait()
	runtime.GC()
	return b
}

// Release opens the barrier and returns when it did. A second call changes nothing.
func (b *Burst) Release() time.Time {
	b.once.Do(func() {
		b.opened = time.Now()
		close(b.open)
	})
	return b.opened
}

// Wait releases the barrier, if nobody has, and returns what happened to each request, in their order, when the last
// of them has ended.
func (b *Burst) Wait() []*Exchange {
	b.Release()
	b.done.Wait()
	return b.results
}

// Do sends one request and returns when it has ended.
func (c *Client) Do(ctx context.Context, r Request) *Exchange {
	return c.Ready(ctx, r).Wait()[0]
}
