package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// member is another node, seen from the worker: an agent that has to connect, answers, and may go at any time.
type member struct {
	name  string
	ready chan struct{} // closed when it has connected, or when it is of no use
	once  sync.Once     // closes ready

	ask sync.Mutex // held during a request

	mu      sync.Mutex // guards what follows
	conn    net.Conn
	why     error // why it is of no use
	last    int
	pending map[int]chan Answer
	gone    chan struct{} // closed with why
}

func newMember(name string) *member {
	return &member{name: name, ready: make(chan struct{}), pending: map[int]chan Answer{}, gone: make(chan struct{})}
}

// joined takes its connection over. It reports whether the member was waited for.
func (m *member) joined(conn net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil || m.why != nil {
		return false
	}
	m.conn = conn
	m.once.Do(func() { close(m.ready) })
	return true
}

// fail gives the member up. The first reason counts.
func (m *member) fail(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why != nil {
		return
	}
	m.why = why
	if m.conn != nil {
		m.conn.Close()
	}
	close(m.gone)
	m.once.Do(func() { close(m.ready) })
}

// hear takes the answers until the connection ends.
func (m *member) hear(scanner *bufio.Scanner) {
	for scanner.Scan() {
		a, err := decodeAnswer(scanner.Bytes())
		if err != nil {
			m.fail(err)
			return
		}
		m.mu.Lock()
		if to := m.pending[a.ID]; to != nil { // else nobody waits for it any more
			delete(m.pending, a.ID)
			to <- a
		}
		m.mu.Unlock()
	}
	if err := scanner.Err(); err != nil && !errors.Is(err, net.ErrClosed) {
		m.fail(fmt.Errorf("the connection to its agent broke: %w", err))
		return
	}
	m.fail(errors.New("its agent has ended"))
}

// do sends a request and waits for the answer. A node that does not answer in time is given up: whoever asked has
// lost the time once, and not again.
func (m *member) do(ctx context.Context, r Request) (Answer, error) {
	m.ask.Lock()
	defer m.ask.Unlock()
	to, err := m.send(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	timer := time.NewTimer(r.Do.limit()) // not of the wait for the agent to connect, which has a limit of its own
	defer timer.Stop()
	select {
	case a := <-to:
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-m.gone:
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx) // the caller's haste is no fault of the node
	case <-timer.C:
		m.fail(fmt.Errorf("its agent did not answer %q within %v", r.Do, r.Do.limit()))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return Answer{}, m.why
}

// send waits for the agent and writes a request.
func (m *member) send(ctx context.Context, r Request) (<-chan Answer, error) {
	select {
	case <-m.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	if m.why != nil {
		defer m.mu.Unlock()
		return nil, m.why
	}
	m.last++
	r.ID = m.last
	to := make(chan Answer, 1)
	m.pending[r.ID] = to
	conn := m.conn
	m.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	conn.SetWriteDeadline(time.Now().Add(r.Do.limit())) //nolint:errcheck // fails on a closed connection, of which Write tells
	if _, err := conn.Write(append(line, '\n')); err != nil {
		m.fail(fmt.Errorf("the connection to its agent broke: %w", err))
		m.mu.Lock()
		defer m.mu.Unlock()
		return nil, m.why
	}
	return to, nil
}
