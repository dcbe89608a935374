package llmtest

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// Live is a server that is listening. Close it after the client.
type Live struct {
	URL string
	// Dial connects to a server of Pipe. Nil for Listen.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	server *http.Server
	done   chan struct{}
}

// Listen serves on a free port of the loopback interface.
func Listen(h http.Handler) (*Live, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return serve(l, h, "http://"+l.Addr().String()), nil
}

// Pipe serves over pipes in memory, which work under virtual time. A write is one read of the client's.
func Pipe(h http.Handler) *Live {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	l := serve(p, h, "http://llm.test:80")
	l.Dial = p.dial
	return l
}

func serve(l net.Listener, h http.Handler, url string) *Live {
	live := &Live{URL: url, done: make(chan struct{})}
	live.server = &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)} //nolint:gosec // a server for tests has no slow strangers
	go func() {
		defer close(live.done)
		_ = live.server.Serve(l) // ends with Close
	}()
	return live
}

// Close ends the server and its connections.
func (l *Live) Close() {
	_ = l.server.Close()
	<-l.done
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var errClosed = errors.New("server is closed")

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept waits for a dial.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, errClosed
	}
}

// Close refuses further dials.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr names no place.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
