package ranks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cpbench/worker/model/protocol"
)

const (
	// failGrace is how long other ranks have after a first failure to tell a better explanation of it.
	failGrace = 3 * time.Second
	// lateGrace is the same once all processes have ended: for words that are still under way, and for the signal
	// to the worker that ended the ranks a moment before it.
	lateGrace = time.Second
)

// Meet waits until every rank has said hello.
func (s *Set) Meet(ctx context.Context) Ending {
	_, end := answers[*protocol.Hello](ctx, s, Patience{})
	return end
}

// Ask tells every rank the same and waits until each has answered with an A, or until the set has ended. The answers
// are in the order of the ranks. A rank that gives signs of life hangs if it is silent for workload.heartbeat before it
// has answered; p bounds steps that do not end.
func Ask[A protocol.Message](ctx context.Context, s *Set, question protocol.Message, p Patience) ([]A, Ending) {
	if !s.failed.OK() {
		return nil, s.failed
	}
	if _, err := protocol.Encode(question); err != nil {
		return nil, Failure(fmt.Sprintf("the message %q cannot be told to the ranks", question.Type()), err.Error())
	}
	s.Tell(ctx, question)
	return answers[A](ctx, s, p)
}

// answers reads events until every rank has answered with an A.
func answers[A protocol.Message](ctx context.Context, s *Set, p Patience) ([]A, Ending) {
	if !s.failed.OK() {
		return nil, s.failed
	}
	missing := len(s.Ranks)
	got, v := make([]A, missing), s.vigil(p)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for missing > 0 {
		ev, end := s.next(ctx, v, timer)
		if !end.OK() {
			return nil, end
		}
		bad := s.note(ev)
		if m, ok := ev.msg.(*protocol.Alive); ok && bad.OK() {
			v.sign(ev.rank, m)
		}
		if bad.OK() && isAnswer(ev.msg) {
			if a, ok := ev.msg.(A); ok && v.answer(ev.rank) {
				got[ev.rank] = a
				missing--
			} else {
				bad = Failure(fmt.Sprintf("rank %d sent %q out of turn", ev.rank, ev.msg.Type()), "")
			}
		}
		if !bad.OK() {
			return nil, s.explain(s.settle(ctx, bad))
		}
	}
	return got, Ending{}
}

// next returns the next event, or the ending where ctx or the vigil ends before one comes.
func (s *Set) next(ctx context.Context, v *vigil, timer *time.Timer) (event, Ending) {
	for {
		next := v.next()
		if timer.Stop(); next.end != nil {
			timer.Reset(time.Until(next.at))
		}
		select {
		case <-ctx.Done():
			end := Stopped(ctx)
			end.Evidence = v.positions()
			return event{}, s.verdict(ctx, end)
		case <-timer.C:
			if len(s.events) == 0 && !v.late(next) { // what is there already comes first
				return event{}, s.verdict(ctx, next.end())
			}
		case ev := <-s.events:
			return ev, Ending{}
		}
	}
}

// verdict is the ending of a wait that the worker itself has ended, unless a rank has just told a better one.
func (s *Set) verdict(ctx context.Context, end Ending) Ending {
	return s.explain(s.pick(ctx, s.queued([]Ending{end})))
}

// isAnswer reports whether m answers what the worker said; the other messages come as they please.
func isAnswer(m protocol.Message) bool {
	switch m.(type) {
	case *protocol.Hello, *protocol.Ready, *protocol.Prepared, *protocol.Steps:
		return true
	}
	return false
}

