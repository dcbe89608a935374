package stream

import (
	"sync"
	"sync/atomic"
	"time"
)

// Watch looks at a stream while it runs, for the mixed case: has text come, and is the stream still open. A request
// without one costs nothing for it. One Watch serves one request.
type Watch struct {
	hasText func(raw []byte) bool
	text    chan struct{}
	ended   chan struct{}
	once    sync.Once
	first   atomic.Pointer[time.Time]
}

// NewWatch makes a Watch. hasText is asked after each read until it says yes, with all bytes so far; chat.HasText does.
func NewWatch(hasText func(raw []byte) bool) *Watch {
	return &Watch{hasText: hasText, text: make(chan struct{}), ended: make(chan struct{})}
}

// Text is closed when the first text has come. It may never be, so wait for Ended as well.
func (w *Watch) Text() <-chan struct{} { return w.text }

// Ended is closed when the server has said [DONE], or when the exchange has ended in whatever way.
func (w *Watch) Ended() <-chan struct{} { return w.ended }

// Open reports whether text has come and the stream has not ended: it is generating.
func (w *Watch) Open() bool {
	select {
	case <-w.ended:
		return false
	default:
		return w.first.Load() != nil
	}
}

// FirstText is the time of the read that brought the first text; zero if none has come.
func (w *Watch) FirstText() time.Time {
	if t := w.first.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// look is called after each read.
func (w *Watch) look(g *log, start time.Time) {
	if w.first.Load() != nil || !w.hasText(g.bytes()) {
		return
	}
	at := start.Add(g.last)
	w.first.Store(&at)
	close(w.text)
}

// end may be called more than once, and on nil.
func (w *Watch) end() {
	if w != nil {
		w.once.Do(func() { close(w.ended) })
	}
}
