// Package turns tells how the executions of two sides lay in time: in turns, or one side after the other. Use Of.
package turns

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cpbench/collect/page"
)

// Order says how the executions of both sides lay in time: what drifts meanwhile speaks for one of them unless they took
// turns.
type Order struct {
	// Interleaved is false if all of one side, or most of it, came before the other.
	Interleaved bool `json:"interleaved"`
	// Shared is the number of tasks that held both sides, and BaseFirst in how many of them the base came first.
	Shared    int `json:"tasks_with_both"`
	BaseFirst int `json:"base_first"`
	// Turns are the sides in the order of time, with how many executions in a row, such as A 4, B 4.
	Turns []string `json:"turns"`
	// GapSeconds lies between the end of the first side and the start of the other; null: they overlap.
	GapSeconds *float64 `json:"gap_seconds"`
	// LaterSeconds is by how much B began later, in the mean over the executions. 0 cancels a steady drift out.
	LaterSeconds float64 `json:"b_later_seconds"`
	Text         string  `json:"text"`
}

// maxTurns is how many turns are told.
const maxTurns = 24

// Execution is one that counts.
type Execution struct {
	Side         int // 0: the base, or 1
	Began, Ended time.Time
	Task         string // names the task that held it
}

// Of looks at the executions of the sides with these names, in any order.
func Of(names [2]string, all []Execution) *Order {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Execution) int { return a.Began.Compare(b.Began) })
	o := &Order{Turns: []string{}}
	ends := spans(all)
	if ends[0].n == 0 || ends[1].n == 0 {
		o.Text = "a side has no good execution in a row that both have"
		return o
	}
	o.take(names, all)
	o.LaterSeconds = ends[1].mean - ends[0].mean
	for first, second := range [2]int{1, 0} {
		if gap := ends[second].began.Sub(ends[first].ended).Seconds(); gap >= 0 {
			o.GapSeconds = &gap
			o.Text = fmt.Sprintf("one after the other: %s, and %s after %s; what drifted meanwhile speaks for one of them", names[first], names[second], period(gap))
			return o
		}
	}
	switch first := before(all); {
	case first >= most:
		o.Text = mostly(first, names[0], names[1])
	case 1-first >= most:
		o.Text = mostly(1-first, names[1], names[0])
	default:
		o.Interleaved, o.Text = true, o.interleaved(names)
	}
	o.Turns = o.Turns[:min(len(o.Turns), maxTurns)]
	return o
}

// Doubtful reports whether the order speaks for one of the sides. It does not where a side has nothing.
func (o *Order) Doubtful() bool { return !o.Interleaved && len(o.Turns) > 0 }

// most is the share of pairs, one of each side, of which the same side came first, that makes no turns any more: of two
// turns A B A B it is 0.75, whereas one A that was run again behind all of B leaves it near 1.
const most = 0.8

// before is the share of all pairs of an execution of A and one of B, given in the order of time, of which A's came first.
func before(all []Execution) float64 {
	pairs, a, b := 0, 0, 0
	for _, x := range all {
		if x.Side == 0 {
			a++
			continue
		}
		b++
		pairs += a
	}
	return float64(pairs) / float64(a*b)
}

func mostly(share float64, first, second string) string {
	return fmt.Sprintf("mostly one after the other: in %.0f %% of all pairs %s came before %s; what drifted meanwhile speaks for one of them", 100*share, first, second)
}

// interleaved says in words how the sides took turns.
func (o *Order) interleaved(names [2]string) string {
	text := fmt.Sprintf("interleaved: %d turns", len(o.Turns))
	switch {
	case o.Shared == 1 && len(o.Turns) <= maxTurns:
		text = "interleaved in one task: " + strings.Join(o.Turns, ", ")
	case o.Shared > 0:
		text = fmt.Sprintf("interleaved: %s held both, and in %d of them %s came first", page.Count(o.Shared, "task"), o.BaseFirst, names[0])
	case len(o.Turns) <= maxTurns:
		text = "interleaved: " + strings.Join(o.Turns, ", ")
	}
	switch {
	case o.LaterSeconds > 0:
		text += fmt.Sprintf("; %s lay %s later in the mean", names[1], period(o.LaterSeconds))
	case o.LaterSeconds < 0:
		text += fmt.Sprintf("; %s lay %s earlier in the mean", names[1], period(-o.LaterSeconds))
	}
	return text
}

// span is the time of one side.
type span struct {
	began, ended time.Time
	mean         float64 // of the starts, in seconds from the first of all
	n            int
}

func spans(all []Execution) (s [2]span) {
	for _, x := range all {
		at := &s[x.Side]
		if at.n == 0 {
			at.began = x.Began
		}
		if x.Ended.After(at.ended) {
			at.ended = x.Ended
		}
		at.n++
		at.mean += x.Began.Sub(all[0].Began).Seconds()
	}
	for i := range s {
		s[i].mean /= max(1, float64(s[i].n))
	}
	return s
}

// take finds the turns, and the tasks that held both sides.
func (o *Order) take(names [2]string, all []Execution) {
	first, both := map[string]int{}, map[string]bool{}
	last, n := all[0].Side, 0
	flush := func() { o.Turns = append(o.Turns, fmt.Sprintf("%s %d", names[last], n)) }
	for _, x := range all {
		if side, ok := first[x.Task]; !ok {
			first[x.Task] = x.Side
		} else if side != x.Side {
			both[x.Task] = true
		}
		if x.Side != last {
			flush()
			last, n = x.Side, 0
		}
		n++
	}
	flush()
	o.Shared = len(both)
	for task := range both {
		if first[task] == 0 {
			o.BaseFirst++
		}
	}
}

// period writes a time.
func period(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
