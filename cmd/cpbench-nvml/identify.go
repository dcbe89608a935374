//go:build cgo

package main

import (
	"fmt"
	"os"
	"strings"

	"cpbench/worker/gpu"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The units of NVML in base units.
const (
	mega  = 1e6  // clocks in MHz
	milli = 1e-3 // power in mW, energy in mJ
	nano  = 1e-9 // time in ns
)

// wholeOnly is the reason why an instance of MIG lacks what NVML knows of the whole GPU alone.
const wholeOnly = "known of the whole GPU only"

// identify describes every device.
func (g *gpus) identify() ([]gpu.Device, error) {
	if g.err != nil {
		return nil, g.err
	}
	common := gpu.Missing{}
	driver := text(g, common, "driver", same, g.lib.SystemGetDriverVersion, "nvmlSystemGetDriverVersion")
	version := text(g, common, "nvml", same, g.lib.SystemGetNVMLVersion, "nvmlSystemGetNVMLVersion")
	cuda := text(g, common, "cuda_driver", cudaVersion, g.lib.SystemGetCudaDriverVersion, "nvmlSystemGetCudaDriverVersion")
	var devices []gpu.Device
	for _, h := range g.handles {
		d := gpu.Device{Index: h.index, UUID: h.uuid, Parent: h.parent, Missing: gpu.Missing{}}
		if h.dev == nil {
			d.Missing["uuid"] = h.reason
			devices = append(devices, d)
			continue
		}
		for field, reason := range common {
			d.Missing[field] = reason
		}
		d.Driver, d.NVMLVersion, d.CUDADriver = driver, version, cuda
		g.describe(h, &d)
		devices = append(devices, d)
	}
	return devices, nil
}

// describe fills in what one device says about itself.
func (g *gpus) describe(h handle, d *gpu.Device) {
	dev, m := h.dev, d.Missing
	d.Name = text(g, m, "name", same, dev.GetName, "nvmlDeviceGetName")
	memory := g.memory(dev, m, "memory_total_bytes")
	d.MemoryTotal, d.MemoryVersion = memory.total, memory.version
	if h.parent != "" {
		m["other"] = wholeOnly
		return
	}
	d.PCI = text(g, m, "pci", busID, dev.GetPciInfo, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
	d.VBIOS = text(g, m, "vbios", same, dev.GetVbiosVersion, "nvmlDeviceGetVbiosVersion")
	d.MIG = text(g, m, "mig", func(mode int) string { return onOff(mode == nvml.DEVICE_MIG_ENABLE) }, migMode(dev), "nvmlDeviceGetMigMode")
	d.ECC = text(g, m, "ecc", enabled, func() (nvml.EnableState, nvml.Return) {
		current, _, ret := dev.GetEccMode()
		return current, ret
	}, "nvmlDeviceGetEccMode")
	d.Persistence = text(g, m, "persistence", enabled, dev.GetPersistenceMode, "nvmlDeviceGetPersistenceMode")
	d.ComputeMode = text(g, m, "compute_mode", computeMode, dev.GetComputeMode, "nvmlDeviceGetComputeMode")
	d.PowerLimit = number(g, m, "power_limit_watts", milli, dev.GetEnforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit")
	d.PowerLimitDefault = number(g, m, "power_limit_default_watts", milli, dev.GetPowerManagementDefaultLimit, "nvmlDeviceGetPowerManagementDefaultLimit")
	limit := func(of nvml.ClockType) func() (uint32, nvml.Return) {
		return func() (uint32, nvml.Return) { return dev.GetMaxClockInfo(of) }
	}
	d.SMClockMax = number(g, m, "sm_clock_max_hertz", mega, limit(nvml.CLOCK_SM), "nvmlDeviceGetMaxClockInfo")
	d.MemoryClockMax = number(g, m, "memory_clock_max_hertz", mega, limit(nvml.CLOCK_MEM), "nvmlDeviceGetMaxClockInfo")
}

// processes lists who computes on which GPU.
func (g *gpus) processes() ([]gpu.Process, error) {
	if g.err != nil {
		return nil, g.err
	}
	found := []gpu.Process{}
	var refused []string
	for _, h := range g.handles {
		if h.dev == nil {
			continue
		}
		list, reason := ask(g, h.dev.GetComputeRunningProcesses,
			"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses")
		if reason != "" {
			refused = append(refused, fmt.Sprintf("%s: %s", h.uuid, reason))
			continue
		}
		for _, p := range list {
			process := gpu.Process{PID: int(p.Pid), UUID: h.uuid, Name: processName(p.Pid)}
			// All ones is NVML's "not available".
			if used := float64(p.UsedGpuMemory); p.UsedGpuMemory != ^uint64(0) {
				process.Memory = &used
			}
			found = append(found, process)
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("NVML: processes: %s", strings.Join(refused, ", "))
	}
	return found, nil
}

// processName is the kernel's short name of a process; empty where the id is that of another namespace, or is gone.
func processName(pid uint32) string {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(comm))
}

func same(s string) string { return s }

func onOff(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}

func enabled(s nvml.EnableState) string { return onOff(s == nvml.FEATURE_ENABLED) }

func cudaVersion(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

func busID(p nvml.PciInfo) string {
	var b strings.Builder
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return strings.ToLower(b.String())
}

func computeMode(m nvml.ComputeMode) string {
	switch m {
	case nvml.COMPUTEMODE_DEFAULT:
		return "default"
	case nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return "exclusive_thread"
	case nvml.COMPUTEMODE_PROHIBITED:
		return "prohibited"
	case nvml.COMPUTEMODE_EXCLUSIVE_PROCESS:
		return "exclusive_process"
	case nvml.COMPUTEMODE_COUNT:
		return ""
	}
	return ""
}
