package stream

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// guard bounds the phases of one request. It ends the request's context with the error of the phase that took too
// long. A zero limit bounds nothing.
type guard struct {
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer // of the phase; nil without a limit
	limit time.Duration
	total *time.Timer
	ended bool
}

// start begins the whole.
func (g *guard) start(total time.Duration) {
	if total > 0 {
		g.total = g.after(ErrTotalTimeout, total)
	}
}

// enter begins a phase, which ends the one before.
func (g *guard) enter(late error, limit time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	if limit > 0 && !g.ended {
		g.timer, g.limit = g.after(late, limit), limit
	}
}

// alive begins the time of the phase anew. Only the goroutine that reads calls it, after the last enter.
func (g *guard) alive() {
	if g.timer != nil {
		g.timer.Reset(g.limit)
	}
}

func (g *guard) after(late error, limit time.Duration) *time.Timer {
	return time.AfterFunc(limit, func() { g.cancel(fmt.Errorf("%w: more than %v", late, limit)) })
}

// end stops everything.
func (g *guard) end() {
	g.enter(nil, 0)
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	if g.total != nil {
		g.total.Stop()
	}
	g.cancel(nil)
}
