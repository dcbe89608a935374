package catalogue

import "slices"

// Better says in which direction a metric improves.
type Better string

// The directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
	Either Better = ""
)

// Metric describes one measured figure. Names are what[_stat]_unit in base units; tables scale them.
type Metric struct {
	Name   string // for example step_seconds
	Unit   string // base unit: seconds, bytes, joules, 1
	Better Better
	Title  string  // column title in a table, with the scaled unit
	Scale  float64 // divide the base value by this for the table
	Help   string
}

// The metrics of the model workload.
const (
	StepSeconds        = "step_seconds"
	FirstStepSeconds   = "first_step_seconds"
	DeviceStepSeconds  = "device_step_seconds"
	LaunchSeconds      = "launch_seconds"
	PrepareSeconds     = "prepare_seconds"
	PeakAllocatedBytes = "peak_allocated_bytes"
	PeakReservedBytes  = "peak_reserved_bytes"
	PeakDeviceBytes    = "peak_device_bytes"
	WarmAllocatedBytes = "warm_allocated_bytes"
	RankImbalance      = "rank_imbalance"
	EnergyJoules       = "energy_joules"
	PowerMedianWatts   = "power_median_watts"
	ThrottledFraction  = "throttled_fraction"
	SMClockMedianHertz = "sm_clock_median_hertz"
	TemperatureMax     = "gpu_temperature_max_celsius"
)

const (
	gib   = 1 << 30
	milli = 1e-3
)

// Metrics lists every metric of the catalogue in the order of the documentation.
func Metrics() []Metric {
	all := StepMetrics()
	for _, m := range ServingMetrics() {
		if !slices.Contains(all, m) { // those of GPUs have their place among the steps
			all = append(all, m)
		}
	}
	return all
}

// The metrics of GPUs, which both lists have.
var (
	gpuMemory = Metric{PeakDeviceBytes, "bytes", Lower, "device used (GiB)", gib, "largest memory in use on the whole device, maximum over ranks; where they do not tell it, as read from the GPUs, less what was in use before"}
	gpuEnergy = Metric{
		EnergyJoules, "joules", Lower, "energy (J)", 1,
		"energy of the point's GPUs over the timed steps, or over a group of requests, from the driver's counter; sum over GPUs. Of GPUs that are named in workload.telemetry alone, the integral of their power readings over the group",
	}
	gpuState = []Metric{
		{PowerMedianWatts, "watts", Lower, "power (W)", 1, "power of the point's GPUs during the timed steps, or a group of requests; sum over the GPUs' medians"},
		{ThrottledFraction, "1", Lower, "throttled", 1, "share of that time for which a GPU was slowed down, all reasons together; worst GPU"},
		{SMClockMedianHertz, "hertz", Higher, "SM clock (MHz)", 1e6, "SM clock during that time; median over readings, slowest GPU"},
		{TemperatureMax, "celsius", Lower, "GPU temperature (C)", 1, "highest temperature that was read during that time, over the GPUs"},
	}
)

// StepMetrics lists the metrics of what runs in steps: the model and the command workload.
func StepMetrics() []Metric {
	return append([]Metric{
		{StepSeconds, "seconds", Lower, "walltime (ms)", milli, "time of one step: the slowest rank of each iteration, then the median over the iterations"},
		{FirstStepSeconds, "seconds", Lower, "first step (ms)", milli, "time of the very first step, which carries compilation and allocator growth; slowest rank"},
		{DeviceStepSeconds, "seconds", Lower, "device time (ms)", milli, "time of one step on the device's own clock, where the ranks report it; slowest rank, median over iterations"},
		{LaunchSeconds, "seconds", Lower, "launch (s)", 1, "from the start of the first process until every rank was ready"},
		{PrepareSeconds, "seconds", Lower, "prepare (s)", 1, "time to build the first batch; slowest rank"},
		{PeakAllocatedBytes, "bytes", Lower, "peak_mem (GiB)", gib, "largest memory in live tensors from the start of the process to the end of the cold steps; maximum over ranks"},
		{PeakReservedBytes, "bytes", Lower, "reserved (GiB)", gib, "largest memory taken from the driver by the allocator; maximum over ranks"},
		gpuMemory,
		{WarmAllocatedBytes, "bytes", Lower, "warm peak (GiB)", gib, "largest memory in live tensors during the timed steps; maximum over ranks"},
		{RankImbalance, "1", Lower, "imbalance", 1, "slowest rank over fastest rank, minus 1; median over iterations"},
		gpuEnergy,
	}, gpuState...)
}

// MetricByName returns the catalogue's entry for name.
func MetricByName(name string) (Metric, bool) {
	m, ok := metricIndex[name]
	return m, ok
}

var metricIndex = func() map[string]Metric {
	index := map[string]Metric{}
	for _, m := range Metrics() {
		index[m.Name] = m
	}
	return index
}()
