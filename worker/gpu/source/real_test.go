package source_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cpbench/plan/suite"
	"cpbench/worker/gpu"
	"cpbench/worker/gpu/source"

	"github.com/google/go-cmp/cmp"
)

// built are the real helper and libraries that stand in for the driver's, made once.
type built struct{ dir, helper, library, old, noInit string }

var (
	builtDir string
	build    = sync.OnceValues(func() (built, error) {
		dir, err := os.MkdirTemp("", "gpu 'test' ")
		if err != nil {
			return built{}, err
		}
		builtDir = dir
		b := built{dir, filepath.Join(dir, "cpbench-nvml"), filepath.Join(dir, "libnvidia-ml.so.1"), filepath.Join(dir, "old.so"), filepath.Join(dir, "no init.so")}
		for _, args := range [][]string{
			{"cc", "-shared", "-fPIC", "-o", b.library, "testdata/fakenvml.c"},
			{"cc", "-shared", "-fPIC", "-DOLD", "-o", b.old, "testdata/fakenvml.c"},
			{"cc", "-shared", "-fPIC", "-DNO_INIT", "-o", b.noInit, "testdata/fakenvml.c"},
			{"go", "build", "-o", b.helper, "cpbench/cmd/cpbench-nvml"},
		} {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				return built{}, fmt.Errorf("%s: %w: %s", args, err, out)
			}
		}
		return b, nil
	})
)

func TestMain(m *testing.M) {
	code := m.Run()
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	os.Exit(code)
}

// need returns the helper, or skips where there is no C compiler.
func need(t *testing.T) built {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		suite.Missing(t, "cc", "needs a C compiler for the helper and the stand-in of its library: %v", err)
	}
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bench is one test's sampler with the processes that it started and the log that it wrote.
type bench struct {
	*source.Sampler
	source gpu.Source
	reason string
	mu     sync.Mutex
	cmds   []*exec.Cmd
	lines  chan map[string]json.RawMessage // one for each line of the log
}

// with opens a sampler whose children have additional variables in their environment.
func with(t *testing.T, opts source.Options, env ...string) *bench {
	t.Helper()
	b := &bench{lines: make(chan map[string]json.RawMessage, 1000)}
	opts.Start = func(cmd *exec.Cmd) (func() error, error) {
		cmd.Env = append(cmd.Env, env...)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.cmds = append(b.cmds, cmd)
		return cmd.Wait, cmd.Start()
	}
	opts.Log = b
	b.Sampler, b.source, b.reason = source.Open(t.Context(), opts)
	t.Cleanup(func() {
		b.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, cmd := range b.cmds {
			if cmd.Process != nil && syscall.Kill(cmd.Process.Pid, 0) == nil {
				t.Errorf("process %d (%s) is left", cmd.Process.Pid, cmd.Path)
			}
		}
	})
	return b
}

// Write takes a line of the log.
func (b *bench) Write(p []byte) (int, error) {
	var l map[string]json.RawMessage
	if err := json.Unmarshal(p, &l); err != nil || !bytes.HasSuffix(p, []byte("\n")) {
		panic(fmt.Sprintf("no line of JSON: %q: %v", p, err))
	}
	b.lines <- l
	return len(p), nil
}

// sample waits for n readings of a kind in the log.
func (b *bench) sample(t *testing.T, kind gpu.Kind, n int) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for n > 0 {
		select {
		case l := <-b.lines:
			var r gpu.Reading
			if l["reading"] != nil && json.Unmarshal(l["reading"], &r) == nil && r.Kind == kind {
				n--
			}
		case <-timeout:
			t.Fatalf("%d readings of the kind %s did not come", n, kind)
		}
	}
}

const fakeSMI = "testdata/nvidia-smi"

func f(v float64) *float64 { return &v }

