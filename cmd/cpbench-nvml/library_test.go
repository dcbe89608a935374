//go:build cgo

package main

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"cpbench/worker/gpu"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"
)

func ptr(v float64) *float64 { return &v }

// dgx is a server of eight H200s whose first one answers everything. lacking are symbols that its library lacks.
func dgx(lacking ...string) (*server.Server, *server.Device) {
	s := dgxh200.New()
	s.ExtensionsFunc = func() nvml.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(symbol string) error {
			for _, l := range lacking {
				if l == symbol {
					return errors.New("no " + symbol)
				}
			}
			return nil
		}}
	}
	for i, dev := range s.Devices {
		d := dev.(*server.Device)
		d.UUID = "GPU-" + string(rune('a'+i))
		fill(d)
	}
	return s, s.Devices[0].(*server.Device)
}

// fill sets the functions without which the mock panics.
func fill(d *server.Device) {
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: 1000, Reserved: 100, Free: 700, Used: 200}, nvml.SUCCESS
	}
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		var p nvml.PciInfo
		for i, c := range "00000000:1A:00.0" {
			p.BusId[i] = int8(c)
		}
		return p, nvml.SUCCESS
	}
	d.GetVbiosVersionFunc = func() (string, nvml.Return) { return "96.00.A5", nvml.SUCCESS }
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_DISABLED, nvml.SUCCESS
	}
	d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_DISABLED, nvml.SUCCESS }
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, nvml.SUCCESS }
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 650000, nvml.SUCCESS }
	d.GetPowerManagementDefaultLimitFunc = func() (uint32, nvml.Return) { return 700000, nvml.SUCCESS }
	clock := func(of nvml.ClockType) (uint32, nvml.Return) {
		mhz, known := map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1980, nvml.CLOCK_MEM: 3201}[of]
		if !known {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return mhz, nvml.SUCCESS
	}
	d.GetMaxClockInfoFunc, d.GetClockInfoFunc = clock, clock
	d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 123456, nvml.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 400000, nvml.SUCCESS }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 55, nvml.SUCCESS }
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) {
		return nvml.ClocksEventReasonSwPowerCap | nvml.ClocksEventReasonSwThermalSlowdown, nvml.SUCCESS
	}
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return nvml.ClocksEventReasonGpuIdle, nvml.SUCCESS }
	d.GetFieldValuesFunc = answerFields(nil)
	d.GetTotalEccErrorsFunc = func(of nvml.MemoryErrorType, counter nvml.EccCounterType) (uint64, nvml.Return) {
		if counter != nvml.VOLATILE_ECC {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return uint64(of) + 5, nvml.SUCCESS
	}
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97, Memory: 3}, nvml.SUCCESS }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
}

