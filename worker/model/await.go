package model

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
)

const (
	// failGrace is how long other ranks have after a first failure to tell a better explanation of it.
	failGrace = 3 * time.Second
	// lateGrace is the same once all processes have ended: for words that are still under way, and for the signal
	// to the worker that ended the ranks a moment before it.
	lateGrace = time.Second
)

// await reads events until every rank has given the answer that want recognises, or until the execution has ended.
// want is called for each answer and reports whether it is of the expected kind.
func (e *execution) await(ctx context.Context, want func(rank int, m protocol.Message) bool) ending {
	if e.failed.outcome != "" {
		return e.failed
	}
	missing := len(e.ranks)
	answered := make([]bool, len(e.ranks))
	for missing > 0 {
		select {
		case <-ctx.Done():
			end := stopped(ctx)
			end.evidence = silentRanks(answered)
			return e.pick(ctx, e.queued([]ending{end}))
		case ev := <-e.events:
			bad := e.note(ev)
			if bad.outcome == "" && isAnswer(ev.msg) {
				if answered[ev.rank] || !want(ev.rank, ev.msg) {
					bad = failure(fmt.Sprintf("rank %d sent %q out of turn", ev.rank, ev.msg.Type()), "")
				} else {
					answered[ev.rank] = true
					missing--
				}
			}
			if bad.outcome != "" {
				return e.explain(e.settle(ctx, bad))
			}
		}
	}
	return ending{}
}

// isAnswer reports whether m answers what the worker said; the other messages come as they please.
func isAnswer(m protocol.Message) bool {
	switch m.(type) {
	case *protocol.Hello, *protocol.Ready, *protocol.Prepared, *protocol.Steps:
		return true
	}
	return false
}

// silentRanks names the ranks that have not answered.
func silentRanks(answered []bool) string {
	const most = 16
	var names []string
	for i, ok := range answered {
		if !ok {
			names = append(names, fmt.Sprint(i))
		}
	}
	if n := len(names) - most; n > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", n))
	}
	return "no answer yet from rank " + strings.Join(names, ", ")
}

// note takes an event in and returns an ending if it is a failure.
func (e *execution) note(ev event) ending {
	if ev.rank < 0 || ev.rank >= len(e.ranks) {
		return failure(fmt.Sprintf("a rank says that it is rank %d of %d", ev.rank, len(e.ranks)), "")
	}
	r := e.ranks[ev.rank]
	switch m := ev.msg.(type) {
	case *protocol.Hello:
		return e.greet(ev.rank, m, ev.conn)
	case *protocol.Memory:
		r.memory = m
	case *protocol.Metrics:
		r.own = m.Metrics
	case *protocol.OOM:
		return ending{outcome: catalogue.OOMDevice, reason: fmt.Sprintf("rank %d ran out of memory in %.20s", ev.rank, m.Where), evidence: m.Text, rank: ev.rank}
	case *protocol.Error:
		end := errorEnding(ev.rank, m)
		r.echoed = r.echoed || end.echo
		return end
	}
	switch {
	case ev.err != nil:
		r.silent = true
		return e.brokenEnding(ev.rank, ev.err)
	case ev.ended != nil:
		ev.ended.gone = true
		return e.exitEnding(ev.ended, ev.exit)
	}
	return ending{}
}

// greet takes a hello in. conn is nil if the connection had said hello before.
func (e *execution) greet(i int, m *protocol.Hello, conn *protocol.Conn) ending {
	r := e.ranks[i]
	switch {
	case m.World != len(e.ranks):
		return failure(fmt.Sprintf("rank %d says that the world has %d ranks, but %d were planned", i, m.World, len(e.ranks)), "")
	case m.Protocol != protocol.Version:
		return failure(fmt.Sprintf("rank %d speaks protocol %d, this worker speaks %d", i, m.Protocol, protocol.Version), "")
	case conn == nil:
		return failure(fmt.Sprintf("rank %d said hello twice", i), "")
	case r.conn != nil:
		return failure(fmt.Sprintf("two connections say that they are rank %d", i), "")
	}
	r.conn, r.hello = conn, m
	return ending{}
}

// settle waits a little after a first failure for a better explanation: a word about memory ends the wait, a rank's
// own error beats an exit code, an exit code beats a broken connection.
func (e *execution) settle(ctx context.Context, first ending) ending {
	seen := []ending{first}
	timer := time.NewTimer(failGrace)
	defer timer.Stop()
	var late <-chan time.Time
	for {
		best := e.pick(ctx, seen)
		if best.final || best.outcome.OutOfMemory() || e.allGone() && e.allSilent() && !best.mayBeOurs() {
			return best
		}
		if late == nil && e.allGone() {
			late = time.After(lateGrace)
		}
		select {
		case <-timer.C:
			return best
		case <-late:
			return best
		case <-ctx.Done():
			return e.pick(ctx, e.queued(seen))
		case ev := <-e.events:
			if end := e.note(ev); end.outcome != "" {
				seen = append(seen, end)
			}
		}
	}
}

// queued adds the endings of the events that are already there.
func (e *execution) queued(seen []ending) []ending {
	for {
		select {
		case ev := <-e.events:
			if end := e.note(ev); end.outcome != "" {
				seen = append(seen, end)
			}
		default:
			return seen
		}
	}
}

// pick chooses the ending that explains most; of equal ones the first. The end of the context is preferred to a
// failure that it may have caused: a scheduler sends TERM to the ranks at the same moment as to the worker. What a
// rank said stands.
func (e *execution) pick(ctx context.Context, seen []ending) ending {
	best := slices.MaxFunc(seen, func(a, b ending) int { return e.weight(a) - e.weight(b) })
	if ctx.Err() != nil && e.weight(best) < ownWord {
		return stopped(ctx)
	}
	return best
}

// allGone reports whether every process that was started has ended.
func (e *execution) allGone() bool {
	return !slices.ContainsFunc(e.procs, func(p *proc) bool { return !p.gone })
}

// allSilent reports whether the connection of every rank that was started has ended.
func (e *execution) allSilent() bool {
	return !slices.ContainsFunc(e.ranks, func(r *rank) bool { return r.proc != nil && !r.silent })
}
