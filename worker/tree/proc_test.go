package tree

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var compare = cmp.AllowUnexported(process{})

// tail is the part of a stat line after the state and the parent, up to the given number of threads and start.
func tail(threads int, start uint64) string {
	return fmt.Sprintf("100 100 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 %d 0 %d 1 2 18446744073709551615 1", threads, start)
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       process
		ok         bool
	}{
		{"plain", "42 (python3) S 7 " + tail(3, 900) + "\n", process{42, 7, 'S', 3, 900}, true},
		{"parentheses and blanks", "42 (a) R 1 (b) Z 8 " + tail(1, 901), process{42, 8, 'Z', 1, 901}, true},
		{"newline in the name", "42 (a\n) S 7) T 9 " + tail(1, 902), process{42, 9, 'T', 1, 902}, true},
		{"empty name", "42 () X 0 " + tail(0, 0), process{42, 0, 'X', 0, 0}, true},
		{"empty", "", process{}, false},
		{"no name", "42 S 7", process{}, false},
		{"no id", "x (a) S 7 " + tail(1, 1), process{}, false},
		{"cut", "42 (a) S 7 1 2 3", process{}, false},
		{"long state", "42 (a) SS 7 " + tail(1, 1), process{}, false},
		{"parent is no number", "42 (a) S x " + tail(1, 1), process{}, false},
		{"parentheses the wrong way round", ")42(", process{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStat([]byte(tt.text))
			if (err == nil) != tt.ok {
				t.Fatalf("parseStat(%q): error %v, want ok %v", tt.text, err, tt.ok)
			}
			if d := cmp.Diff(tt.want, got, compare); d != "" {
				t.Errorf("parseStat(%q) (-want +got):\n%s", tt.text, d)
			}
		})
	}
}

// Whatever a process calls itself, its numbers are read.
func TestParseStatAnyName(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := process{
			pid: rapid.IntRange(1, 1<<22).Draw(t, "pid"), parent: rapid.IntRange(0, 1<<22).Draw(t, "parent"),
			state: rapid.SampledFrom([]byte("RSDZTtXI")).Draw(t, "state"), threads: rapid.IntRange(0, 1e4).Draw(t, "threads"),
			start: rapid.Uint64().Draw(t, "start"),
		}
		name := rapid.StringMatching(`[ ()\n0-9A-Za-z]{0,15}`).Draw(t, "name")
		text := fmt.Sprintf("%d (%s) %c %d %s", want.pid, name, want.state, want.parent, tail(want.threads, want.start))
		got, err := parseStat([]byte(text))
		if err != nil {
			t.Fatalf("parseStat(%q): %v", text, err)
		}
		if d := cmp.Diff(want, got, compare); d != "" {
			t.Fatalf("parseStat(%q) (-want +got):\n%s", text, d)
		}
	})
}

func TestDead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		state   byte
		threads int
		want    bool
	}{
		{'R', 1, false},
		{'D', 1, false},
		{'T', 1, false},
		{'Z', 1, true},
		{'Z', 0, true},
		{'Z', 3, false}, // the leader has ended, its threads have not
		{'X', 0, true},
	}
	for _, tt := range tests {
		if got := (process{state: tt.state, threads: tt.threads}).dead(); got != tt.want {
			t.Errorf("state %c with %d threads: dead %v, want %v", tt.state, tt.threads, got, tt.want)
		}
	}
}

func TestDescend(t *testing.T) {
	t.Parallel()
	all := map[int]process{}
	for pid, parent := range map[int]int{1: 0, 2: 0, 10: 1, 11: 10, 12: 11, 13: 11, 14: 10, 15: 14, 20: 1, 21: 20, 30: 31, 31: 30} {
		all[pid] = process{pid: pid, parent: parent}
	}
	spared := func(pid int) bool { return pid == 14 || pid == 21 }
	var got []int
	for _, p := range descend(all, 10, spared) {
		got = append(got, p.pid)
	}
	if d := cmp.Diff([]int{11, 12, 13}, got); d != "" {
		t.Errorf("descendants of 10 (-want +got):\n%s", d)
	}
	if got := descend(all, 30, nil); len(got) != 1 {
		t.Errorf("descendants in a circle: %v, want one", got)
	}
}

// A signal reaches the process that was read or none: a start time that differs means that the id was used again.
func TestSendChecksTheStartTime(t *testing.T) {
	t.Parallel()
	self, ok, err := readProcess(os.Getpid())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	s := &sweep{}
	for name, send := range map[string]func(process) bool{
		"descriptor": func(p process) bool { return s.send(p, 0) },
		"id":         func(p process) bool { return s.sendByID(p, 0) },
	} {
		other := self
		other.start++
		if !send(self) || send(other) {
			t.Errorf("by %s: sent to itself %v, to another process of the same id %v; want true, false", name, send(self), send(other))
		}
	}
	if s.refused != nil {
		t.Error(s.refused)
	}
}
