// Package gpu says what readings of GPUs are and what they mean: who the devices are, what happened to them between two
// readings, whether they are clean before a start, and which of them are a job's. Use it to judge readings, wherever
// they were taken; worker/gpu/source takes them. A value that could not be read is nil with its reason beside it,
// never 0.
//
// GPUs are known by UUID alone. The index of NVML, that of CUDA and that of a scheduler may all differ.
package gpu

import (
	"slices"
	"time"
)

// Source says where readings come from.
type Source string

// The sources, from the best to none.
const (
	NVML Source = "nvml"       // the helper cpbench-nvml
	SMI  Source = "nvidia-smi" // one short process for each reading
	None Source = "none"
)

// Device is what does not change about a GPU, or about an instance of one that is divided by MIG. Empty and nil
// fields are unknown; Missing has the reason under the field's name in JSON. A GPU that is there but cannot be opened,
// as one of another job, has no UUID.
type Device struct {
	Index             int      `json:"index"` // of the source; of no meaning elsewhere
	UUID              string   `json:"uuid"`
	Parent            string   `json:"parent,omitempty"` // UUID of the GPU of which this is a MIG instance
	Name              string   `json:"name,omitempty"`
	PCI               string   `json:"pci,omitempty"` // bus id as domain:bus:device.function
	MemoryTotal       *float64 `json:"memory_total_bytes,omitempty"`
	MemoryVersion     int      `json:"memory_version,omitempty"` // of the NVML call: 1 counts what the driver reserves as used, 2 does not
	Driver            string   `json:"driver,omitempty"`
	CUDADriver        string   `json:"cuda_driver,omitempty"`
	NVMLVersion       string   `json:"nvml,omitempty"`
	VBIOS             string   `json:"vbios,omitempty"`
	MIG               string   `json:"mig,omitempty"`          // enabled or disabled
	ECC               string   `json:"ecc,omitempty"`          // enabled or disabled
	Persistence       string   `json:"persistence,omitempty"`  // enabled or disabled
	ComputeMode       string   `json:"compute_mode,omitempty"` // default, exclusive_process, exclusive_thread or prohibited
	PowerLimit        *float64 `json:"power_limit_watts,omitempty"`
	PowerLimitDefault *float64 `json:"power_limit_default_watts,omitempty"`
	SMClockMax        *float64 `json:"sm_clock_max_hertz,omitempty"`
	MemoryClockMax    *float64 `json:"memory_clock_max_hertz,omitempty"`
	Missing           Missing  `json:"missing,omitempty"`
}

// Missing tells for each field that could not be read why not, by the field's name in JSON. The reason is a return
// code of NVML such as NOT_SUPPORTED, or a short text.
type Missing map[string]string

// Process is a process that computes on a GPU. Inside a container the id may be the host's.
type Process struct {
	PID    int      `json:"pid"`
	UUID   string   `json:"uuid"` // of the GPU
	Name   string   `json:"name,omitempty"`
	Memory *float64 `json:"memory_bytes,omitempty"` // unreliable in containers; for people only
}

// Kind says how much was asked for in a reading.
type Kind string

// The kinds of readings.
const (
	Edge   Kind = "edge"   // everything, with the counters: before and after a point
	Sample Kind = "sample" // memory, clocks, reasons, temperature, power: the background of a timed point
	Memory Kind = "memory" // memory alone: the background of a trial that is not timed
)

// Reading is one look at every GPU.
type Reading struct {
	Time    time.Time `json:"time"` // the middle of the request
	Source  Source    `json:"source"`
	Kind    Kind      `json:"kind"`
	Seconds float64   `json:"seconds"` // how long the request took
	GPUs    []State   `json:"gpus"`
}

// State is what a reading saw of one GPU. Fields that the kind of the reading did not ask for are nil without a
// reason. Counters run since the driver was loaded; only differences of them mean something.
type State struct {
	UUID           string   `json:"uuid"`
	MemoryUsed     *float64 `json:"memory_used_bytes,omitempty"`
	MemoryFree     *float64 `json:"memory_free_bytes,omitempty"`
	MemoryReserved *float64 `json:"memory_reserved_bytes,omitempty"` // by the driver; nil with version 1
	MemoryVersion  int      `json:"memory_version,omitempty"`
	Energy         *float64 `json:"energy_joules,omitempty"` // counter
	SMClock        *float64 `json:"sm_clock_hertz,omitempty"`
	MemoryClock    *float64 `json:"memory_clock_hertz,omitempty"`
	Power          *float64 `json:"power_watts,omitempty"`
	PowerKind      string   `json:"power_kind,omitempty"` // instant, average_1s or usage, whose window depends on the GPU
	Temperature    *float64 `json:"temperature_celsius,omitempty"`
	// Reasons are why the clocks are what they are now; nil is unknown, empty is none.
	Reasons []string `json:"clock_reasons"`
	// Throttle is the counter of seconds spent with lowered clocks, by reason; a reason that is not there is unknown.
	Throttle       map[string]float64 `json:"throttle_seconds,omitempty"`
	ECCCorrected   *float64           `json:"ecc_corrected,omitempty"`   // counter, since the last reset
	ECCUncorrected *float64           `json:"ecc_uncorrected,omitempty"` // counter, since the last reset
	Utilization    *float64           `json:"utilization,omitempty"`     // share of time in which any kernel ran, 0 to 1; says nothing about how well
	Seconds        float64            `json:"seconds,omitempty"`         // how long this GPU's reading took
	Latency        *float64           `json:"latency_seconds,omitempty"` // the driver's own, of its slowest counter
	Missing        Missing            `json:"missing,omitempty"`
}

// The reasons for lowered clocks that have a counter.
const (
	PowerCap   = "sw_power_cap" // the power limit: normal under load
	SyncBoost  = "sync_boost"
	SWThermal  = "sw_thermal"
	HWThermal  = "hw_thermal"
	PowerBrake = "power_brake"
)

// hwSlowdown stands for HWThermal or PowerBrake, and has no counter.
const hwSlowdown = "hw_slowdown"

// ThrottleReasons lists the reasons that have a counter.
func ThrottleReasons() []string {
	return []string{PowerCap, SyncBoost, SWThermal, HWThermal, PowerBrake}
}

// clockReasons are the bits of NVML's clocks event reasons.
var clockReasons = []struct {
	bit  uint64
	name string
}{
	{0x1, "idle"},
	{0x2, "application_clocks"},
	{0x4, PowerCap},
	{0x8, hwSlowdown},
	{0x10, SyncBoost},
	{0x20, SWThermal},
	{0x40, HWThermal},
	{0x80, PowerBrake},
	{0x100, "display_clocks"},
	{0x200, "board_limit"},
	{0x400, "reliability"},
}

// ReasonNames translates NVML's bits of clock reasons. Bits of a newer driver are named "other".
func ReasonNames(bits uint64) []string {
	names := []string{}
	for _, r := range clockReasons {
		if bits&r.bit != 0 {
			names = append(names, r.name)
			bits &^= r.bit
		}
	}
	if bits != 0 {
		names = append(names, "other")
	}
	return names
}

// state finds the GPU with the given UUID.
func (r Reading) state(uuid string) *State {
	if i := slices.IndexFunc(r.GPUs, func(s State) bool { return s.UUID == uuid }); i >= 0 {
		return &r.GPUs[i]
	}
	return nil
}
