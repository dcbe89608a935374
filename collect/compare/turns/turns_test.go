package turns

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at makes executions of a minute each out of a text: a and b are the sides, one letter a minute, and a bar begins
// another task.
func at(text string) []Execution {
	var all []Execution
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, task := range strings.Split(text, "|") {
		for _, letter := range task {
			if letter != '.' {
				all = append(all, Execution{Side: int(letter - 'a'), Began: began, Ended: began.Add(time.Minute), Task: string(rune('0' + i))})
			}
			began = began.Add(time.Minute)
		}
	}
	return all
}

// Rule 30 of the accounting: what was interleaved is told, and what was not, with the time between.
func TestOf(t *testing.T) {
	t.Parallel()
	gap := func(s float64) *float64 { return &s }
	names := [2]string{"old", "new"}
	for _, tt := range []struct {
		name, text string
		want       Order
	}{
		{"in one task each, the order turned round", "ab|ba|ab|ba", Order{
			Interleaved: true, Shared: 4, BaseFirst: 2, Turns: []string{"old 1", "new 2", "old 2", "new 2", "old 1"},
			Text: "interleaved: 4 tasks held both, and in 2 of them old came first",
		}},
		{"always in the same order", "ab|ab", Order{
			Interleaved: true, Shared: 2, BaseFirst: 2, Turns: []string{"old 1", "new 1", "old 1", "new 1"}, LaterSeconds: 60,
			Text: "interleaved: 2 tasks held both, and in 2 of them old came first; new lay 1m later in the mean",
		}},
		{"turns within the only task", "abba", Order{
			Interleaved: true, Shared: 1, BaseFirst: 1, Turns: []string{"old 1", "new 2", "old 1"}, Text: "interleaved in one task: old 1, new 2, old 1",
		}},
		{"tasks in turns", "aa|bb|bb|aa", Order{
			Interleaved: true, Turns: []string{"old 2", "new 4", "old 2"}, Text: "interleaved: old 2, new 4, old 2",
		}},
		{"one after the other", "aaa|..bbb", Order{
			Turns: []string{"old 3", "new 3"}, GapSeconds: gap(120), LaterSeconds: 300,
			Text: "one after the other: old, and new after 2m; what drifted meanwhile speaks for one of them",
		}},
		{"the base last", "b|a", Order{
			Turns: []string{"new 1", "old 1"}, GapSeconds: gap(0), LaterSeconds: -60,
			Text: "one after the other: new, and old after 0s; what drifted meanwhile speaks for one of them",
		}},
		{"one that was run again at the end", "aaaa|bbbb|a", Order{
			Turns: []string{"old 4", "new 4", "old 1"}, LaterSeconds: 162,
			Text: "mostly one after the other: in 80 % of all pairs old came before new; what drifted meanwhile speaks for one of them",
		}},
		{"the other way round", "bbbb|aaaa|b", Order{
			Turns: []string{"new 4", "old 4", "new 1"}, LaterSeconds: -162,
			Text: "mostly one after the other: in 80 % of all pairs new came before old; what drifted meanwhile speaks for one of them",
		}},
		{"a side without any", "aa", Order{Turns: []string{}, Text: "a side has no good execution in a row that both have"}},
		{"none at all", "", Order{Turns: []string{}, Text: "a side has no good execution in a row that both have"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(&tt.want, Of(names, at(tt.text))); d != "" {
				t.Error(d)
			}
		})
	}
	long := Of(names, at(strings.Repeat("a|b|", 40)))
	if len(long.Turns) != maxTurns || !strings.HasPrefix(long.Text, "interleaved: 80 turns; ") {
		t.Errorf("%d turns: %s", len(long.Turns), long.Text)
	}
}
