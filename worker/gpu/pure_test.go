package gpu

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ptr(v float64) *float64 { return &v }

func throttled(seconds ...float64) map[string]float64 {
	m := map[string]float64{}
	for i, s := range seconds {
		m[ThrottleReasons()[i]] = s
	}
	return m
}

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// edge is a reading after so many seconds.
func edge(seconds float64, gpus ...State) Reading {
	return Reading{Time: zero.Add(time.Duration(seconds * float64(time.Second))), Source: NVML, Kind: Edge, GPUs: gpus}
}

func TestDelta(t *testing.T) {
	t.Parallel()
	before := edge(0,
		State{UUID: "a", Energy: ptr(100), Throttle: throttled(1, 2, 3, 4, 5), MemoryUsed: ptr(7), Temperature: ptr(50), ECCUncorrected: ptr(1)},
		State{UUID: "b", Energy: ptr(900), Throttle: throttled(0, 0, 0, 0, 0), MemoryUsed: ptr(8), Temperature: ptr(40), ECCUncorrected: ptr(0)})
	after := edge(10,
		State{UUID: "a", Energy: ptr(3100), Throttle: throttled(3, 2, 3, 4, 5.5), MemoryUsed: ptr(70), Temperature: ptr(60), ECCUncorrected: ptr(3)},
		State{UUID: "b", Energy: ptr(1900), Throttle: throttled(0, 0, 0, 0, 0), MemoryUsed: ptr(80), Temperature: ptr(45), ECCUncorrected: ptr(0)})
	seen := Seen{Source: NVML, Readings: 3, GPUs: []SeenGPU{
		{UUID: "a", MemoryUsedMax: ptr(75), SMClockMin: ptr(1), SMClockMedian: ptr(2), SMClockMax: ptr(3), PowerMedian: ptr(300), TemperatureMax: ptr(61)},
		{UUID: "b", MemoryUsedMax: ptr(60), SMClockMin: ptr(4), SMClockMedian: ptr(5), SMClockMax: ptr(6), PowerMedian: ptr(100), TemperatureMax: ptr(44)},
	}}
	got := Delta(before, after, seen)
	want := Usage{
		Seconds: 10, Energy: ptr(4000), PowerMedian: ptr(400), ThrottledFraction: ptr(0.25), SMClockMedian: ptr(2),
		MemoryPeak: ptr(80), TemperatureMax: ptr(61), Missing: Missing{},
		GPUs: []DeviceUsage{
			{
				UUID: "a", Energy: ptr(3000), PowerMean: ptr(300), Throttle: throttled(2, 0, 0, 0, 0.5), ThrottledFraction: ptr(0.25), SMClockMin: ptr(1),
				SMClockMedian: ptr(2), SMClockMax: ptr(3), PowerMedian: ptr(300), MemoryPeak: ptr(75), TemperatureMax: ptr(61), ECCUncorrected: ptr(2), Missing: Missing{},
			},
			{
				UUID: "b", Energy: ptr(1000), PowerMean: ptr(100), Throttle: throttled(0, 0, 0, 0, 0), ThrottledFraction: ptr(0), SMClockMin: ptr(4),
				SMClockMedian: ptr(5), SMClockMax: ptr(6), PowerMedian: ptr(100), MemoryPeak: ptr(80), TemperatureMax: ptr(45), ECCUncorrected: ptr(0), Missing: Missing{},
			},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("usage (-want +got):\n%s", d)
	}
	var kinds []DoubtKind
	for _, d := range got.Doubts() {
		kinds = append(kinds, d.Kind)
		if !strings.HasPrefix(d.Text, "a: ") {
			t.Errorf("doubt %q", d.Text)
		}
	}
	if d := cmp.Diff([]DoubtKind{PowerCapped, Throttled, ECCErrors}, kinds); d != "" {
		t.Errorf("doubts (-want +got):\n%s", d)
	}
	seen.Reason = "the helper ended"
	cut := Delta(before, after, seen)
	for name, v := range map[string]*float64{"sm_clock_median_hertz": cut.SMClockMedian, "power_median_watts": cut.PowerMedian, "memory_used_peak_bytes": cut.MemoryPeak} {
		if v != nil || cut.Missing[name] != "a: the helper ended" {
			t.Errorf("after a watch that was cut short %s is %v, missing %q", name, v, cut.Missing[name])
		}
	}
}

// Where no counter tells for how long clocks were lowered, as with nvidia-smi, what was seen is a doubt; by the power limit
// it is normal. What a counter denies is none.
func TestReasonsThatWereSeen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		throttle map[string]float64 // counters at both ends
		seen     []string
		want     string
	}{
		"heat without a counter":     {nil, []string{"idle", PowerCap, HWThermal}, "a: clocks were seen lowered (hw_thermal)"},
		"hardware without a counter": {nil, []string{hwSlowdown}, "a: clocks were seen lowered (hw_slowdown)"},
		"one counter of two":         {throttled(0, 0, 0, 0), []string{hwSlowdown}, "a: clocks were seen lowered (hw_slowdown)"},
		"counted":                    {throttled(0, 0, 0, 0, 0), []string{HWThermal, hwSlowdown}, ""},
		"the power limit":            {nil, []string{PowerCap, SyncBoost}, ""},
		"nothing":                    {nil, nil, ""},
	} {
		g := State{UUID: "a", Throttle: tt.throttle}
		u := Sum(Delta(edge(0, g), edge(9, g), Seen{Readings: 1, GPUs: []SeenGPU{{UUID: "a", Reasons: tt.seen}}}), Delta(edge(0, g), edge(9, g), Seen{}))
		var got []string
		for _, d := range u.Doubts() {
			got = append(got, d.Text)
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s: %q, want %q", name, text, tt.want)
		}
	}
}

