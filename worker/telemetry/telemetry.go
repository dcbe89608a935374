// Package telemetry is what a session knows of the GPUs of its nodes: it looks whether they are clean before an
// execution starts, reads them around what is timed, and writes facts, figures and doubts into results. Use one in every
// workload that may have GPUs; without GPUs, or without readings, it measures nothing and fails nothing.
//
// A figure of the whole job needs readings of every node: if one has none, the figure is null, and one warning names the
// node and the reason.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"cpbench/plan/catalogue"
	"cpbench/worker/gpu"
	"cpbench/worker/node"
	"cpbench/worker/result"
)

// Telemetry is what a session knows of the GPUs of its nodes.
type Telemetry struct {
	nodes *node.Fleet
	gpus  int // of each node that the task has; 0: there is nothing to read
	seen  []member
	used  bool // an execution of this session has used the GPUs
}

// member is what is known of one node.
type member struct {
	name    string
	source  gpu.Source
	doubt   string             // why readings are missing, or poorer than they could be
	lacking string             // why there are none at all
	devices []gpu.Device       // that the task may use
	idle    map[string]float64 // bytes in use on each GPU before the present execution
}

// Open finds a source of readings for this node; the others are asked once an execution needs them. gpus is the number
// of GPUs that the task has on each node. Nothing of it can fail a session: what is wrong becomes a doubt.
func Open(ctx context.Context, nodes *node.Fleet, gpus int, log *slog.Logger) *Telemetry {
	t := &Telemetry{nodes: nodes, gpus: gpus}
	if gpus == 0 {
		return t
	}
	t.meet(ctx, 1)
	m := t.seen[0]
	log.Info("gpus", "source", m.source, "devices", len(m.devices), "doubt", m.doubt)
	return t
}

// meet asks the first n nodes for their GPUs, if one of them has not been asked yet.
func (t *Telemetry) meet(ctx context.Context, n int) {
	if n <= len(t.seen) {
		return
	}
	var seen []member
	for _, r := range t.nodes.Ask(ctx, n, node.Request{Do: node.Identify}) {
		m := member{name: r.Node, source: gpu.None}
		switch id := r.Identity; {
		case r.Err != nil:
			m.lacking = r.Err.Error()
		case id == nil:
			m.lacking = "no answer"
		default:
			m.source, m.doubt, m.devices = id.Source, id.Doubt, id.Devices
			if len(m.devices) == 0 {
				m.lacking = "no GPU that can be read"
			}
		}
		seen = append(seen, m)
	}
	if ctx.Err() == nil {
		t.seen = seen
	} else if len(t.seen) == 0 { // it is asked again, should there be a next time
		t.seen = seen[:1]
	}
}

// Enter writes what is known of the first n nodes and their GPUs into a result.
func (t *Telemetry) Enter(r *result.Result, n int) {
	known := t.seen[:min(n, len(t.seen))]
	doubts := map[string][]string{} // nodes by doubt
	for _, m := range known {
		if m.doubt != "" {
			doubts[m.doubt] = append(doubts[m.doubt], m.name)
		}
	}
	for _, doubt := range slices.Sorted(maps.Keys(doubts)) {
		text := "the GPUs could not be read as well as they can be: " + doubt
		if n > 1 {
			text += " (" + strings.Join(doubts[doubt], ", ") + ")"
		}
		r.Warn(catalogue.NoTelemetry, text, "")
	}
	if n > 1 {
		r.Provenance["hosts"] = strings.Join(t.nodes.Names(n), " ")
	}
	if n > 1 && t.gpus > 0 {
		lack(r, t.lacking(n))
	}
	if len(known) > 0 {
		maps.Copy(r.Provenance, facts(known))
	}
}

// unsupported are the words with which NVML and nvidia-smi say that a GPU has no such thing, as one for desktops has no
// MIG. That is known, and not missing.
var unsupported = []string{"NOT_SUPPORTED", "Not Supported", "N/A"}

// facts describes the GPUs of some nodes, this one first. More than one value of a fact is worth seeing.
func facts(known []member) map[string]string {
	all := map[string]string{}
	each := func(key string, list []string) {
		var values []string
		for _, v := range list {
			if v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			all[key] = strings.Join(values, " + ")
		}
	}
	var sources []string
	var devices []gpu.Device
	for _, m := range known {
		sources = append(sources, string(m.source))
		devices = append(devices, m.devices...)
	}
	each("telemetry", sources)
	of := func(key string, devices []gpu.Device, value func(gpu.Device) string) {
		var list []string
		for _, d := range devices {
			v := value(d)
			if v == "" && slices.Contains(unsupported, d.Missing[key]) {
				v = "not supported"
			}
			list = append(list, v)
		}
		each(key, list)
	}
	if here := known[0].devices; len(here) > 0 {
		all["gpu_count"] = fmt.Sprint(len(here))
		of("gpu_pci", here, func(d gpu.Device) string { return d.PCI }) // its neighbours are looked up on this node
	}
	of("gpu", devices, func(d gpu.Device) string { return d.Name })
	of("gpu_uuid", devices, func(d gpu.Device) string { return d.UUID })
	of("driver", devices, func(d gpu.Device) string { return d.Driver })
	of("cuda_driver", devices, func(d gpu.Device) string { return d.CUDADriver })
	of("vbios", devices, func(d gpu.Device) string { return d.VBIOS })
	of("compute_mode", devices, func(d gpu.Device) string { return d.ComputeMode })
	of("persistence", devices, func(d gpu.Device) string { return d.Persistence })
	of("ecc", devices, func(d gpu.Device) string { return d.ECC })
	of("mig", devices, func(d gpu.Device) string { return d.MIG })
	for key, value := range map[string]func(gpu.Device) *float64{
		"gpu_memory_bytes":          func(d gpu.Device) *float64 { return d.MemoryTotal },
		"power_limit_watts":         func(d gpu.Device) *float64 { return d.PowerLimit },
		"power_limit_default_watts": func(d gpu.Device) *float64 { return d.PowerLimitDefault },
		"sm_clock_max_hertz":        func(d gpu.Device) *float64 { return d.SMClockMax },
		"memory_clock_max_hertz":    func(d gpu.Device) *float64 { return d.MemoryClockMax },
	} {
		of(key, devices, func(d gpu.Device) string {
			if v := value(d); v != nil {
				return fmt.Sprintf("%.12g", *v)
			}
			return ""
		})
	}
	return all
}

// readable reports whether there is anything to be read on the first n nodes.
func (t *Telemetry) readable(n int) bool {
	return t.gpus > 0 && slices.ContainsFunc(t.seen[:min(n, len(t.seen))], func(m member) bool { return len(m.devices) > 0 })
}