func TestHelper(t *testing.T) {
	t.Parallel()
	b := need(t)
	s := with(t, source.Options{Helper: b.helper, Library: b.library})
	if s.source != gpu.NVML || s.reason != "" {
		t.Fatalf("source %s, reason %q", s.source, s.reason)
	}
	devices, err := s.Identify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Device{
		Index: 1, UUID: "GPU-bbbb", Name: "Fake H200", PCI: "00000000:3b:00.0", MemoryTotal: f(150e9), MemoryVersion: 2,
		Driver: "550.54.15", CUDADriver: "12.4", NVMLVersion: "12.550.54.15", VBIOS: "96.00", ECC: "enabled",
		Persistence: "enabled", ComputeMode: "exclusive_process", PowerLimit: f(650), PowerLimitDefault: f(700),
		SMClockMax: f(1980e6), MemoryClockMax: f(3201e6), Missing: gpu.Missing{"mig": "NOT_SUPPORTED"},
	}
	if len(devices) != 2 {
		t.Fatalf("%d devices", len(devices))
	}
	if d := cmp.Diff(want, devices[1]); d != "" {
		t.Errorf("second device (-want +got):\n%s", d)
	}
	processes, err := s.Processes(t.Context())
	if d := cmp.Diff([]gpu.Process{{PID: 4000001, UUID: "GPU-aaaa", Memory: f(1 << 30)}}, processes); d != "" || err != nil {
		t.Errorf("processes (-want +got):\n%s%v", d, err)
	}
	s.Select([]string{"GPU-bbbb"})
	before, err := s.Edge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := gpu.State{
		UUID: "GPU-bbbb", MemoryUsed: f(5e6), MemoryFree: f(149395e6), MemoryReserved: f(600e6), MemoryVersion: 2, Energy: f(500500),
		SMClock: f(1755e6), MemoryClock: f(3201e6), Power: f(321.5), PowerKind: "instant", Temperature: f(42),
		Reasons: []string{gpu.PowerCap}, Throttle: map[string]float64{gpu.PowerCap: 0.01, gpu.SyncBoost: 0, gpu.SWThermal: 0, gpu.HWThermal: 0},
		ECCCorrected: f(3), ECCUncorrected: f(0), Utilization: f(0.87), Latency: f(0.00025),
		Missing: gpu.Missing{"throttle_seconds." + gpu.PowerBrake: "NOT_SUPPORTED"},
	}
	if len(before.GPUs) != 1 || before.GPUs[0].Seconds <= 0 || before.Kind != gpu.Edge || before.Source != gpu.NVML {
		t.Fatalf("reading %+v", before)
	}
	before.GPUs[0].Seconds = 0
	if d := cmp.Diff(state, before.GPUs[0]); d != "" {
		t.Errorf("reading (-want +got):\n%s", d)
	}
	after, err := s.Edge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(before.Time), " m=") {
		t.Error("the time of a reading has lost its monotonic part")
	}
	after.Time = before.Time.Add(5 * time.Second)
	u := gpu.Delta(before, after, gpu.Seen{})
	if d := cmp.Diff(f(500), u.Energy); d != "" {
		t.Errorf("energy (-want +got):\n%s", d)
	}
	if got := u.GPUs[0].Throttle[gpu.PowerCap]; got < 0.0099 || got > 0.0101 {
		t.Errorf("%v s at the power limit", got)
	}
	if u.ThrottledFraction != nil || !strings.Contains(u.Missing["throttled_fraction"], "power_brake: NOT_SUPPORTED") {
		t.Errorf("throttled fraction %v although a reason is unknown: %q", u.ThrottledFraction, u.Missing["throttled_fraction"])
	}
	if len(s.Changes()) > 0 {
		t.Errorf("changes %v", s.Changes())
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	b := need(t)
	for _, tt := range []struct {
		name string
		opts source.Options
		pace gpu.Pace
		kind gpu.Kind
		want gpu.SeenGPU
	}{
		{
			"helper, timed",
			source.Options{Helper: b.helper, Library: b.library},
			gpu.Timed, gpu.Sample,
			gpu.SeenGPU{UUID: "GPU-bbbb", MemoryUsedMax: f(5e6), SMClockMin: f(1755e6), SMClockMedian: f(1755e6), SMClockMax: f(1755e6), PowerMedian: f(321.5), TemperatureMax: f(42), Reasons: []string{gpu.PowerCap}},
		},
		{"helper, untimed", source.Options{Helper: b.helper, Library: b.library}, gpu.Untimed, gpu.Memory, gpu.SeenGPU{UUID: "GPU-bbbb", MemoryUsedMax: f(5e6)}},
		{"nvidia-smi, untimed", source.Options{SMI: fakeSMI}, gpu.Untimed, gpu.Memory, gpu.SeenGPU{UUID: "GPU-bbbb", MemoryUsedMax: f(1 << 30)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := with(t, tt.opts)
			s.Select([]string{"GPU-bbbb"})
			w := s.Watch(t.Context(), tt.pace)
			second := s.Watch(t.Context(), tt.pace).Stop()
			if second.Reason == "" || second.Readings != 0 {
				t.Errorf("a second watch beside the first one: %+v", second)
			}
			s.sample(t, tt.kind, 2)
			if _, err := s.Edge(t.Context()); err != nil { // requests go on meanwhile
				t.Error(err)
			}
			seen := w.Stop()
			if seen.Source != s.source || seen.Reason != "" || seen.Readings < 2 {
				t.Errorf("seen %+v", seen)
			}
			if d := cmp.Diff([]gpu.SeenGPU{tt.want}, seen.GPUs); d != "" {
				t.Errorf("seen (-want +got):\n%s", d)
			}
			if again := s.Watch(t.Context(), tt.pace).Stop(); again.Readings == 0 && again.Reason != "shorter than the time between two readings" {
				t.Errorf("another watch after the first one: %+v", again)
			}
		})
	}
}

