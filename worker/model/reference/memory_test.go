package reference_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"cpbench/worker/model/protocol"
)

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tokens    int
		where     string
		requested int
		inUse     int
	}{
		"in the step":    {400, "step", 4 * 400 * 400 * 4, 3 * 4 * 400 * 400 * 4},
		"in the batch":   {1000, "prepare", 16_003_072, 0}, // 16,000,000 in whole pages
		"far too large":  {4_000_000, "prepare", 256_000_000_000_000, 0},
		"by a single kB": {363, "step", 2_109_440, 3 * 2_109_440},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			children := launch(t, 1)
			send(t, children, protocol.Start{Mode: "inference"})
			expect[protocol.Ready](t, children)
			send(t, children, point(tt.tokens))
			if tt.where == "step" {
				expect[protocol.Prepared](t, children)
				send(t, children, protocol.Step{Phase: "probe", Count: 1})
			}
			got := expect[protocol.OOM](t, children)[0]
			if got.Where != tt.where {
				t.Errorf("where %q, want %q", got.Where, tt.where)
			}
			want := fmt.Sprintf("requested %d bytes with %d in use of a budget of %d", tt.requested, tt.inUse, 8<<20)
			if !strings.Contains(got.Text, want) {
				t.Errorf("text %q lacks %q", got.Text, want)
			}
			if code := children[0].exit(t); code != 1 {
				t.Errorf("exit status %d, want 1", code)
			}
			if log := children[0].log(t); strings.Contains(log, "goroutine") || !strings.Contains(log, "out of memory") {
				t.Errorf("stderr: %s", log)
			}
		})
	}
}

func TestTheEdgeIsSharpAndRepeatable(t *testing.T) {
	t.Parallel()
	for range 5 {
		children := begin(t, 1, "", "inference", 362) // four tiles of exactly 2 MiB in whole pages
		if peak := *run(t, children, "probe", 1).memory[0].Cold.Allocated; peak != 8<<20 {
			t.Errorf("peak %d", peak)
		}
		send(t, children, point(363))
		expect[protocol.Prepared](t, children)
		send(t, children, protocol.Step{Phase: "probe", Count: 1})
		expect[protocol.OOM](t, children)
		if code := children[0].exit(t); code != 1 {
			t.Errorf("exit status %d; stderr: %s", code, children[0].log(t))
		}
	}
}

// TestLargestSizeGrowsWithTheRootOfRanks holds the law of a 2-D split: memory is N²/P on every rank.
func TestLargestSizeGrowsWithTheRootOfRanks(t *testing.T) {
	t.Parallel()
	const budget = 256 << 10 // one channel: 16·N² bytes with one rank
	largest := map[int]int{}
	for _, side := range []int{1, 2, 3} {
		largest[side] = bisect(t, side, budget)
	}
	t.Logf("largest N: %v", largest)
	for side, n := range largest {
		if ideal := float64(largest[1] * side); math.Abs(float64(n)/ideal-1) > 0.1 {
			t.Errorf("P = %d: N = %d, want %v ± 10 %%", side*side, n, ideal)
		}
	}
}

// bisect returns the largest size, to 2 %, that side × side ranks can prepare and step. Ranks are used again after
// a size that fits, and are new after one that does not.
func bisect(t *testing.T, side int, budget int) int {
	t.Helper()
	ideal := side * int(math.Sqrt(float64(budget)/16))
	low, high := ideal/2, ideal*2
	var children []*child
	for high-low > max(1, low/50) {
		n := (low + high) / 2
		if children == nil {
			children = launch(t, side*side, "--channels=1", fmt.Sprintf("--memory=%d", budget))
			send(t, children, protocol.Start{Mode: "inference", Topology: "2d"})
			expect[protocol.Ready](t, children)
		}
		if fits(t, children, n) {
			low = n
		} else {
			high, children = n, nil
		}
	}
	if low == ideal/2 || high == ideal*2 {
		t.Fatalf("P = %d: the bracket [%d, %d) never moved", side*side, low, high)
	}
	if children != nil {
		stop(t, children)
	}
	return low
}

// fits tries one size. When it does not fit, at least one rank says so and all have ended.
func fits(t *testing.T, children []*child, n int) bool {
	t.Helper()
	send(t, children, point(n))
	oom, ok := 0, 0
	for _, c := range children {
		switch next(t, c).(type) {
		case *protocol.OOM:
			oom++
		case *protocol.Prepared:
			if err := c.conn.Send(protocol.Step{Phase: "probe", Count: 1}); err != nil && !lost(err) {
				t.Fatal(err)
			}
		}
	}
	for _, c := range children {
		for done := false; !done; {
			switch m := next(t, c).(type) {
			case *protocol.Steps:
				ok++
				done = true
			case *protocol.OOM:
				oom++
				done = true
			case *protocol.Error:
				if !strings.Contains(m.Text, "went away") {
					t.Fatalf("unexplained: %s", m.Text)
				}
				done = true
			case nil:
				done = true
			}
		}
	}
	if ok == len(children) {
		return true
	}
	if oom == 0 {
		t.Fatalf("N = %d: %d of %d ranks are well and none is out of memory", n, ok, len(children))
	}
	return false
}

// next returns a rank's next message, nil at the end of its connection.
func next(t *testing.T, c *child) protocol.Message {
	t.Helper()
	m, err := c.receive()
	if err != nil && !lost(err) {
		t.Fatal(err)
	}
	return m
}
