//go:build cgo

package main

import (
	"encoding/binary"
	"math"
	"time"

	"cpbench/worker/gpu"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// throttle are the fields of GetFieldValues that count nanoseconds with lowered clocks.
var throttle = map[uint32]string{
	nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP:            gpu.PowerCap,
	nvml.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST:              gpu.SyncBoost,
	nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN:       gpu.SWThermal,
	nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN:       gpu.HWThermal,
	nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN: gpu.PowerBrake,
}

// read looks at every device.
func (g *gpus) read(kind gpu.Kind) (gpu.Reading, error) {
	if g.err != nil {
		return gpu.Reading{}, g.err
	}
	start := time.Now()
	r := gpu.Reading{Source: gpu.NVML, Kind: kind, Time: start.UTC()} // UTC has no monotonic part
	for _, h := range g.handles {
		if h.dev == nil {
			continue
		}
		began := time.Now()
		s := gpu.State{UUID: h.uuid, Missing: gpu.Missing{}}
		g.state(h, kind, &s)
		s.Seconds = time.Since(began).Seconds()
		r.GPUs = append(r.GPUs, s)
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// state fills in what the kind of reading asks for.
func (g *gpus) state(h handle, kind gpu.Kind, s *gpu.State) {
	dev, m := h.dev, s.Missing
	memory := g.memory(dev, m, "memory_used_bytes")
	s.MemoryUsed, s.MemoryFree, s.MemoryReserved, s.MemoryVersion = memory.used, memory.free, memory.reserved, memory.version
	if kind == gpu.Memory {
		return
	}
	if h.parent != "" {
		m["other"] = wholeOnly
		return
	}
	clock := func(of nvml.ClockType) func() (uint32, nvml.Return) {
		return func() (uint32, nvml.Return) { return dev.GetClockInfo(of) }
	}
	s.SMClock = number(g, m, "sm_clock_hertz", mega, clock(nvml.CLOCK_SM), "nvmlDeviceGetClockInfo")
	s.Temperature = number(g, m, "temperature_celsius", 1, func() (uint32, nvml.Return) { return dev.GetTemperature(nvml.TEMPERATURE_GPU) }, "nvmlDeviceGetTemperature")
	g.reasons(dev, s)
	if kind == gpu.Sample {
		g.power(dev, s, g.fields(dev, s, nvml.FI_DEV_POWER_INSTANT, nvml.FI_DEV_POWER_AVERAGE))
		return
	}
	s.MemoryClock = number(g, m, "memory_clock_hertz", mega, clock(nvml.CLOCK_MEM), "nvmlDeviceGetClockInfo")
	s.Energy = number(g, m, "energy_joules", milli, dev.GetTotalEnergyConsumption, "nvmlDeviceGetTotalEnergyConsumption")
	g.counters(dev, s)
	ecc := func(of nvml.MemoryErrorType) func() (uint64, nvml.Return) {
		return func() (uint64, nvml.Return) { return dev.GetTotalEccErrors(of, nvml.VOLATILE_ECC) }
	}
	s.ECCCorrected = number(g, m, "ecc_corrected", 1, ecc(nvml.MEMORY_ERROR_TYPE_CORRECTED), "nvmlDeviceGetTotalEccErrors")
	s.ECCUncorrected = number(g, m, "ecc_uncorrected", 1, ecc(nvml.MEMORY_ERROR_TYPE_UNCORRECTED), "nvmlDeviceGetTotalEccErrors")
	s.Utilization = number(g, m, "utilization", 1./100, func() (uint32, nvml.Return) {
		u, ret := dev.GetUtilizationRates()
		return u.Gpu, ret
	}, "nvmlDeviceGetUtilizationRates")
}

// reasons asks why the clocks are what they are. Drivers before 535 know only the older name of the call.
func (g *gpus) reasons(dev device, s *gpu.State) {
	bits, reason := ask(g, dev.GetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons")
	if reason != "" {
		older, olderReason := ask(g, dev.GetCurrentClocksThrottleReasons, "nvmlDeviceGetCurrentClocksThrottleReasons")
		if olderReason != "" {
			s.Missing["clock_reasons"] = reason
			return
		}
		bits = older
	}
	s.Reasons = gpu.ReasonNames(bits)
}

// counters reads the times with lowered clocks, and power with them.
func (g *gpus) counters(dev device, s *gpu.State) {
	ids := []uint32{nvml.FI_DEV_POWER_INSTANT, nvml.FI_DEV_POWER_AVERAGE}
	for id := range throttle {
		ids = append(ids, id)
	}
	got := g.fields(dev, s, ids...)
	s.Throttle = map[string]float64{}
	for id, name := range throttle {
		if f := got[id]; f.reason != "" {
			s.Missing["throttle_seconds."+name] = f.reason
		} else {
			s.Throttle[name] = f.value * nano
		}
	}
	g.power(dev, s, got)
}

// power takes the best figure of power that there is.
func (g *gpus) power(dev device, s *gpu.State, got map[uint32]field) {
	take := func(watts float64, kind string) { s.Power, s.PowerKind = &watts, kind }
	if f := got[nvml.FI_DEV_POWER_INSTANT]; f.reason == "" {
		take(f.value*milli, "instant")
	} else if f := got[nvml.FI_DEV_POWER_AVERAGE]; f.reason == "" {
		take(f.value*milli, "average_1s")
	} else if p := number(g, s.Missing, "power_watts", milli, dev.GetPowerUsage, "nvmlDeviceGetPowerUsage"); p != nil {
		take(*p, "usage")
	}
}

// field is one answer of GetFieldValues.
type field struct {
	value  float64
	reason string // empty: the value is good
}

// fields reads several fields in one call. Each has a return code of its own.
func (g *gpus) fields(dev device, s *gpu.State, ids ...uint32) map[uint32]field {
	values := make([]nvml.FieldValue, len(ids))
	for i, id := range ids {
		values[i].FieldId = id
	}
	_, reason := ask(g, func() (struct{}, nvml.Return) { return struct{}{}, dev.GetFieldValues(values) }, "nvmlDeviceGetFieldValues")
	got := map[uint32]field{}
	for i, v := range values {
		f := field{reason: reason}
		if ret := nvml.Return(v.NvmlReturn); reason == "" && ret != nvml.SUCCESS {
			f.reason = code(ret)
		} else if reason == "" {
			f.value, f.reason = scalar(v)
		}
		got[ids[i]] = f
		if latency := float64(v.LatencyUsec) / 1e6; f.reason == "" && latency >= 0 && (s.Latency == nil || latency > *s.Latency) {
			s.Latency = &latency
		}
	}
	return got
}

// scalar takes the number out of the union that a field's value is.
func scalar(v nvml.FieldValue) (value float64, reason string) {
	word := binary.NativeEndian.Uint64(v.Value[:])
	half := binary.NativeEndian.Uint32(v.Value[:])
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_DOUBLE:
		value = math.Float64frombits(word)
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		value = float64(half)
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		value = float64(word)
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		value = float64(int64(word))
	case nvml.VALUE_TYPE_SIGNED_INT:
		value = float64(int32(half))
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		value = float64(binary.NativeEndian.Uint16(v.Value[:]))
	case nvml.VALUE_TYPE_COUNT:
		return 0, "a value of unknown type"
	default:
		return 0, "a value of unknown type"
	}
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return 0, "a value that is no quantity"
	}
	return value, ""
}

// memory is what is known about a device's memory.
type memory struct {
	total, used, free, reserved *float64
	version                     int
}

// memory asks for the second version, which tells the driver's own part from what is used, and else for the first.
func (g *gpus) memory(dev device, m gpu.Missing, field string) memory {
	bytes := func(n uint64) *float64 { f := float64(n); return &f }
	v2, reason := ask(g, dev.GetMemoryInfo_v2, "nvmlDeviceGetMemoryInfo_v2")
	if reason == "" {
		return memory{bytes(v2.Total), bytes(v2.Used), bytes(v2.Free), bytes(v2.Reserved), 2}
	}
	v1, olderReason := ask(g, dev.GetMemoryInfo, "nvmlDeviceGetMemoryInfo")
	if olderReason == "" {
		m["memory_reserved_bytes"] = reason
		return memory{total: bytes(v1.Total), used: bytes(v1.Used), free: bytes(v1.Free), version: 1}
	}
	m[field] = olderReason
	return memory{}
}