// TestWatchEndsWithContext also covers a helper that dies while it is watched.
func TestWatchEndsWithContext(t *testing.T) {
	t.Parallel()
	b := need(t)
	s := with(t, source.Options{Helper: b.helper, Library: b.library, SMI: fakeSMI})
	ctx, cancel := context.WithCancel(t.Context())
	w := s.Watch(ctx, gpu.Untimed)
	s.sample(t, gpu.Memory, 1)
	cancel()
	if seen := w.Stop(); seen.Reason != "" || seen.Readings == 0 {
		t.Errorf("seen %+v", seen)
	}
	w = s.Watch(t.Context(), gpu.Untimed)
	s.sample(t, gpu.Memory, 1)
	s.cmds[0].Process.Kill()
	seen := w.Stop()
	if !strings.Contains(seen.Reason, "the helper ended") || seen.Readings == 0 {
		t.Errorf("seen %+v", seen)
	}
	if r, err := s.Edge(t.Context()); err != nil || r.Source != gpu.SMI {
		t.Errorf("after the helper's death: %v %v", r.Source, err)
	}
	if u := gpu.Delta(gpu.Reading{}, gpu.Reading{GPUs: []gpu.State{{UUID: "GPU-aaaa"}}}, seen); u.MemoryPeak != nil {
		t.Error("a watch that was cut short still tells a peak")
	}
}

