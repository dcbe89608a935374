package gpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// run is what happened to one GPU in a run of some seconds.
func run(seconds float64, g DeviceUsage) Usage {
	g.UUID, g.Missing = "a", Missing{}
	u := Usage{Seconds: seconds, GPUs: []DeviceUsage{g}, Missing: Missing{}}
	u.total()
	return u
}

func TestSum(t *testing.T) {
	t.Parallel()
	first := run(10, DeviceUsage{
		Energy: ptr(1000), Throttle: throttled(1, 0, 0, 0, 0), ThrottledFraction: ptr(0.1), SMClockMin: ptr(5), SMClockMedian: ptr(6), SMClockMax: ptr(7),
		PowerMedian: ptr(100), PowerMean: ptr(100), MemoryPeak: ptr(50), TemperatureMax: ptr(60), ECCUncorrected: ptr(0),
	})
	second := run(30, DeviceUsage{
		Energy: ptr(5000), Throttle: throttled(0, 0, 3, 0, 0), ThrottledFraction: ptr(0.1), SMClockMin: ptr(4), SMClockMedian: ptr(8), SMClockMax: ptr(9),
		PowerMedian: ptr(200), PowerMean: ptr(166), MemoryPeak: ptr(40), TemperatureMax: ptr(70), ECCUncorrected: ptr(2),
	})
	want := run(40, DeviceUsage{
		Energy: ptr(6000), Throttle: throttled(1, 0, 3, 0, 0), ThrottledFraction: ptr(0.1), SMClockMin: ptr(4), SMClockMedian: ptr(7), SMClockMax: ptr(9),
		PowerMedian: ptr(150), PowerMean: ptr(150), MemoryPeak: ptr(50), TemperatureMax: ptr(70), ECCUncorrected: ptr(2),
	})
	if d := cmp.Diff(want, Sum(first, second)); d != "" {
		t.Errorf("sum (-want +got):\n%s", d)
	}
	if d := cmp.Diff(first, Sum(first)); d != "" {
		t.Errorf("sum of one (-want +got):\n%s", d)
	}
}

// What one run lacks all lack, with its reason.
func TestSumThatIsMissing(t *testing.T) {
	t.Parallel()
	good := run(10, DeviceUsage{Energy: ptr(1000), TemperatureMax: ptr(60)})
	short := run(1, DeviceUsage{TemperatureMax: ptr(50)})
	short.GPUs[0].Missing["energy_joules"] = "too short"
	u := Sum(good, short)
	if u.Energy != nil || u.Missing["energy_joules"] != "a: too short" || u.TemperatureMax == nil || *u.TemperatureMax != 60 {
		t.Errorf("%+v", u)
	}
	other := run(10, DeviceUsage{Energy: ptr(1)})
	other.GPUs[0].UUID = "b" // not in the first run
	if u := Sum(good, other); u.Energy != nil || u.Missing["energy_joules"] != "a: not read in every run" {
		t.Errorf("%+v", u)
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	first := run(10, DeviceUsage{Energy: ptr(1000), PowerMedian: ptr(100), ThrottledFraction: ptr(0.1), SMClockMedian: ptr(6), MemoryPeak: ptr(50), TemperatureMax: ptr(60)})
	second := run(11, DeviceUsage{Energy: ptr(500), PowerMedian: ptr(50), ThrottledFraction: ptr(0.3), SMClockMedian: ptr(4), MemoryPeak: ptr(90), TemperatureMax: ptr(40)})
	second.GPUs[0].UUID = "b"
	u := Join(first, second)
	got := []*float64{&u.Seconds, u.Energy, u.PowerMedian, u.ThrottledFraction, u.SMClockMedian, u.MemoryPeak, u.TemperatureMax}
	if d := cmp.Diff([]*float64{ptr(11), ptr(1500), ptr(150), ptr(0.3), ptr(4), ptr(90), ptr(60)}, got); d != "" || len(u.GPUs) != 2 || len(u.Missing) > 0 {
		t.Errorf("joined (-want +got):\n%s %+v", d, u.Missing)
	}
	second.GPUs[0].Energy = nil
	if u := Join(first, second); u.Energy != nil || u.Missing["energy_joules"] == "" || u.PowerMedian == nil {
		t.Errorf("without the energy of one: %+v", u)
	}
}
