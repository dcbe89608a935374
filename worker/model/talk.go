package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
)

// helloLimit is how long a connection may take to say who it is.
const helloLimit = 30 * time.Second

// The graces after a first failure. One rank's failure is often the echo of another's: when the peers of a rank that
// ran out of memory see their connections break, the rank's own word decides.
const (
	failGrace = 3 * time.Second
	stopGrace = 10 * time.Second // for ranks to end by themselves after stop
)

// send gives an event to the execution, or drops it once the execution is over.
func (e *execution) send(ev event) {
	select {
	case e.events <- ev:
	case <-e.done:
	}
}

// accept takes the connections of the ranks until the listener is closed.
func (e *execution) accept() {
	for {
		nc, err := e.listen.Accept()
		if err != nil {
			return
		}
		go e.greet(nc)
	}
}

// greet reads the hello of a connection and then everything else that it says. A wrong token is dropped: somebody
// else on this machine has found the port.
func (e *execution) greet(nc net.Conn) {
	conn := protocol.NewConn(nc)
	if conn.SetDeadline(time.Now().Add(helloLimit)) != nil {
		return
	}
	first, err := conn.Receive()
	hello, ok := first.(*protocol.Hello)
	if err != nil || !ok || hello.Token != e.token {
		conn.Close() // a stranger
		return
	}
	if conn.SetDeadline(time.Time{}) != nil {
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

// tell sends a message to every rank. A rank that does not take it will be heard of by its event.
func (e *execution) tell(m protocol.Message) {
	for _, r := range e.ranks {
		if r.conn != nil {
			r.conn.Send(m) //nolint:errcheck // see above
		}
	}
}

// await reads events until every rank has given the answer that want recognises, or until the execution has ended.
// want is called for each message and reports whether it completes that rank's answer.
func (e *execution) await(ctx context.Context, want func(rank int, m protocol.Message) bool) ending {
	if e.failed.outcome != "" {
		return e.failed
	}
	missing := len(e.ranks)
	answered := make([]bool, len(e.ranks))
	for missing > 0 {
		select {
		case <-ctx.Done():
			return stopped(ctx)
		case ev := <-e.events:
			if bad := e.note(ev); bad.outcome != "" {
				return e.settle(ctx, bad)
			}
			if ev.msg != nil && want(ev.rank, ev.msg) && !answered[ev.rank] {
				answered[ev.rank] = true
				missing--
			}
		}
	}
	return ending{}
}

// note takes an event in and returns an ending if it is a failure.
func (e *execution) note(ev event) ending {
	if ev.rank < 0 || ev.rank >= len(e.ranks) {
		return ending{outcome: catalogue.Error, reason: fmt.Sprintf("a rank says that it is rank %d of %d", ev.rank, len(e.ranks))}
	}
	r := e.ranks[ev.rank]
	switch m := ev.msg.(type) {
	case *protocol.Hello:
		switch {
		case m.World != len(e.ranks):
			return ending{outcome: catalogue.Error, reason: fmt.Sprintf("rank %d says that the world has %d ranks, but %d were planned", m.Rank, m.World, len(e.ranks))}
		case m.Protocol != protocol.Version:
			return ending{outcome: catalogue.Error, reason: fmt.Sprintf("rank %d speaks protocol %d, this worker speaks %d", m.Rank, m.Protocol, protocol.Version)}
		case r.conn != nil:
			return ending{outcome: catalogue.Error, reason: fmt.Sprintf("two processes say that they are rank %d", m.Rank)}
		}
		r.conn, e.hello[ev.rank] = ev.conn, m
	case *protocol.Memory:
		e.memory[ev.rank] = m
	case *protocol.Metrics:
		e.own[ev.rank] = m.Metrics
	case *protocol.OOM:
		return ending{outcome: catalogue.OOMDevice, reason: fmt.Sprintf("rank %d ran out of memory in %s", ev.rank, m.Where), evidence: m.Text, rank: ev.rank}
	case *protocol.Error:
		return errorEnding(ev.rank, m)
	}
	switch {
	case ev.err != nil:
		return ending{outcome: catalogue.Error, reason: fmt.Sprintf("rank %d %s", ev.rank, connectionText(ev.err)), evidence: e.logTail(ev.rank), rank: ev.rank, echo: true}
	case ev.exit != nil:
		r.gone, r.exit = true, ev.exit
		return e.exitEnding(ev.rank)
	}
	return ending{}
}

func connectionText(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "closed its connection"
	}
	return "broke the protocol: " + err.Error()
}

// settle waits a little after a first failure for a better explanation: a word about memory ends the wait, a rank's
// own error beats an exit code, an exit code beats a broken connection.
func (e *execution) settle(ctx context.Context, first ending) ending {
	best := first
	timer := time.NewTimer(failGrace)
	defer timer.Stop()
	for !best.outcome.OutOfMemory() && !e.allGone() {
		select {
		case <-timer.C:
			return best
		case <-ctx.Done():
			return stoppedOr(ctx, best)
		case ev := <-e.events:
			if next := e.note(ev); next.outcome != "" && next.weight() > best.weight() {
				best = next
			}
		}
	}
	// Words may stand in the queue behind the exit of their process.
	for {
		select {
		case ev := <-e.events:
			if next := e.note(ev); next.outcome != "" && next.weight() > best.weight() {
				best = next
			}
		default:
			return stoppedOr(ctx, best)
		}
	}
}

func (e *execution) allGone() bool {
	for _, r := range e.ranks {
		if r != nil && !r.gone {
			return false
		}
	}
	return true
}
