package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// idleTime is how long an unused connection is kept. vLLM closes its own after 5 s, and a request on a connection
	// that the server is just closing fails.
	idleTime = 3 * time.Second
	// readBuffer is the buffer of a connection. 4 KiB, as is usual, would cut an answer into many more reads.
	readBuffer = 64 << 10
)

// pool opens connections to one address, and keeps those that no request has at the moment.
type pool struct {
	address string // host and port
	open    func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tls.Config // nil: no TLS
	most    int         // connections are kept

	mu     sync.Mutex
	parked []*conn
}

// conn is a connection with HTTP/1.1, which remembers how it was opened.
type conn struct {
	net.Conn
	in    *bufio.Reader
	ends  [2]string     // remote and local address
	took  time.Duration // to open it
	since time.Time     // it is unused
	ahead bool          // of the barrier
	used  bool          // it has carried a request
}

// cut closes the connection without a word: TLS would take leave, and wait up to 5 s for a peer that does not read.
func (k *conn) cut() {
	if t, ok := k.Conn.(*tls.Conn); ok {
		_ = t.NetConn().Close() // there is no use for it any more
		return
	}
	_ = k.Close()
}

// get returns a connection that was kept, or opens one.
func (p *pool) get(ctx context.Context) (*conn, error) {
	if k := p.take(); k != nil {
		return k, nil
	}
	return p.dial(ctx, false)
}

// take returns the youngest connection that was kept, nil if there is none. Old ones are closed.
func (p *pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.parked); n > 0; n = len(p.parked) {
		k := p.parked[n-1]
		p.parked = p.parked[:n-1]
		if time.Since(k.since) < idleTime {
			return k
		}
		k.Close()
	}
	return nil
}

// dial opens a connection, with TLS if the server has it.
func (p *pool) dial(ctx context.Context, ahead bool) (*conn, error) {
	begun := time.Now()
	c, err := p.open(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	if p.tls != nil {
		t := tls.Client(c, p.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, err
		}
		c = t
	}
	k := &conn{Conn: c, in: bufio.NewReaderSize(c, readBuffer), since: time.Now(), ahead: ahead}
	k.took = k.since.Sub(begun)
	k.ends = [2]string{c.RemoteAddr().String(), c.LocalAddr().String()}
	return k, nil
}

// park keeps connections for the next requests, and as many of the older ones as there is room for.
func (p *pool) park(conns ...*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = append(p.parked, conns...)
	for len(p.parked) > max(p.most, len(conns)) {
		p.parked[0].Close()
		p.parked = p.parked[1:]
	}
}

// closeAll closes what is parked.
func (p *pool) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.parked {
		k.Close()
	}
	p.parked = nil
}

// Dial closes the connections that are not in use and opens n new ones, for the requests of the next barrier. Call it
// right before Release: they are good for 3 s. Nothing is sent over them. Errors wrap ErrConnect or ErrConnectTimeout.
func (c *Client) Dial(ctx context.Context, n int) error {
	c.pool.closeAll()
	if limit := c.options.Timeouts.Connect; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: more than %v", ErrConnectTimeout, limit))
		defer stop()
	}
	opened := make([]*conn, n)
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(64)
	for i := range opened {
		all.Go(func() (err error) {
			opened[i], err = c.pool.dial(ctx, true)
			return err
		})
	}
	err := all.Wait()
	if err == nil {
		c.pool.park(opened...)
		return nil
	}
	for _, k := range opened {
		if k != nil {
			k.Close()
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrConnectTimeout) {
		return fmt.Errorf("%s: %w", c.pool.address, cause)
	}
	return connectError(c.pool.address, err)
}

// connectError tells the two failures of connecting apart.
func connectError(address string, err error) error {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("%w: %s: %w", ErrConnectTimeout, address, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrConnect, address, err)
}
