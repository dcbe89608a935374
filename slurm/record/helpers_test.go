package record

import (
	"fmt"
	"strings"
)

// settled reports whether every one of the tasks of a job, by its name or id, is known to have ended. nil asks about a
// job that is no array.
func settled(s *Snapshot, key string, indices []int) bool {
	if indices == nil {
		indices = []int{-1}
	}
	for _, index := range indices {
		if t, ok := s.Find(key, index); !ok || !t.Ended() {
			return false
		}
	}
	return true
}

// waiting counts the tasks with a row of their own that have yet to start.
func waiting(s *Snapshot, key string) int {
	n := 0
	for _, t := range s.Tasks(key) {
		if t.Waits() {
			n++
		}
	}
	return n
}

// size counts the indices; one that is named twice counts twice.
func size(l Indices) int {
	n := 0
	for _, r := range l {
		n += (r.Last-r.First)/r.Step + 1
	}
	return n
}

// String writes the list as Slurm does: 1-9:2,12.
func (l Indices) String() string {
	var b strings.Builder
	for i, r := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d", r.First)
		if r.Last != r.First {
			fmt.Fprintf(&b, "-%d", r.Last)
		}
		if r.Step != 1 {
			fmt.Fprintf(&b, ":%d", r.Step)
		}
	}
	return b.String()
}
