package reference_test

import (
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cpbench/worker/model/protocol"

	"github.com/google/go-cmp/cmp"
)

func TestHello(t *testing.T) {
	t.Parallel()
	children := launch(t, 2, "--channels", "3", "--memory=512KiB")
	for r, c := range children {
		h := c.hello
		if h.Protocol != protocol.Version || h.Rank != r || h.World != 2 || h.PID != c.cmd.Process.Pid || h.Host == "" {
			t.Errorf("rank %d: %+v", r, h)
		}
		if h.Device.Name != "reference model (CPU)" || h.Device.TotalBytes == nil || *h.Device.TotalBytes != 512<<10 {
			t.Errorf("rank %d: device %+v", r, h.Device)
		}
		if h.Versions["reference"] == "" || !strings.HasPrefix(h.Versions["go"], "go") || h.Settings["channels"] != "3" {
			t.Errorf("rank %d: versions %v, settings %v", r, h.Versions, h.Settings)
		}
	}
	stop(t, children)
}

func TestPreparedTellsAllSizes(t *testing.T) {
	t.Parallel()
	ptr := func(n int64) *int64 { return &n }
	children := launch(t, 4)
	send(t, children, protocol.Start{Mode: "inference", Topology: "2d", DType: "fp32"})
	expect[protocol.Ready](t, children)
	for _, tt := range []struct {
		params map[string]any
		want   protocol.Prepared
	}{
		{map[string]any{"tokens": 101, "atoms": 808, "msa": 7, "mine": "x"}, protocol.Prepared{Tokens: ptr(101), PaddedTokens: ptr(102), Atoms: ptr(808), MSA: ptr(7)}},
		{map[string]any{"tokens": 64, "data": nil}, protocol.Prepared{Tokens: ptr(64), PaddedTokens: ptr(64)}},
	} {
		send(t, children, protocol.Point{Params: tt.params})
		for _, got := range expect[protocol.Prepared](t, children) {
			if got.Seconds <= 0 {
				t.Errorf("prepared in %v s", got.Seconds)
			}
			got.Seconds = 0
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Error(diff)
			}
		}
	}
	stop(t, children)
}

func TestStepsMemoryAndChecksum(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"inference", "training"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			want := measure(t, "", 1, mode)
			for topology, world := range map[string]int{"1d": 3, "2d": 4} {
				for name, got := range measure(t, topology, world, mode) {
					if w := want[name]; math.Abs(got-w) > 1e-6*math.Abs(w) {
						t.Errorf("%s P=%d: %s %v, want %v as with one process", topology, world, name, got, w)
					}
				}
			}
		})
	}
}

// measure runs some steps, checks what each rank says, and returns the sums over the ranks.
func measure(t *testing.T, topology string, world int, mode string) map[string]float64 {
	t.Helper()
	children := begin(t, world, topology, mode, 89)
	run(t, children, "warmup", 1)
	send(t, children, protocol.ResetPeak{})
	r := run(t, children, "timed", 3)
	for rank := range children {
		checkRank(t, rank, r, 3)
	}
	if wait := r.sum(t, "exchange_seconds"); (wait > 0) != (world > 1) {
		t.Errorf("%d ranks waited %v s for each other", world, wait)
	}
	sums := map[string]float64{"checksum": r.sum(t, "checksum")}
	if mode == "training" {
		sums["gradient_checksum"] = r.sum(t, "gradient_checksum")
	}
	stop(t, children)
	return sums
}

func checkRank(t *testing.T, rank int, r result, count int) {
	t.Helper()
	s, m := r.steps[rank], r.memory[rank]
	if len(s.Seconds) != count || s.Finite == nil || !*s.Finite {
		t.Errorf("rank %d: steps %+v", rank, s)
	}
	for _, v := range s.Seconds {
		if v <= 0 {
			t.Errorf("rank %d: a step of %v s", rank, v)
		}
	}
	if m.Cold.Allocated == nil || *m.Cold.Allocated == 0 || m.Warm.Allocated == nil || *m.Warm.Allocated != *m.Cold.Allocated {
		t.Errorf("rank %d: memory %+v", rank, m)
	}
	if m.Cold.Reserved != nil || m.Cold.Device != nil || m.Warm.Reserved != nil || m.Warm.Device != nil {
		t.Errorf("rank %d: figures that nobody measured: %+v", rank, m)
	}
}

func TestWarmPeakIsThatSinceTheReset(t *testing.T) {
	t.Parallel()
	children := begin(t, 1, "", "inference", 128)
	run(t, children, "probe", 1)
	send(t, children, point(64))
	expect[protocol.Prepared](t, children)
	send(t, children, protocol.ResetPeak{})
	m := run(t, children, "probe", 1).memory[0]
	const tile128, tile64 = 4 * 128 * 128 * 4, 4 * 64 * 64 * 4
	if *m.Cold.Allocated != 4*tile128 || *m.Warm.Allocated != 4*tile64 {
		t.Errorf("cold %d, warm %d; want %d and %d", *m.Cold.Allocated, *m.Warm.Allocated, 4*tile128, 4*tile64)
	}
	stop(t, children)
}

func TestARankEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		children := launch(t, 1)
		children[0].conn.Close()
		if code := children[0].exit(t); code != 1 || !strings.Contains(children[0].log(t), "worker went away") {
			t.Errorf("exit status %d; stderr: %s", code, children[0].log(t))
		}
	})
	t.Run("at work", func(t *testing.T) {
		t.Parallel()
		children := begin(t, 1, "", "inference", 64)
		send(t, children, protocol.Step{Phase: "timed", Count: 1 << 40})
		children[0].conn.Close()
		if code := children[0].exit(t); code != 1 {
			t.Errorf("exit status %d", code)
		}
	})
	t.Run("by SIGTERM", func(t *testing.T) {
		t.Parallel()
		children := begin(t, 1, "", "inference", 64)
		if err := children[0].cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := children[0].exit(t); code != 128+15 {
			t.Errorf("exit status %d", code)
		}
	})
}

func TestAPeerThatDiesIsNamed(t *testing.T) {
	t.Parallel()
	for _, mesh := range []struct {
		topology string
		world    int
	}{{"1d", 2}, {"2d", 4}} {
		t.Run(mesh.topology, func(t *testing.T) {
			t.Parallel()
			children := begin(t, mesh.world, mesh.topology, "training", 64)
			send(t, children, protocol.Step{Phase: "timed", Count: 1 << 40})
			if err := children[1].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			left := slices.Delete(children, 1, 2)
			var texts []string
			for i, got := range expect[protocol.Error](t, left) {
				texts = append(texts, got.Text)
				if code := left[i].exit(t); code != 1 || !strings.Contains(got.Text, "went away") {
					t.Errorf("exit status %d after %q", code, got.Text)
				}
			}
			// Who waits for rank 1 names it; who waits for one of those may name that one.
			if !strings.Contains(strings.Join(texts, "\n"), "rank 1 went away") {
				t.Errorf("nobody names rank 1: %q", texts)
			}
		})
	}
}