// note takes an event in and returns an Ending if it is a failure.
func (s *Set) note(ev event) Ending {
	if !s.known(ev.rank) {
		return Failure(fmt.Sprintf("a rank says that it is rank %d of %d", ev.rank, len(s.Ranks)), "")
	}
	r := s.Ranks[ev.rank]
	if ev.msg != nil {
		r.heard = ev.at
	}
	switch m := ev.msg.(type) {
	case *protocol.Hello:
		return s.greet(ev.rank, m, ev.conn)
	case *protocol.Ready:
		r.Ready = m
	case *protocol.Memory:
		r.Memory = m
	case *protocol.Metrics:
		r.Figures = m.Metrics
	case *protocol.OOM:
		return oomEnding(ev.rank, m)
	case *protocol.Error:
		end := errorEnding(ev.rank, m)
		r.echoed = r.echoed || end.echo
		return end
	}
	switch {
	case ev.err != nil:
		r.silent = true
		return s.brokenEnding(ev.rank, ev.err)
	case ev.ended != nil:
		ev.ended.gone = true
		return s.exitEnding(ev.ended, ev.exit)
	}
	return Ending{}
}

// known reports whether a rank is one of the set.
func (s *Set) known(rank int) bool { return rank >= 0 && rank < len(s.Ranks) }

// greet takes a hello in. conn is nil if the connection had said hello before.
func (s *Set) greet(i int, m *protocol.Hello, conn *protocol.Conn) Ending {
	r := s.Ranks[i]
	switch {
	case m.World != len(s.Ranks):
		return Failure(fmt.Sprintf("rank %d says that the world has %d ranks, but %d were planned", i, m.World, len(s.Ranks)), "")
	case m.Protocol != protocol.Version:
		return Failure(fmt.Sprintf("rank %d speaks protocol %d, this worker speaks %d", i, m.Protocol, protocol.Version), "")
	case conn == nil:
		return Failure(fmt.Sprintf("rank %d said hello twice", i), "")
	case r.conn != nil:
		return Failure(fmt.Sprintf("two connections say that they are rank %d", i), "")
	}
	r.conn, r.Hello = conn, m
	return Ending{}
}

// settle waits a little after a first failure for a better explanation: a word about memory ends the wait, a rank's
// own error beats an exit code, an exit code beats a broken connection.
func (s *Set) settle(ctx context.Context, first Ending) Ending {
	seen := []Ending{first}
	timer := time.NewTimer(failGrace)
	defer timer.Stop()
	var late <-chan time.Time
	for {
		best := s.pick(ctx, seen)
		if best.final || best.Outcome.OutOfMemory() || s.allGone() && s.allSilent() && !best.mayBeOurs() {
			return best
		}
		if late == nil && s.allGone() {
			late = time.After(lateGrace)
		}
		select {
		case <-timer.C:
			return best
		case <-late:
			return best
		case <-ctx.Done():
			return s.pick(ctx, s.queued(seen))
		case ev := <-s.events:
			if end := s.note(ev); !end.OK() {
				seen = append(seen, end)
			}
		}
	}
}

// queued adds the endings of the events that are already there.
func (s *Set) queued(seen []Ending) []Ending {
	for {
		select {
		case ev := <-s.events:
			if end := s.note(ev); !end.OK() {
				seen = append(seen, end)
			}
		default:
			return seen
		}
	}
}

// pick chooses the Ending that explains most; of equal ones the first. The end of the context is preferred to a
// failure that it may have caused: a scheduler sends TERM to the ranks at the same moment as to the worker. What a
// rank said stands.
func (s *Set) pick(ctx context.Context, seen []Ending) Ending {
	best := slices.MaxFunc(seen, func(a, b Ending) int { return s.weight(a) - s.weight(b) })
	if ctx.Err() != nil && s.weight(best) < ownWord {
		return Stopped(ctx)
	}
	return best
}

// allGone reports whether every process that was started has ended.
func (s *Set) allGone() bool {
	return !slices.ContainsFunc(s.procs, func(p *proc) bool { return !p.gone })
}

// allSilent reports whether the connection of every rank that was started has ended.
func (s *Set) allSilent() bool {
	return !slices.ContainsFunc(s.Ranks, func(r *Rank) bool { return r.proc != nil && !r.silent })
}
