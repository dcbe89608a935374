// Package peer connects the ranks of the reference model on one node: a full mesh of Unix sockets in the abstract
// namespace. Use Listen before the rank says hello, Meet when it is told to start.
package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Gone is the error of an exchange with a rank whose connection has ended.
type Gone struct {
	Rank int
	Err  error
}

// Error names the rank that went away.
func (g *Gone) Error() string {
	return fmt.Sprintf("rank %d went away during the exchange: %v", g.Rank, g.Err)
}

// Unwrap returns what the socket said.
func (g *Gone) Unwrap() error { return g.Err }

// Peers are the connections of one rank to all others. Bytes between two ranks arrive in the order in which they
// were sent. Send and Receive block; to and from different ranks they may be called at once.
type Peers struct {
	rank  int
	conns []*net.UnixConn // nil for the rank itself
	once  sync.Once
}

// Rank returns this rank's number.
func (p *Peers) Rank() int { return p.rank }

// World returns the number of ranks, this one included.
func (p *Peers) World() int { return len(p.conns) }

// Send writes all of b to a rank. The error is *Gone.
func (p *Peers) Send(to int, b []byte) error {
	if _, err := p.conns[to].Write(b); err != nil {
		return &Gone{to, cause(err)}
	}
	return nil
}

// Receive fills b with the next bytes from a rank. The error is *Gone.
func (p *Peers) Receive(from int, b []byte) error {
	if _, err := io.ReadFull(p.conns[from], b); err != nil {
		return &Gone{from, cause(err)}
	}
	return nil
}

// Barrier returns when every rank has called it. The error is *Gone.
func (p *Peers) Barrier() error {
	token := []byte{0}
	if p.rank != 0 {
		if err := p.Send(0, token); err != nil {
			return err
		}
		return p.Receive(0, token)
	}
	for r := 1; r < len(p.conns); r++ {
		if err := p.Receive(r, token); err != nil {
			return err
		}
	}
	for r := 1; r < len(p.conns); r++ {
		if err := p.Send(r, token); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all connections and wakes every blocked Send and Receive, here and at the peers.
func (p *Peers) Close() {
	p.once.Do(func() {
		for _, c := range p.conns {
			if c != nil {
				_ = c.Close() // nothing is buffered here, so nothing can be lost
			}
		}
	})
}

// cause strips what net adds to an error: the socket's address is a hash that tells nobody anything.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
