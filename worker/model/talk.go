package model

import (
	"context"
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
func (e *execution) send(ev event) {
	select {
	case e.events <- ev:
	case <-e.over.Done():
	}
}

// accept takes the connections of the ranks until the listener is closed.
func (e *execution) accept() {
	for {
		nc, err := e.listen.Accept()
		if err != nil {
			return
		}
		e.talkers.Go(func() { e.hear(nc) })
	}
}

// hear reads the hello of a connection and then everything else that it says. A wrong token is dropped: somebody
// else on this machine has found the port.
func (e *execution) hear(nc net.Conn) {
	conn := protocol.NewConn(nc)
	defer conn.Close() // nobody listens any more
	stop := context.AfterFunc(e.over, func() {
		conn.Close() // ends the Receive below
	})
	defer stop()
	first, err := conn.Receive()
	hello, ok := first.(*protocol.Hello)
	if err != nil || !ok || hello.Token != e.token {
		e.s.job.Log.Warn("dropped a stranger", "address", conn.RemoteAddr().String())
		return
	}
	e.send(event{rank: hello.Rank, msg: hello, conn: conn})
	for {
		m, err := conn.Receive()
		if errors.Is(err, protocol.ErrUnknownType) {
			continue // a newer rank may say more than we understand
		}
		if err != nil {
			e.send(event{rank: hello.Rank, err: err})
			return
		}
		e.send(event{rank: hello.Rank, msg: m})
	}
}

// tell sends a message to every rank. The connection of a rank that does not take it is closed; its end is heard of
// like any other.
func (e *execution) tell(ctx context.Context, m protocol.Message) {
	for _, r := range e.ranks {
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
