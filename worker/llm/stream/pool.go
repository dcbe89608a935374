package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// idleTime is how long an unused connection is kept. vLLM closes its own after 5 s, and a request on a connection that
// the server is just closing fails.
const idleTime = 3 * time.Second

// pool opens connections, and keeps those that were opened ahead until the transport asks for them.
type pool struct {
	open func(ctx context.Context, network, address string) (net.Conn, error)
	tls  *tls.Config // nil: no TLS

	mu     sync.Mutex
	parked []net.Conn
}

// conn remembers how it was opened.
type conn struct {
	net.Conn
	address string
	took    time.Duration
	opened  time.Time
	ahead   bool
}

// get is the transport's dial function.
func (p *pool) get(ctx context.Context, network, address string) (net.Conn, error) {
	if c := p.take(address); c != nil {
		return c, nil
	}
	return p.dial(ctx, network, address, false)
}

// take returns a parked connection to the address that is young enough, nil if there is none. Older ones are closed.
func (p *pool) take(address string) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i < len(p.parked); {
		c := p.parked[i]
		in := inner(c)
		switch {
		case time.Since(in.opened) >= idleTime:
			c.Close()
			p.parked = slices.Delete(p.parked, i, i+1)
		case in.address == address:
			p.parked = slices.Delete(p.parked, i, i+1)
			return c
		default:
			i++
		}
	}
	return nil
}

// inner is the connection below TLS; nil if it is none of ours.
func inner(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	in, _ := c.(*conn)
	return in
}

// dial opens a connection, with TLS if the server has it.
func (p *pool) dial(ctx context.Context, network, address string, ahead bool) (net.Conn, error) {
	begun := time.Now()
	raw, err := p.open(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, address: address, ahead: ahead}
	out := net.Conn(c)
	if p.tls != nil {
		t := tls.Client(c, p.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		out = t
	}
	c.opened = time.Now()
	c.took = c.opened.Sub(begun)
	return out, nil
}

// closeAll closes what is parked.
func (p *pool) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.parked {
		c.Close()
	}
	p.parked = nil
}

// Dial closes the connections that are not in use and opens n new ones, for the requests of the next barrier. Call it
// right before Release: they are good for 3 s. Nothing is sent over them. Errors wrap ErrConnect or ErrConnectTimeout.
func (c *Client) Dial(ctx context.Context, n int) error {
	c.transport.CloseIdleConnections()
	c.pool.closeAll()
	if c.proxied {
		return nil // the proxy is asked for each connection when it is needed
	}
	if limit := c.options.Timeouts.Connect; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: more than %v", ErrConnectTimeout, limit))
		defer stop()
	}
	opened := make([]net.Conn, n)
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(64)
	for i := range opened {
		all.Go(func() (err error) {
			opened[i], err = c.pool.dial(ctx, "tcp", c.address, true)
			return err
		})
	}
	err := all.Wait()
	opened = slices.DeleteFunc(opened, func(o net.Conn) bool { return o == nil })
	c.pool.mu.Lock()
	c.pool.parked = append(c.pool.parked, opened...)
	c.pool.mu.Unlock()
	if err == nil {
		return nil
	}
	c.pool.closeAll()
	if cause := context.Cause(ctx); errors.Is(cause, ErrConnectTimeout) {
		return fmt.Errorf("%s: %w", c.address, cause)
	}
	return connectError(c.address, err)
}

// connectError tells the two failures of connecting apart.
func connectError(address string, err error) error {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("%w: %s: %w", ErrConnectTimeout, address, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrConnect, address, err)
}
