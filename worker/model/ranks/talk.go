package ranks

import (
	"context"
	"crypto/subtle"
	"errors"
	"net"
	"os"
	"time"

	"cpbench/worker/model/protocol"
)

// sendLimit is how long a rank may take to read a message. Messages are sent to ranks that wait for them, and the
// kernel buffers far more than one: a rank that lets it pass has stopped reading.
const sendLimit = 10 * time.Second

// send gives an event to the execution, or drops it once the execution is over.
func (s *Set) send(ev event) {
	select {
	case s.events <- ev:
	case <-s.over.Done():
	}
}

// accept takes the connections of the ranks until the listener is closed.
func (s *Set) accept() {
	for {
		nc, err := s.listen.Accept()
		if err != nil {
			return
		}
		s.talkers.Go(func() { s.hear(nc) })
	}
}

// hear reads the hello of a connection and then everything else that it says. A wrong token is dropped: somebody
// else on this machine has found the port.
func (s *Set) hear(nc net.Conn) {
	conn := protocol.NewConn(nc)
	defer conn.Close() // nobody listens any more
	stop := context.AfterFunc(s.over, func() {
		conn.Close() // ends the Receive below
	})
	defer stop()
	first, err := conn.Receive()
	hello, ok := first.(*protocol.Hello)
	if err != nil || !ok || subtle.ConstantTimeCompare([]byte(hello.Token), []byte(s.token)) != 1 {
		s.job.Log.Warn("dropped a stranger", "address", conn.RemoteAddr().String())
		return
	}
	s.send(event{rank: hello.Rank, msg: hello, at: time.Now(), conn: conn})
	for {
		m, err := conn.Receive()
		if errors.Is(err, protocol.ErrUnknownType) {
			continue // a newer rank may say more than we understand
		}
		if err != nil {
			s.send(event{rank: hello.Rank, err: err})
			return
		}
		s.send(event{rank: hello.Rank, msg: m, at: time.Now()})
	}
}

// Tell sends a message to every rank. The connection of a rank that does not take it is closed; its end is heard of
// like any other. What the ranks say of their memory after a protocol.Step is that of its steps.
func (s *Set) Tell(ctx context.Context, m protocol.Message) {
	_, steps := m.(*protocol.Step)
	for _, r := range s.Ranks {
		if steps {
			r.Memory = nil
		}
		if r.conn == nil {
			continue
		}
		nc := r.conn.NetConn()
		limit := func(at time.Time) {
			nc.SetWriteDeadline(at) //nolint:errcheck // fails on a closed connection, of which Send tells
		}
		limit(time.Now().Add(sendLimit))
		stop := context.AfterFunc(ctx, func() { limit(time.Now()) })
		err := r.conn.Send(m)
		stop()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			r.conn.Close() // the line may be torn
		}
	}
}
