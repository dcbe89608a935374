package protocol

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// readBuffer is enough for every line but a long Error or Point; longer lines are gathered on the heap.
const readBuffer = 16 << 10

// Conn carries messages over a connection. Send may be called from several goroutines at once, Receive from one
// at a time.
type Conn struct {
	conn  net.Conn
	token string

	send sync.Mutex
	read *bufio.Reader
	long []byte // of a line longer than the reader's buffer
}

// NewConn returns a Conn over c, which it owns from now on.
func NewConn(c net.Conn) *Conn {
	return &Conn{conn: c, read: bufio.NewReaderSize(c, readBuffer)}
}

// Dial connects a rank to the worker that EnvConnect names. An unset or empty EnvConnect or EnvToken is an error:
// a rank without a worker must not run.
func Dial(ctx context.Context) (*Conn, error) {
	address, token := os.Getenv(EnvConnect), os.Getenv(EnvToken)
	for name, value := range map[string]string{EnvConnect: address, EnvToken: token} {
		if value == "" {
			return nil, fmt.Errorf("%s is not set: this program is started by cpbench worker", name)
		}
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("worker at %s=%s: %w", EnvConnect, address, err)
	}
	c := NewConn(nc)
	c.token = token
	return c, nil
}

// Token returns the token that a rank repeats in its Hello; empty unless c comes from Dial.
func (c *Conn) Token() string { return c.token }

// Send writes m as one line. It blocks while the peer does not read.
func (c *Conn) Send(m Message) error {
	line, err := Encode(m)
	if err != nil {
		return err
	}
	c.send.Lock()
	defer c.send.Unlock()
	if _, err := c.conn.Write(line); err != nil {
		return fmt.Errorf("send %s: %w", m.Type(), err)
	}
	return nil
}

// Receive returns the next message. The error is io.EOF when the peer has closed the connection after a whole
// line, and wraps io.ErrUnexpectedEOF when it did so within one. After an error that wraps ErrUnknownType the
// next call goes on; after ErrLineTooLong the connection is of no use any more.
func (c *Conn) Receive() (Message, error) {
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	return Decode(line)
}

// line returns the next line, valid until the next call.
func (c *Conn) line() ([]byte, error) {
	c.long = c.long[:0]
	for {
		part, err := c.read.ReadSlice('\n')
		if len(c.long)+len(part) > MaxLine {
			return nil, fmt.Errorf("receive: %w", ErrLineTooLong)
		}
		switch {
		case err == nil && len(c.long) == 0:
			return part, nil
		case err == nil:
			return append(c.long, part...), nil
		case errors.Is(err, bufio.ErrBufferFull):
			c.long = append(c.long, part...)
		case errors.Is(err, io.EOF) && len(c.long)+len(part) > 0:
			return nil, fmt.Errorf("receive: line without an end: %w", io.ErrUnexpectedEOF)
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("receive: %w", err)
		}
	}
}

// SetDeadline bounds the calls of Send and Receive that are running and those to come; the zero time removes the
// bound.
func (c *Conn) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// NetConn returns the connection below, to which a test may write what Send refuses.
func (c *Conn) NetConn() net.Conn { return c.conn }

// RemoteAddr returns the peer's address, for messages.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// Close ends the connection and wakes a blocked Send or Receive. Closing twice is no error.
func (c *Conn) Close() error {
	if err := c.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}
