//go:build cgo

package main

import (
	"errors"
	"fmt"
	"slices"

	"cpbench/worker/gpu"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library is the part of nvml.Interface that is used here.
type library interface {
	Init() nvml.Return
	Extensions() nvml.ExtendedInterface
	SystemGetDriverVersion() (string, nvml.Return)
	SystemGetNVMLVersion() (string, nvml.Return)
	SystemGetCudaDriverVersion() (int, nvml.Return)
	DeviceGetCount() (int, nvml.Return)
	DeviceGetHandleByIndex(int) (nvml.Device, nvml.Return)
}

// device is the part of nvml.Device that is used here.
type device interface {
	GetUUID() (string, nvml.Return)
	GetName() (string, nvml.Return)
	GetPciInfo() (nvml.PciInfo, nvml.Return)
	GetVbiosVersion() (string, nvml.Return)
	GetMemoryInfo() (nvml.Memory, nvml.Return)
	GetMemoryInfo_v2() (nvml.Memory_v2, nvml.Return)
	GetMigMode() (int, int, nvml.Return)
	GetMaxMigDeviceCount() (int, nvml.Return)
	GetMigDeviceHandleByIndex(int) (nvml.Device, nvml.Return)
	GetEccMode() (nvml.EnableState, nvml.EnableState, nvml.Return)
	GetPersistenceMode() (nvml.EnableState, nvml.Return)
	GetComputeMode() (nvml.ComputeMode, nvml.Return)
	GetEnforcedPowerLimit() (uint32, nvml.Return)
	GetPowerManagementDefaultLimit() (uint32, nvml.Return)
	GetClockInfo(nvml.ClockType) (uint32, nvml.Return)
	GetMaxClockInfo(nvml.ClockType) (uint32, nvml.Return)
	GetTotalEnergyConsumption() (uint64, nvml.Return)
	GetPowerUsage() (uint32, nvml.Return)
	GetTemperature(nvml.TemperatureSensors) (uint32, nvml.Return)
	GetCurrentClocksEventReasons() (uint64, nvml.Return)
	GetCurrentClocksThrottleReasons() (uint64, nvml.Return)
	GetFieldValues([]nvml.FieldValue) nvml.Return
	GetTotalEccErrors(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return)
	GetUtilizationRates() (nvml.Utilization, nvml.Return)
	GetComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return)
}

// gpus are the devices of an NVML library. It is an instrument.
type gpus struct {
	lib     library
	symbols map[string]bool // what the library was asked for, and whether it has it
	handles []handle
	err     error // why there are none
}

// handle is a device that could be opened, or the reason why not.
type handle struct {
	dev    device // nil: it could not be opened
	index  int
	uuid   string
	parent string // UUID of the GPU, for an instance of MIG
	reason string // why dev is nil
}