func TestDeltaThatIsMissing(t *testing.T) {
	t.Parallel()
	good := State{UUID: "a", Energy: ptr(100), Throttle: throttled(1, 1, 1, 1, 1), MemoryUsed: ptr(1), Temperature: ptr(1)}
	later := State{UUID: "a", Energy: ptr(200), Throttle: throttled(1, 1, 1, 1, 1), MemoryUsed: ptr(1), Temperature: ptr(1)}
	with := func(s State, change func(*State)) State { change(&s); return s }
	tests := []struct {
		name          string
		before, after Reading
		field, why    string
	}{
		{"energy backwards", edge(0, later), edge(9, good), "energy_joules", "the counter went backwards"},
		{"energy still", edge(0, good), edge(9, good), "energy_joules", "the counter did not move"},
		{"short", edge(0, good), edge(1.5, later), "energy_joules", "1.5 s are too short"},
		{"no time", edge(0, good), edge(0, later), "throttled_fraction", "no time between"},
		{"throttle backwards", edge(0, good), edge(9, with(later, func(s *State) { s.Throttle = throttled(1, 1, 0.5, 1, 1) })), "throttled_fraction", "sw_thermal: the counter went backwards"},
		{"one reason unknown", edge(0, good), edge(9, with(later, func(s *State) {
			s.Throttle, s.Missing = throttled(1, 1, 1, 1), Missing{"throttle_seconds.power_brake": "NOT_SUPPORTED"}
		})), "throttled_fraction", "power_brake: NOT_SUPPORTED"},
		{"another source", edge(0, good), Reading{Time: zero.Add(time.Minute), Source: SMI, GPUs: []State{later}}, "energy_joules", "the source changed from nvml to nvidia-smi"},
		{"GPU came", edge(0), edge(9, later), "energy_joules", "not in the first reading"},
		{"GPU went", edge(0, good), edge(9), "energy_joules", "not in the last reading"},
		{"not watched", edge(0, good), edge(9, later), "sm_clock_median_hertz", "not watched"},
		{"peak not watched", edge(0, good), edge(9, later), "memory_used_peak_bytes", "not watched"},
		{"no GPU", edge(0), edge(9), "energy_joules", "no GPU"},
		{"one of two", edge(0, good, State{UUID: "b"}), edge(9, later, State{UUID: "b", Missing: Missing{"energy_joules": "GPU_IS_LOST"}}), "energy_joules", "b: GPU_IS_LOST"},
		{"an instance of MIG", edge(0, State{UUID: "MIG-1", Missing: Missing{"other": "whole GPU only"}}), edge(9, State{UUID: "MIG-1"}), "throttled_fraction", "whole GPU only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := Delta(tt.before, tt.after, Seen{})
			if !strings.Contains(u.Missing[tt.field], tt.why) {
				t.Errorf("%s is missing because of %q", tt.field, u.Missing[tt.field])
			}
			value := map[string]*float64{
				"energy_joules": u.Energy, "throttled_fraction": u.ThrottledFraction, "sm_clock_median_hertz": u.SMClockMedian, "memory_used_peak_bytes": u.MemoryPeak,
			}[tt.field]
			if value != nil {
				t.Errorf("%s is %v", tt.field, *value)
			}
		})
	}
}

