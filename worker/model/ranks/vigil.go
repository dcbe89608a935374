package ranks

import (
	"fmt"
	"strings"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
)

// Patience is how long the steps of one question may go on without one of them ending on any rank. The zero value
// sets no limit: a compilation may take longer than all steps after it.
type Patience struct {
	Stall time.Duration // beyond it the ranks hang, if all of them give signs of life; 0: no limit
	Slow  time.Duration // beyond it the step is too slow to be waited for; 0: no limit
}

// vigil is the wait for the answers to one question.
type vigil struct {
	ranks     []*Rank
	heartbeat time.Duration // of the spec; 0: silence is no hang
	patience  Patience

	began    time.Time // of the wait; later, if this process itself was stopped meanwhile
	progress time.Time // when a step last ended on any rank
	answered []bool
}

func (s *Set) vigil(p Patience) *vigil {
	now := time.Now()
	return &vigil{
		ranks: s.Ranks, heartbeat: time.Duration(s.spec().Heartbeat), patience: p,
		began: now, progress: now, answered: make([]bool, len(s.Ranks)),
	}
}

// limit is what ends a wait in which nothing more is heard.
type limit struct {
	at    time.Time // the zero time: there is none
	after time.Duration
	end   func() Ending
}

// next is the limit that is reached first.
func (v *vigil) next() limit {
	var first limit
	take := func(from time.Time, after time.Duration, end func() Ending) {
		if at := from.Add(after); after > 0 && (first.end == nil || at.Before(first.at)) {
			first = limit{at, after, end}
		}
	}
	alive := true
	for i, r := range v.ranks {
		switch {
		case v.answered[i]:
		case !r.beats:
			alive = false
		default:
			take(later(v.began, r.heard), v.heartbeat, func() Ending { return v.silent(i) })
		}
	}
	if alive {
		take(v.progress, v.patience.Stall, v.stalled)
	}
	take(v.progress, v.patience.Slow, v.slow)
	return first
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// late reports whether a limit is noticed much too late, and then begins the wait anew: this process itself was
// stopped, as by Slurm's suspend, and the ranks with it. Their signs of life are not to blame.
func (v *vigil) late(l limit) bool {
	now := time.Now()
	if now.Sub(l.at) < l.after/2 {
		return false
	}
	v.began, v.progress = now, now
	return true
}

func (v *vigil) silent(i int) Ending {
	return v.ending(catalogue.Hang, fmt.Sprintf("rank %d has given no sign of life for %v", i, v.heartbeat))
}

func (v *vigil) stalled() Ending {
	return v.ending(catalogue.Hang, fmt.Sprintf("all ranks are alive, but no step has ended for %v", round(v.patience.Stall)))
}

func (v *vigil) slow() Ending {
	return v.ending(catalogue.Slow, fmt.Sprintf("no step has ended for %v, which is far over workload.slow_after", round(v.patience.Slow)))
}

func (v *vigil) ending(outcome catalogue.Outcome, reason string) Ending {
	return Ending{Outcome: outcome, Reason: reason, Evidence: v.positions()}
}

// sign takes in a sign of life, and whether a step has ended since the last one.
func (v *vigil) sign(i int, m *protocol.Alive) {
	r := v.ranks[i]
	if m.Done != nil && (r.done == nil || *m.Done != *r.done) {
		v.progress = time.Now()
	}
	r.sign(m)
}

// answer takes in that a rank has answered. It reports false if it had done so before.
func (v *vigil) answer(i int) bool {
	if v.answered[i] {
		return false
	}
	v.answered[i], v.progress = true, time.Now()
	return true
}

// whereLength is how much of the name of a place is kept, in bytes.
const whereLength = 160

// sign keeps where a rank stands, and since when.
func (r *Rank) sign(m *protocol.Alive) {
	r.beats, r.done = true, m.Done
	where := strings.Join(strings.Fields(m.Where), " ")
	if len(where) > whereLength {
		where = strings.ToValidUTF8(where[:whereLength], "")
	}
	if where != r.where || r.there.IsZero() {
		r.where, r.there = where, time.Now()
	}
}
