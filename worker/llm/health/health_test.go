package health

import (
	"math"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func p(v float64) *float64 { return &v }

// Rule 26: the verdict is the worst of the limits.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		h    Health
		want Verdict
		why  int
	}{
		{"nothing known", Health{Wall: 1}, OK, 0},
		{"at the limits", Health{Wall: 1, SchedP99: p(1e-3), CPU: p(.70), HeldBack: p(0)}, OK, 0},
		{"late goroutines", Health{Wall: 1, SchedP99: p(1.1e-3)}, Suspect, 1},
		{"very late", Health{Wall: 1, SchedP99: p(11e-3)}, Bound, 1},
		{"busy", Health{Wall: 1, CPU: p(.71)}, Suspect, 1},
		{"at its end", Health{Wall: 1, CPU: p(.96)}, Bound, 1},
		{"throttled", Health{Wall: 10, HeldBack: p(.1)}, Suspect, 1},
		{"throttled for long", Health{Wall: 10, HeldBack: p(.6)}, Bound, 1},
		{"bound stays bound", Health{Wall: 1, SchedP99: p(11e-3), CPU: p(.71)}, Bound, 2},
		{"suspect becomes bound", Health{Wall: 1, SchedP99: p(2e-3), CPU: p(.99)}, Bound, 2},
	} {
		c.h.judge()
		if c.h.Verdict != c.want || len(c.h.Reasons) != c.why {
			t.Errorf("%s: %s %q", c.name, c.h.Verdict, c.h.Reasons)
		}
	}
}

func TestWorse(t *testing.T) {
	t.Parallel()
	ok, late := Health{Verdict: OK, SchedP99: p(1)}, Health{Verdict: OK, SchedP99: p(2)}
	suspect, bound := Health{Verdict: Suspect}, Health{Verdict: Bound}
	for _, c := range []struct{ a, b, want Health }{{Health{}, ok, ok}, {ok, late, late}, {late, ok, late}, {late, suspect, suspect}, {bound, suspect, bound}} {
		if d := cmp.Diff(c.want, worse(c.a, c.b)); d != "" {
			t.Errorf("%v and %v: %s", c.a.Verdict, c.b.Verdict, d)
		}
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	buckets := []float64{0, 1, 2, 3, math.Inf(1)}
	hist := func(counts ...uint64) *metrics.Float64Histogram {
		return &metrics.Float64Histogram{Counts: counts, Buckets: buckets}
	}
	for _, c := range []struct {
		name         string
		before, now  *metrics.Float64Histogram
		p99, highest *float64
	}{
		{"nothing gained", hist(5, 5, 5, 5), hist(5, 5, 5, 5), nil, nil},
		{"what was before does not count", hist(0, 0, 99, 0), hist(1, 0, 99, 0), p(1), p(1)},
		{"one late in a hundred is above p99", hist(0, 0, 0, 0), hist(99, 0, 1, 0), p(1), p(3)},
		{"two are not", hist(0, 0, 0, 0), hist(98, 0, 2, 0), p(3), p(3)},
		{"the last bucket has no upper edge", hist(0, 0, 0, 0), hist(0, 0, 0, 1), p(3), p(3)},
		{"none", nil, hist(1, 0, 0, 0), nil, nil},
	} {
		p99, highest := upper(c.before, c.now)
		if d := cmp.Diff([]*float64{c.p99, c.highest}, []*float64{p99, highest}); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func write(t *testing.T, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The kernel's counters, from files of both versions of the control groups.
func TestKernel(t *testing.T) {
	t.Parallel()
	const v2, v1 = "usage_usec 9\nnr_periods 9\nnr_throttled 3\nthrottled_usec 2500000\n", "nr_periods 9\nnr_throttled 4\nthrottled_time 1500000000\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		n     int64
		held  float64
		where string
	}{
		{"version 2", map[string]string{"proc/self/cgroup": "0::/job 1/step\n", "sys/fs/cgroup/job 1/step/cpu.stat": v2}, 3, 2.5, "/sys/fs/cgroup/job 1/step/cpu.stat"},
		{"a group without a limit", map[string]string{"proc/self/cgroup": "0::/job/step\n", "sys/fs/cgroup/job/step/cpu.stat": "usage_usec 9\n", "sys/fs/cgroup/job/cpu.stat": v2}, 3, 2.5, "/sys/fs/cgroup/job/cpu.stat"},
		{"version 1", map[string]string{"proc/self/cgroup": "7:memory:/job\n4:cpu,cpuacct:/job\n", "sys/fs/cgroup/cpu,cpuacct/job/cpu.stat": v1}, 4, 1.5, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.stat"},
		{"path of the host", map[string]string{"proc/self/cgroup": "0::/host/job\n", "sys/fs/cgroup/cpu.stat": v2}, 3, 2.5, "/sys/fs/cgroup/cpu.stat"},
		{"nobody counts", map[string]string{"proc/self/cgroup": "0::/job\n"}, -1, -1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), "it's a [root]")
			for path, text := range c.files {
				write(t, root, path, text)
			}
			n, held, where := throttling(root)
			if where != c.where || (n == nil) != (c.n < 0) || n != nil && (*n != c.n || *held != c.held) {
				t.Errorf("%v %v %q", n, held, where)
			}
		})
	}
	root := filepath.Join(t.TempDir(), "it's a [root]")
	if runDelay(root) != nil {
		t.Error("a delay of nothing")
	}
	write(t, root, "proc/self/task/1/schedstat", "100 2000000000 7\n")
	write(t, root, "proc/self/task/12/schedstat", "100 500000000 7\n")
	write(t, root, "proc/self/task/13/schedstat", "no\n")
	if d := runDelay(root); d == nil || *d != 2.5 {
		t.Errorf("%v", d)
	}
}

// A watch tells what was gained, and null where a counter has fallen or is another one.
func TestWatch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "proc/self/cgroup", "0::/a\n")
	write(t, root, "sys/fs/cgroup/a/cpu.stat", "nr_throttled 3\nthrottled_usec 1000000\n")
	write(t, root, "proc/self/task/1/schedstat", "1 1000000000 1\n")
	w := Begin(root)
	write(t, root, "sys/fs/cgroup/a/cpu.stat", "nr_throttled 5\nthrottled_usec 4000000\n")
	write(t, root, "proc/self/task/1/schedstat", "1 1500000000 1\n")
	h := w.End()
	want := Health{Throttled: new(int64), HeldBack: p(3), RunDelay: p(.5), Where: "/sys/fs/cgroup/a/cpu.stat", Verdict: Bound}
	*want.Throttled = 2
	some := cmpopts.IgnoreFields(Health{}, "Wall", "Procs", "CPU", "SchedP99", "SchedMax", "GCMax", "Reasons")
	if d := cmp.Diff(want, h, some); d != "" || h.Wall <= 0 || h.CPU == nil || h.GCMax == nil || !strings.Contains(strings.Join(h.Reasons, ";"), "throttled for 3000.0 ms") {
		t.Errorf("%s%+v", d, h)
	}
	write(t, root, "sys/fs/cgroup/a/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n")
	if h := w.End(); h.Throttled != nil || h.HeldBack != nil {
		t.Errorf("a counter that fell: %+v", h)
	}
	write(t, root, "proc/self/cgroup", "0::/b\n")
	write(t, root, "sys/fs/cgroup/b/cpu.stat", "nr_throttled 9\nthrottled_usec 9000000\n")
	if h := w.End(); h.Throttled != nil || h.HeldBack != nil {
		t.Errorf("another group: %+v", h)
	}
}