// TestDeltaProperty holds that every figure is a quantity or has a reason, and that JSON takes it.
func TestDeltaProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Custom(func(t *rapid.T) *float64 {
			if rapid.Bool().Draw(t, "nil") {
				return nil
			}
			return ptr(rapid.Float64Range(0, 1e15).Draw(t, "value"))
		})
		reading := rapid.Custom(func(t *rapid.T) Reading {
			r := edge(rapid.Float64Range(-1, 1e6).Draw(t, "time"))
			for _, uuid := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "gpus") {
				s := State{UUID: uuid, Energy: number.Draw(t, "energy"), MemoryUsed: number.Draw(t, "used"), Throttle: map[string]float64{}}
				for _, reason := range ThrottleReasons() {
					if v := number.Draw(t, reason); v != nil {
						s.Throttle[reason] = *v
					}
				}
				r.GPUs = append(r.GPUs, s)
			}
			return r
		})
		u := Delta(reading.Draw(t, "before"), reading.Draw(t, "after"), Seen{})
		for _, g := range u.GPUs {
			for name, v := range map[string]*float64{"energy_joules": g.Energy, "throttled_fraction": g.ThrottledFraction, "power_mean_watts": g.PowerMean} {
				if (v == nil) != (g.Missing[name] != "") || v != nil && *v < 0 {
					t.Fatalf("%s: %v, %q", name, v, g.Missing[name])
				}
			}
		}
		if _, err := json.Marshal(u); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSeries(t *testing.T) {
	t.Parallel()
	var s Series
	if got := s.GPUs(); got != nil || s.Readings() != 0 {
		t.Errorf("seen of nothing: %v", got)
	}
	for i, clock := range []float64{1500, 1980, 1200, 1700} {
		s.Add(Reading{GPUs: []State{
			{UUID: "b", SMClock: ptr(clock), MemoryUsed: ptr(float64(10 - i)), Reasons: []string{"idle"}},
			{UUID: "a", Power: ptr(float64(i))},
		}})
	}
	want := []SeenGPU{
		{UUID: "a", PowerMedian: ptr(1.5)},
		{UUID: "b", SMClockMin: ptr(1200), SMClockMedian: ptr(1600), SMClockMax: ptr(1980), MemoryUsedMax: ptr(10), Reasons: []string{"idle"}},
	}
	if d := cmp.Diff(want, s.GPUs()); d != "" || s.Readings() != 4 {
		t.Errorf("seen in %d readings (-want +got):\n%s", s.Readings(), d)
	}
}

func TestReasonNames(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64][]string{
		0: {}, 0x1: {"idle"}, 0x4 | 0x40: {PowerCap, HWThermal}, 0x8 | 0x80: {"hw_slowdown", PowerBrake}, 1 << 40: {"other"}, 0x20 | 1<<12: {SWThermal, "other"},
	} {
		if d := cmp.Diff(want, ReasonNames(bits)); d != "" {
			t.Errorf("%#x (-want +got):\n%s", bits, d)
		}
	}
}
