package source

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"cpbench/worker/gpu"
)

// The fields that nvidia-smi is asked for. Drivers since 470 know all of them; newer ones keep the older name of the
// clock reasons.
const fieldUUID = "uuid"

var (
	memoryFields = []string{fieldUUID, "memory.used", "memory.free"}
	sampleFields = append(memoryFields[:len(memoryFields):len(memoryFields)],
		"clocks.sm", "power.draw", "temperature.gpu", "clocks_throttle_reasons.active")
	edgeFields = append(sampleFields[:len(sampleFields):len(sampleFields)],
		"clocks.mem", "utilization.gpu", "ecc.errors.corrected.volatile.total", "ecc.errors.uncorrected.volatile.total")
	identityFields = []string{
		fieldUUID, "index", "name", "pci.bus_id", "memory.total", "driver_version", "vbios_version", "mig.mode.current",
		"ecc.mode.current", "persistence_mode", "compute_mode", "enforced.power.limit", "power.default_limit",
		"clocks.max.sm", "clocks.max.memory",
	}
)

// row is a line of nvidia-smi's table: texts by field.
type row map[string]string

// parseRows reads the table. A line with another number of values is an error of the whole, as its values cannot be
// told apart.
func parseRows(text string, fields []string) ([]row, error) {
	var rows []row
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		values := strings.Split(l, ",")
		if len(values) != len(fields) {
			return nil, fmt.Errorf("%d values instead of %d: %.200q", len(values), len(fields), l)
		}
		r := row{}
		for i, f := range fields {
			r[f] = strings.TrimSpace(values[i])
		}
		if r[fieldUUID] == "" {
			return nil, fmt.Errorf("no uuid: %.200q", l)
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, errors.New("no GPU in its answer")
	}
	return rows, nil
}

// text returns a field, or "" with the reason in m.
func (r row) text(m gpu.Missing, name, field string) string {
	v, asked := r[field]
	switch {
	case !asked:
		m[name] = "this nvidia-smi does not know it"
	case v == "":
		m[name] = "empty"
	case v == "N/A" || strings.HasPrefix(v, "["): // [N/A], [Not Supported], [GPU is lost], ...
		if m[name] = strings.Trim(v, "[]"); m[name] == "" {
			m[name] = "not available"
		}
	default:
		return v
	}
	return ""
}

// number returns a field in base units, or nil with the reason in m.
func (r row) number(m gpu.Missing, name, field string, unit float64) *float64 {
	t := r.text(m, name, field)
	if t == "" {
		return nil
	}
	v, err := strconv.ParseFloat(t, 64)
	if v *= unit; err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		m[name] = fmt.Sprintf("%.40q is no quantity", t)
		return nil
	}
	return &v
}

const (
	mebi  = 1 << 20
	mega  = 1e6
	cent  = 1e-2
	noSMI = "nvidia-smi does not tell it"
)

// device is the row as an identity.
func (r row) device() gpu.Device {
	m := gpu.Missing{"cuda_driver": noSMI, "nvml": noSMI}
	d := gpu.Device{Missing: m, UUID: r.text(m, "uuid", fieldUUID)}
	if i := r.number(m, "index", "index", 1); i != nil && *i < math.MaxInt32 {
		d.Index = int(*i)
	}
	d.Name = r.text(m, "name", "name")
	d.PCI = strings.ToLower(r.text(m, "pci", "pci.bus_id"))
	d.MemoryTotal = r.number(m, "memory_total_bytes", "memory.total", mebi)
	d.Driver = r.text(m, "driver", "driver_version")
	d.VBIOS = r.text(m, "vbios", "vbios_version")
	d.MIG = strings.ToLower(r.text(m, "mig", "mig.mode.current"))
	d.ECC = strings.ToLower(r.text(m, "ecc", "ecc.mode.current"))
	d.Persistence = strings.ToLower(r.text(m, "persistence", "persistence_mode"))
	d.ComputeMode = strings.ToLower(r.text(m, "compute_mode", "compute_mode"))
	d.PowerLimit = r.number(m, "power_limit_watts", "enforced.power.limit", 1)
	d.PowerLimitDefault = r.number(m, "power_limit_default_watts", "power.default_limit", 1)
	d.SMClockMax = r.number(m, "sm_clock_max_hertz", "clocks.max.sm", mega)
	d.MemoryClockMax = r.number(m, "memory_clock_max_hertz", "clocks.max.memory", mega)
	return d
}

// state is the row as a reading. A GPU that is lost may not even tell its UUID.
func (r row) state(kind gpu.Kind) gpu.State {
	m := gpu.Missing{}
	s := gpu.State{Missing: m, UUID: r.text(m, "uuid", fieldUUID)}
	s.MemoryUsed = r.number(m, "memory_used_bytes", "memory.used", mebi)
	s.MemoryFree = r.number(m, "memory_free_bytes", "memory.free", mebi)
	if kind == gpu.Memory {
		return s
	}
	s.SMClock = r.number(m, "sm_clock_hertz", "clocks.sm", mega)
	s.Temperature = r.number(m, "temperature_celsius", "temperature.gpu", 1)
	if s.Power = r.number(m, "power_watts", "power.draw", 1); s.Power != nil {
		s.PowerKind = "usage"
	}
	const field = "clocks_throttle_reasons.active"
	if t := r.text(m, "clock_reasons", field); t != "" {
		if bits, err := strconv.ParseUint(t, 0, 64); err != nil {
			m["clock_reasons"] = fmt.Sprintf("%.40q is no number", t)
		} else {
			s.Reasons = gpu.ReasonNames(bits)
		}
	}
	if kind != gpu.Edge {
		return s
	}
	s.MemoryClock = r.number(m, "memory_clock_hertz", "clocks.mem", mega)
	s.Utilization = r.number(m, "utilization", "utilization.gpu", cent)
	s.ECCCorrected = r.number(m, "ecc_corrected", "ecc.errors.corrected.volatile.total", 1)
	s.ECCUncorrected = r.number(m, "ecc_uncorrected", "ecc.errors.uncorrected.volatile.total", 1)
	m["energy_joules"], m["memory_reserved_bytes"] = noSMI, noSMI
	for _, reason := range gpu.ThrottleReasons() {
		m["throttle_seconds."+reason] = noSMI
	}
	return s
}

// parseProcesses reads nvidia-smi's list of processes: uuid, id, memory, name. The name may hold commas.
func parseProcesses(text string) ([]gpu.Process, error) {
	found := []gpu.Process{}
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		values := strings.SplitN(l, ",", 4)
		if len(values) != 4 {
			return nil, fmt.Errorf("processes: %d values instead of 4: %.200q", len(values), l)
		}
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		pid, err := strconv.Atoi(values[1])
		if err != nil || pid < 0 {
			return nil, fmt.Errorf("processes: no process id: %.200q", l)
		}
		p := gpu.Process{UUID: values[0], PID: pid, Memory: row{"m": values[2]}.number(gpu.Missing{}, "m", "m", mebi)}
		if values[3] != "" && !strings.HasPrefix(values[3], "[") {
			p.Name = path.Base(values[3])
		}
		found = append(found, p)
	}
	return found, nil
}