// answerFields answers each field with a million times its id, but those in codes with a code.
func answerFields(codes map[uint32]nvml.Return) func([]nvml.FieldValue) nvml.Return {
	return func(values []nvml.FieldValue) nvml.Return {
		for i := range values {
			v := &values[i]
			v.ValueType, v.NvmlReturn, v.LatencyUsec = uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG), uint32(codes[v.FieldId]), int64(v.FieldId)
			binary.NativeEndian.PutUint64(v.Value[:], uint64(v.FieldId)*1e6)
		}
		return nvml.SUCCESS
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	s, d := dgx("nvmlSystemGetNVMLVersion", "nvmlDeviceGetVbiosVersion")
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
	got, err := open(s).identify()
	if err != nil || len(got) != 8 {
		t.Fatalf("%d devices: %v", len(got), err)
	}
	want := gpu.Device{
		UUID: "GPU-a", Name: d.Config.Name, PCI: "00000000:1a:00.0", MemoryTotal: ptr(1000), MemoryVersion: 2, Driver: "550.54.15",
		CUDADriver: "12.4", MIG: "disabled", Persistence: "disabled", ComputeMode: "exclusive_process", PowerLimit: ptr(650),
		PowerLimitDefault: ptr(700), SMClockMax: ptr(1980e6), MemoryClockMax: ptr(3201e6),
		Missing: gpu.Missing{"nvml": "FUNCTION_NOT_FOUND", "vbios": "FUNCTION_NOT_FOUND", "ecc": "NOT_SUPPORTED"},
	}
	if d := cmp.Diff(want, got[0]); d != "" {
		t.Errorf("device (-want +got):\n%s", d)
	}
	if got[7].UUID != "GPU-h" || got[7].Index != 7 || got[7].ECC != "enabled" {
		t.Errorf("last device %+v", got[7])
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	full := func() gpu.State {
		return gpu.State{
			UUID: "GPU-a", MemoryUsed: ptr(200), MemoryFree: ptr(700), MemoryReserved: ptr(100), MemoryVersion: 2, Energy: ptr(123.456),
			SMClock: ptr(1980e6), MemoryClock: ptr(3201e6), Power: ptr(186e3), PowerKind: "instant", Temperature: ptr(55),
			Reasons:  []string{gpu.PowerCap, gpu.SWThermal},
			Throttle: map[string]float64{gpu.PowerCap: 0.074, gpu.SyncBoost: 0.076, gpu.SWThermal: 0.269, gpu.HWThermal: 0.270, gpu.PowerBrake: 0.271},
			// The corrected errors are those of type 0.
			ECCCorrected: ptr(5), ECCUncorrected: ptr(6), Utilization: ptr(0.97), Latency: ptr(271e-6), Missing: gpu.Missing{},
		}
	}
	tests := []struct {
		name    string
		kind    gpu.Kind
		lacking []string
		device  func(*server.Device)
		want    func(*gpu.State)
	}{
		{"everything", gpu.Edge, nil, nil, nil},
		{"the background", gpu.Sample, nil, nil, func(s *gpu.State) {
			s.Energy, s.MemoryClock, s.ECCCorrected, s.ECCUncorrected, s.Utilization, s.Throttle, s.Latency = nil, nil, nil, nil, nil, nil, ptr(186e-6)
		}},
		{"memory alone", gpu.Memory, nil, nil, func(s *gpu.State) {
			*s = gpu.State{UUID: s.UUID, MemoryUsed: s.MemoryUsed, MemoryFree: s.MemoryFree, MemoryReserved: s.MemoryReserved, MemoryVersion: 2, Missing: gpu.Missing{}}
		}},
		{"fields have codes of their own", gpu.Edge, nil, func(d *server.Device) {
			d.GetFieldValuesFunc = answerFields(map[uint32]nvml.Return{186: nvml.ERROR_NOT_SUPPORTED, 269: nvml.ERROR_NO_PERMISSION, 271: nvml.ERROR_INVALID_ARGUMENT})
		}, func(s *gpu.State) {
			s.Power, s.PowerKind, s.Latency = ptr(185e3), "average_1s", ptr(270e-6)
			delete(s.Throttle, gpu.SWThermal)
			delete(s.Throttle, gpu.PowerBrake)
			s.Missing["throttle_seconds.sw_thermal"], s.Missing["throttle_seconds.power_brake"] = "NO_PERMISSION", "INVALID_ARGUMENT"
		}},
		{"no fields", gpu.Sample, []string{"nvmlDeviceGetFieldValues"}, func(d *server.Device) { d.GetFieldValuesFunc = nil }, func(s *gpu.State) {
			s.Power, s.PowerKind = ptr(400), "usage"
			s.Energy, s.MemoryClock, s.ECCCorrected, s.ECCUncorrected, s.Utilization, s.Throttle, s.Latency = nil, nil, nil, nil, nil, nil, nil
		}},
		{
			"the older name of the reasons", gpu.Edge,
			[]string{"nvmlDeviceGetCurrentClocksEventReasons"},
			func(d *server.Device) { d.GetCurrentClocksEventReasonsFunc = nil },
			func(s *gpu.State) { s.Reasons = []string{"idle"} },
		},
		{"the first version of memory", gpu.Edge, nil, func(d *server.Device) {
			d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, nvml.ERROR_ARGUMENT_VERSION_MISMATCH }
			d.MemoryInfo = nvml.Memory{Total: 1000, Free: 600, Used: 400}
		}, func(s *gpu.State) {
			s.MemoryUsed, s.MemoryFree, s.MemoryReserved, s.MemoryVersion = ptr(400), ptr(600), nil, 1
			s.Missing["memory_reserved_bytes"] = "ARGUMENT_VERSION_MISMATCH"
		}},
		{"a refusal", gpu.Edge, nil, func(d *server.Device) {
			d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_GPU_IS_LOST }
		}, func(s *gpu.State) {
			s.Energy, s.Utilization = nil, nil
			s.Missing["energy_joules"], s.Missing["utilization"] = "NOT_SUPPORTED", "GPU_IS_LOST"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := dgx(tt.lacking...)
			if tt.device != nil {
				tt.device(d)
				s.Devices = s.Devices[:1]
				s.DeviceGetCountFunc = func() (int, nvml.Return) { return 1, nvml.SUCCESS }
			}
			r, err := open(s).read(tt.kind)
			if err != nil || r.Kind != tt.kind || r.Source != gpu.NVML || r.Seconds <= 0 {
				t.Fatalf("reading %+v: %v", r, err)
			}
			want := full()
			if tt.want != nil {
				tt.want(&want)
			}
			r.GPUs[0].Seconds = 0
			if d := cmp.Diff(want, r.GPUs[0], rounded); d != "" {
				t.Errorf("state (-want +got):\n%s", d)
			}
		})
	}
}

// rounded compares numbers up to the last digits, which scaling changes.
var rounded = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(a) })

func TestDevicesThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	s, _ := dgx()
	get := s.DeviceGetHandleByIndexFunc
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 0 {
			return nil, nvml.ERROR_NO_PERMISSION // another job's
		}
		return get(i)
	}
	g := open(s)
	devices, err := g.identify()
	if err != nil || devices[0].UUID != "" || devices[0].Missing["uuid"] != "NO_PERMISSION" || devices[1].UUID != "GPU-b" {
		t.Errorf("devices %+v: %v", devices[:2], err)
	}
	if r, err := g.read(gpu.Memory); err != nil || len(r.GPUs) != 7 {
		t.Errorf("reading of %d GPUs: %v", len(r.GPUs), err)
	}
	s.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	if _, err := open(s).identify(); err == nil || err.Error() != "NVML: none of 8 devices can be opened: NO_PERMISSION" {
		t.Errorf("error %v", err)
	}
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
	if _, err := open(s).read(gpu.Edge); err == nil || err.Error() != "NVML: no devices" {
		t.Errorf("error %v", err)
	}
	s.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED }
	s.ExtensionsFunc = nil // nothing may be called before Init has succeeded
	if _, err := open(s).processes(); err == nil || err.Error() != "NVML: DRIVER_NOT_LOADED" {
		t.Errorf("error %v", err)
	}
}

func TestInstancesOfMIG(t *testing.T) {
	t.Parallel()
	s, d := dgx()
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	instance := &mock.Device{
		GetUUIDFunc: func() (string, nvml.Return) { return "MIG-1", nvml.SUCCESS },
		GetNameFunc: func() (string, nvml.Return) { return "H200 MIG 1g.18gb", nvml.SUCCESS },
		GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 10, Used: 1, Free: 9}, nvml.SUCCESS
		},
	}
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 2 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return instance, nvml.SUCCESS
	}
	g := open(s)
	devices, err := g.identify()
	if err != nil || len(devices) != 9 {
		t.Fatalf("%d devices: %v", len(devices), err)
	}
	want := gpu.Device{Index: 2, UUID: "MIG-1", Parent: "GPU-a", Name: "H200 MIG 1g.18gb", MemoryTotal: ptr(10), MemoryVersion: 2, Driver: "550.54.15", CUDADriver: "12.4", NVMLVersion: "12.550.54.15", Missing: gpu.Missing{"other": wholeOnly}}
	if d := cmp.Diff(want, devices[1]); d != "" {
		t.Errorf("instance (-want +got):\n%s", d)
	}
	r, err := g.read(gpu.Edge)
	if err != nil {
		t.Fatal(err)
	}
	r.GPUs[1].Seconds = 0
	if d := cmp.Diff(gpu.State{UUID: "MIG-1", MemoryUsed: ptr(1), MemoryFree: ptr(9), MemoryReserved: ptr(0), MemoryVersion: 2, Missing: gpu.Missing{"other": wholeOnly}}, r.GPUs[1]); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	s, d := dgx()
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 4000001, UsedGpuMemory: 5}, {Pid: 4000002, UsedGpuMemory: ^uint64(0)}}, nvml.SUCCESS
	}
	got, err := open(s).processes()
	want := []gpu.Process{{PID: 4000001, UUID: "GPU-a", Memory: ptr(5)}, {PID: 4000002, UUID: "GPU-a"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("processes (-want +got):\n%s%v", d, err)
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	if _, err := open(s).processes(); err == nil || !strings.Contains(err.Error(), "GPU-a: NO_PERMISSION") {
		t.Errorf("error %v: an unknown list is not an empty one", err)
	}
}

func TestScalar(t *testing.T) {
	t.Parallel()
	bits := func(v uint64) (b [8]byte) { binary.NativeEndian.PutUint64(b[:], v); return b }
	for _, tt := range []struct {
		of    nvml.ValueType
		bits  uint64
		value float64
		ok    bool
	}{
		{nvml.VALUE_TYPE_DOUBLE, math.Float64bits(2.5), 2.5, true},
		{nvml.VALUE_TYPE_DOUBLE, math.Float64bits(math.NaN()), 0, false},
		{nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 1 << 40, 1 << 40, true},
		{nvml.VALUE_TYPE_UNSIGNED_LONG, 7, 7, true},
		{nvml.VALUE_TYPE_SIGNED_LONG_LONG, ^uint64(0), 0, false},
		{nvml.VALUE_TYPE_SIGNED_LONG_LONG, 9, 9, true},
		{nvml.VALUE_TYPE_COUNT, 1, 0, false},
		{99, 1, 0, false},
	} {
		v, reason := scalar(nvml.FieldValue{ValueType: uint32(tt.of), Value: bits(tt.bits)})
		if v != tt.value && tt.ok || (reason == "") != tt.ok {
			t.Errorf("type %d, bits %#x: %v, %q", tt.of, tt.bits, v, reason)
		}
	}
	var narrow [8]byte
	binary.NativeEndian.PutUint32(narrow[:], 321500)
	for of, want := range map[nvml.ValueType]float64{nvml.VALUE_TYPE_UNSIGNED_INT: 321500, nvml.VALUE_TYPE_SIGNED_INT: 321500} {
		if v, reason := scalar(nvml.FieldValue{ValueType: uint32(of), Value: narrow}); v != want || reason != "" {
			t.Errorf("type %d: %v, %q", of, v, reason)
		}
	}
}