// open initialises the library and opens all devices. A failure is the answer to every later request.
func open(lib library) *gpus {
	g := &gpus{lib: lib, symbols: map[string]bool{}}
	if ret := lib.Init(); ret != nvml.SUCCESS {
		g.err = fmt.Errorf("NVML: %s", code(ret))
		return g
	}
	n, reason := ask(g, lib.DeviceGetCount, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
	if reason != "" {
		g.err = fmt.Errorf("NVML: count of devices: %s", reason)
		return g
	}
	for i := range n {
		h := g.handle(i, func() (nvml.Device, nvml.Return) { return lib.DeviceGetHandleByIndex(i) },
			"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
		g.handles = append(g.handles, h)
		if h.dev != nil {
			g.handles = append(g.handles, g.instances(h)...)
		}
	}
	g.err = g.usable(n)
	return g
}

// usable is why there is nothing to read, or nil.
func (g *gpus) usable(n int) error {
	if n == 0 {
		return errors.New("NVML: no devices")
	}
	if slices.ContainsFunc(g.handles, func(h handle) bool { return h.dev != nil }) {
		return nil
	}
	return fmt.Errorf("NVML: none of %d devices can be opened: %s", n, g.handles[0].reason)
}

// handle opens one device.
func (g *gpus) handle(index int, get func() (nvml.Device, nvml.Return), symbols ...string) handle {
	dev, reason := ask(g, get, symbols...)
	if reason != "" {
		return handle{index: index, reason: reason}
	}
	uuid, reason := ask(g, dev.GetUUID, "nvmlDeviceGetUUID")
	if reason != "" {
		return handle{index: index, reason: reason}
	}
	return handle{dev: dev, index: index, uuid: uuid}
}

// instances opens the MIG instances of a GPU that is divided.
func (g *gpus) instances(whole handle) []handle {
	on, reason := ask(g, migMode(whole.dev), "nvmlDeviceGetMigMode")
	if reason != "" || on != nvml.DEVICE_MIG_ENABLE {
		return nil
	}
	n, reason := ask(g, whole.dev.GetMaxMigDeviceCount, "nvmlDeviceGetMaxMigDeviceCount")
	if reason != "" {
		return nil
	}
	var found []handle
	for i := range n {
		h := g.handle(i, func() (nvml.Device, nvml.Return) { return whole.dev.GetMigDeviceHandleByIndex(i) }, "nvmlDeviceGetMigDeviceHandleByIndex")
		if h.dev != nil { // most places for an instance are empty
			h.parent = whole.uuid
			found = append(found, h)
		}
	}
	return found
}

func migMode(d device) func() (int, nvml.Return) {
	return func() (int, nvml.Return) {
		current, _, ret := d.GetMigMode()
		return current, ret
	}
}

// has reports whether the library has one of the symbols. To call a function that it lacks ends the process, with
// status 127 and beyond any recovery (github.com/NVIDIA/go-nvml/issues/82).
func (g *gpus) has(symbols ...string) bool {
	for _, s := range symbols {
		have, asked := g.symbols[s]
		if !asked {
			have = g.lib.Extensions().LookupSymbol(s) == nil
			g.symbols[s] = have
		}
		if have {
			return true
		}
	}
	return false
}

// ask makes one call, for which the library needs one of the symbols. The reason is empty if the value is good.
func ask[T any](g *gpus, call func() (T, nvml.Return), symbols ...string) (value T, reason string) {
	if !g.has(symbols...) {
		return value, code(nvml.ERROR_FUNCTION_NOT_FOUND)
	}
	v, ret := call()
	if ret != nvml.SUCCESS {
		return value, code(ret)
	}
	return v, ""
}

// number asks for a value in the library's unit and returns it in the base unit; it notes the reason under field if
// there is none.
func number[T uint32 | uint64](g *gpus, m gpu.Missing, field string, unit float64, call func() (T, nvml.Return), symbols ...string) *float64 {
	v, reason := ask(g, call, symbols...)
	if reason != "" {
		m[field] = reason
		return nil
	}
	f := float64(v) * unit
	return &f
}

// text asks for a text, and notes the reason under field if there is none.
func text[T any](g *gpus, m gpu.Missing, field string, words func(T) string, call func() (T, nvml.Return), symbols ...string) string {
	v, reason := ask(g, call, symbols...)
	if reason == "" {
		if s := words(v); s != "" {
			return s
		}
		reason = "empty"
	}
	m[field] = reason
	return ""
}

// code is the name of a return code. Return.Error would call nvmlErrorString, which is one more symbol that may be
// absent.
func code(ret nvml.Return) string {
	if name, ok := codes[ret]; ok {
		return name
	}
	return fmt.Sprintf("code %d", int(ret))
}

var codes = map[nvml.Return]string{
	nvml.ERROR_UNINITIALIZED:             "UNINITIALIZED",
	nvml.ERROR_INVALID_ARGUMENT:          "INVALID_ARGUMENT",
	nvml.ERROR_NOT_SUPPORTED:             "NOT_SUPPORTED",
	nvml.ERROR_NO_PERMISSION:             "NO_PERMISSION",
	nvml.ERROR_NOT_FOUND:                 "NOT_FOUND",
	nvml.ERROR_INSUFFICIENT_SIZE:         "INSUFFICIENT_SIZE",
	nvml.ERROR_INSUFFICIENT_POWER:        "INSUFFICIENT_POWER",
	nvml.ERROR_DRIVER_NOT_LOADED:         "DRIVER_NOT_LOADED",
	nvml.ERROR_TIMEOUT:                   "TIMEOUT",
	nvml.ERROR_IRQ_ISSUE:                 "IRQ_ISSUE",
	nvml.ERROR_LIBRARY_NOT_FOUND:         "LIBRARY_NOT_FOUND",
	nvml.ERROR_FUNCTION_NOT_FOUND:        "FUNCTION_NOT_FOUND",
	nvml.ERROR_CORRUPTED_INFOROM:         "CORRUPTED_INFOROM",
	nvml.ERROR_GPU_IS_LOST:               "GPU_IS_LOST",
	nvml.ERROR_RESET_REQUIRED:            "RESET_REQUIRED",
	nvml.ERROR_OPERATING_SYSTEM:          "OPERATING_SYSTEM",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH:   "LIB_RM_VERSION_MISMATCH",
	nvml.ERROR_IN_USE:                    "IN_USE",
	nvml.ERROR_MEMORY:                    "MEMORY",
	nvml.ERROR_NO_DATA:                   "NO_DATA",
	nvml.ERROR_INSUFFICIENT_RESOURCES:    "INSUFFICIENT_RESOURCES",
	nvml.ERROR_ARGUMENT_VERSION_MISMATCH: "ARGUMENT_VERSION_MISMATCH",
	nvml.ERROR_DEPRECATED:                "DEPRECATED",
	nvml.ERROR_NOT_READY:                 "NOT_READY",
	nvml.ERROR_GPU_NOT_FOUND:             "GPU_NOT_FOUND",
	nvml.ERROR_INVALID_STATE:             "INVALID_STATE",
	nvml.ERROR_UNKNOWN:                   "UNKNOWN",
}