func TestDegrade(t *testing.T) {
	t.Parallel()
	b := need(t)
	const limit = 500 * time.Millisecond
	for _, tt := range []struct {
		mode   string
		reason string
	}{
		{"abort", "SIGABRT: abort"},
		{"hang", "read: no answer within 500ms"},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			s := with(t, source.Options{Helper: b.helper, Library: b.library, SMI: fakeSMI, Limit: limit}, "FAKE_NVML="+tt.mode)
			if s.source != gpu.NVML {
				t.Fatal(s.source, s.reason)
			}
			began := time.Now()
			r, err := s.Edge(t.Context())
			if took := time.Since(began); err != nil || r.Source != gpu.SMI || took > 5*time.Second {
				t.Fatalf("source %s after %v: %v", r.Source, took, err)
			}
			changes := s.Changes()
			if len(changes) != 1 || changes[0].From != gpu.NVML || changes[0].To != gpu.SMI || !strings.Contains(changes[0].Reason, tt.reason) {
				t.Errorf("changes %+v", changes)
			}
			if r, err := s.Edge(t.Context()); err != nil || r.Source != gpu.SMI {
				t.Errorf("the second reading: %v %v", r.Source, err)
			}
		})
	}
	t.Run("to none", func(t *testing.T) {
		t.Parallel()
		s := with(t, source.Options{Helper: b.helper, Library: b.library, SMI: fakeSMI, Limit: limit}, "FAKE_NVML=hang", "FAKE_SMI=fail")
		_, err := s.Edge(t.Context())
		if !errors.Is(err, source.ErrNone) || !strings.Contains(err.Error(), "couldn't communicate") || !strings.Contains(err.Error(), "no answer within") {
			t.Errorf("error %v", err)
		}
		if c := s.Changes(); len(c) != 1 || c[0].To != gpu.None {
			t.Errorf("changes %+v", c)
		}
		if seen := s.Watch(t.Context(), gpu.Timed).Stop(); seen.Source != gpu.None || !strings.Contains(seen.Reason, "no answer within") {
			t.Errorf("watch without a source: %+v", seen)
		}
	})
	t.Run("the caller's haste", func(t *testing.T) {
		t.Parallel()
		s := with(t, source.Options{Helper: b.helper, Library: b.library}, "FAKE_NVML=hang")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := s.Edge(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if c := s.Changes(); len(c) > 0 {
			t.Errorf("changes %+v", c)
		}
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	b := need(t)
	for _, tt := range []struct {
		name   string
		opts   source.Options
		env    []string
		source gpu.Source
		reason []string
	}{
		{"no such function", source.Options{Helper: b.helper, Library: b.noInit, SMI: fakeSMI}, nil, gpu.SMI, []string{"exit status 127", "undefined symbol: nvmlInit"}},
		{"bound at once", source.Options{Helper: b.helper, Library: b.library, SMI: fakeSMI}, []string{"LD_BIND_NOW=1"}, gpu.SMI, []string{"exit status 127", "undefined symbol"}},
		{"no library", source.Options{Helper: b.helper, Library: filepath.Join(b.dir, "absent.so"), SMI: "/no/such/nvidia-smi"}, nil, gpu.None, []string{"nvml: NVML: LIBRARY_NOT_FOUND", "nvidia-smi: ", "no such file"}},
		{"no library here", source.Options{Helper: b.helper, SMI: "/no/such/nvidia-smi"}, nil, gpu.None, []string{"nvml: NVML: LIBRARY_NOT_FOUND"}},
		{"no helper", source.Options{SMI: fakeSMI}, nil, gpu.SMI, []string{"there is no helper"}},
		{"a helper that is another program", source.Options{Helper: "/bin/true", SMI: fakeSMI}, nil, gpu.SMI, []string{"the helper ended"}},
		{"a helper that talks nonsense", source.Options{Helper: "/bin/cat", SMI: fakeSMI, StartLimit: 200 * time.Millisecond}, nil, gpu.SMI, []string{"nvml: "}},
		{"nothing", source.Options{SMI: "/no/such/nvidia-smi"}, nil, gpu.None, []string{"there is no helper", "no such file"}},
		{"nvidia-smi hangs", source.Options{SMI: fakeSMI, StartLimit: 300 * time.Millisecond}, []string{"FAKE_SMI=hang"}, gpu.None, []string{"no answer within 300ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name == "no library here" {
				if _, err := os.Stat("/dev/nvidiactl"); err == nil {
					t.Skip("this machine has a driver")
				}
			}
			began := time.Now()
			s := with(t, tt.opts, tt.env...)
			took := time.Since(began)
			if s.source != tt.source {
				t.Errorf("source %s (%s)", s.source, s.reason)
			}
			for _, want := range tt.reason {
				if !strings.Contains(s.reason, want) {
					t.Errorf("the reason %q lacks %q", s.reason, want)
				}
			}
			t.Logf("%v: %s", took.Round(time.Millisecond), s.reason)
			if tt.source == gpu.None {
				if took > 4*time.Second {
					t.Errorf("took %v to find nothing", took)
				}
				if _, err := s.Identify(t.Context()); !errors.Is(err, source.ErrNone) {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

// TestHostileEnvironment starts the helper from a process whose environment would kill it.
func TestHostileEnvironment(t *testing.T) {
	b := need(t)
	t.Setenv("LD_BIND_NOW", "1")
	t.Setenv("LD_PRELOAD", "/no/such/preload.so")
	s := with(t, source.Options{Helper: b.helper, Library: b.library, SMI: "/no/such/nvidia-smi"})
	if s.source != gpu.NVML {
		t.Fatalf("source %s: %s", s.source, s.reason)
	}
}

func TestOldDriver(t *testing.T) {
	t.Parallel()
	b := need(t)
	s := with(t, source.Options{Helper: b.helper, Library: b.old})
	r, err := s.Edge(t.Context())
	if err != nil || r.Source != gpu.NVML || len(s.Changes()) > 0 {
		t.Fatalf("source %s: %v", r.Source, err)
	}
	g := r.GPUs[0]
	const absent = "FUNCTION_NOT_FOUND"
	want := gpu.State{
		UUID: "GPU-aaaa", MemoryUsed: f(900e6), MemoryFree: f(149100e6), MemoryVersion: 1, SMClock: f(1755e6), MemoryClock: f(3201e6),
		Power: f(333), PowerKind: "usage", Temperature: f(41), Reasons: []string{"idle"},
		ECCCorrected: f(3), ECCUncorrected: f(0), Utilization: f(0.87), Seconds: g.Seconds,
		Missing: gpu.Missing{"energy_joules": absent, "memory_reserved_bytes": absent},
	}
	for _, reason := range gpu.ThrottleReasons() {
		want.Missing["throttle_seconds."+reason] = absent
	}
	if d := cmp.Diff(want, g); d != "" {
		t.Errorf("reading (-want +got):\n%s", d)
	}
}

func TestReturnCodes(t *testing.T) {
	t.Parallel()
	b := need(t)
	for code, name := range map[string]string{"3": "NOT_SUPPORTED", "4": "NO_PERMISSION", "15": "GPU_IS_LOST", "999": "UNKNOWN", "77": "code 77"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := with(t, source.Options{Helper: b.helper, Library: b.library}, "FAKE_NVML="+code)
			r, err := s.Edge(t.Context())
			if err != nil || r.Source != gpu.NVML {
				t.Fatalf("source %s: %v", r.Source, err)
			}
			want := gpu.State{UUID: "GPU-bbbb", Missing: gpu.Missing{}, Seconds: r.GPUs[1].Seconds}
			for _, field := range strings.Fields("memory_used_bytes sm_clock_hertz memory_clock_hertz energy_joules temperature_celsius power_watts clock_reasons ecc_corrected ecc_uncorrected utilization") {
				want.Missing[field] = name
			}
			for _, reason := range gpu.ThrottleReasons() {
				want.Missing["throttle_seconds."+reason] = name
			}
			if len(r.GPUs[1].Throttle) == 0 {
				r.GPUs[1].Throttle = nil
			}
			if d := cmp.Diff(want, r.GPUs[1]); d != "" {
				t.Errorf("reading (-want +got):\n%s", d)
			}
			if _, err := s.Processes(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("processes: %v", err)
			}
			if len(s.Changes()) > 0 {
				t.Errorf("changes %+v", s.Changes())
			}
		})
	}
}

func TestOddLibraries(t *testing.T) {
	t.Parallel()
	b := need(t)
	for _, mode := range []string{"backwards", "slow", "noisy"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := with(t, source.Options{Helper: b.helper, Library: b.library}, "FAKE_NVML="+mode)
			before, err1 := s.Edge(t.Context())
			after, err2 := s.Edge(t.Context())
			if err := errors.Join(err1, err2); err != nil || len(s.Changes()) > 0 {
				t.Fatal(err, s.Changes())
			}
			if mode == "slow" && (after.Seconds < 0.1 || after.GPUs[1].Seconds < 0.05) {
				t.Errorf("a slow reading says that it took %v s and %v s", after.Seconds, after.GPUs[1].Seconds)
			}
			after.Time = before.Time.Add(5 * time.Second)
			u := gpu.Delta(before, after, gpu.Seen{})
			if why := u.GPUs[0].Missing["energy_joules"]; (mode == "backwards") != (u.Energy == nil) || mode == "backwards" && why != "the counter went backwards" {
				t.Errorf("energy %v, missing %q", u.Energy, why)
			}
		})
	}
}

// TestSignals sends the helper what a scheduler sends to a whole job. It ends with its input alone.
func TestSignals(t *testing.T) {
	t.Parallel()
	b := need(t)
	s := with(t, source.Options{Helper: b.helper, Library: b.library})
	helper := s.cmds[0].Process
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR2, syscall.SIGHUP} {
		if err := helper.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := s.Edge(t.Context()); err != nil || r.Source != gpu.NVML {
		t.Errorf("source %s: %v", r.Source, err)
	}
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v to end a helper that is well", took)
	}
	if _, err := s.Edge(t.Context()); !errors.Is(err, source.ErrNone) {
		t.Errorf("after Close: %v", err)
	}
}
