package model

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/gpu"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// watchFrom is how long the timed steps must be expected to take before the GPUs are looked at meanwhile: looking
// disturbs, and the counters at the edges need none.
const watchFrom = 3 * time.Second

// telemetry is what the session knows of the node's GPUs. A session without GPUs has none.
type telemetry struct {
	sampler *gpu.Sampler
	devices []gpu.Device
	facts   map[string]string
	doubt   string // why readings are missing, or poorer than they could be
	log     *os.File
	used    bool // by an execution of this session
}

// openTelemetry finds a source of readings. Nothing of it can fail a session: what is wrong becomes a doubt.
func (s *session) openTelemetry(ctx context.Context) {
	shape := s.job.Run.Plan.Arrays[s.job.Task.Array].Shape
	if shape.GPUsPerNode == 0 {
		return
	}
	t := &telemetry{facts: map[string]string{}}
	opts := gpu.Options{Start: func(cmd *exec.Cmd) (func() error, error) {
		child, err := tree.StartSpared(cmd)
		if err != nil {
			return nil, err
		}
		return child.Wait, nil
	}}
	if _, err := os.Stat(s.job.Run.GPUHelper()); err == nil {
		opts.Helper = s.job.Run.GPUHelper()
	}
	log, err := os.OpenFile(filepath.Join(s.job.LogDir, "telemetry.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		t.log, opts.Log = log, log
	}
	var source gpu.Source
	t.sampler, source, t.doubt = gpu.Open(ctx, opts)
	t.facts["telemetry"] = string(source)
	if devices, err := t.sampler.Identify(ctx); err == nil {
		if t.devices, err = gpu.Visible(devices, os.LookupEnv); err != nil {
			t.doubt = err.Error()
		}
	}
	t.describe()
	s.gpus = t
	s.job.Log.Info("gpus", "source", source, "devices", len(t.devices), "doubt", t.doubt)
}

// describe keeps the facts about the devices, and limits readings to them.
func (t *telemetry) describe() {
	var uuids []string
	for _, d := range t.devices {
		uuids = append(uuids, d.UUID)
	}
	if len(uuids) == 0 {
		return
	}
	t.sampler.Select(uuids)
	t.facts["gpu_count"] = fmt.Sprint(len(t.devices))
	each := func(key string, of func(gpu.Device) string) {
		var values []string
		for _, d := range t.devices {
			if v := of(d); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			t.facts[key] = strings.Join(values, " + ") // more than one is worth seeing
		}
	}
	each("gpu", func(d gpu.Device) string { return d.Name })
	each("driver", func(d gpu.Device) string { return d.Driver })
	each("cuda_driver", func(d gpu.Device) string { return d.CUDADriver })
	each("vbios", func(d gpu.Device) string { return d.VBIOS })
	each("ecc", func(d gpu.Device) string { return d.ECC })
	each("mig", func(d gpu.Device) string { return d.MIG })
	each("persistence", func(d gpu.Device) string { return d.Persistence })
	each("power_limit_watts", func(d gpu.Device) string {
		if d.PowerLimit == nil {
			return ""
		}
		return fmt.Sprintf("%g", *d.PowerLimit)
	})
}

func (t *telemetry) close() {
	if t == nil {
		return
	}
	t.sampler.Close()
	if t.log != nil {
		t.log.Close()
	}
}

// enter writes what is known of the GPUs into a result.
func (t *telemetry) enter(r *result.Result) {
	if t == nil {
		return
	}
	for key, value := range t.facts {
		r.Provenance[key] = value
	}
	if t.doubt != "" {
		r.Warn(catalogue.NoTelemetry, "the GPUs could not be read as well as they can be: "+t.doubt, "")
	}
}

// settleLimit is how long the memory of processes that have ended may stay in use.
const settleLimit = 30 * time.Second

// clean looks whether the GPUs are empty and enough for the ranks of this node, before any of them starts. What an
// execution before this one left behind has some time to go.
func (t *telemetry) clean(ctx context.Context, ranks int) ending {
	if t == nil || len(t.devices) == 0 {
		return ending{}
	}
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for began := time.Now(); ; {
		now, err := t.sampler.Edge(ctx)
		if err != nil {
			return ending{} // the doubt is told by whoever measures
		}
		processes, err := t.sampler.Processes(ctx)
		if err != nil {
			processes = nil
		}
		end := problem(gpu.Preflight(t.devices, now, processes, gpu.Expectation{Ranks: ranks}))
		if end.outcome != catalogue.DirtyGPU || !t.used || time.Since(began) > settleLimit {
			t.used = true
			return end
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return stopped(ctx)
		}
	}
}

// claimed compares what the ranks say of their devices with the devices that are there.
func (t *telemetry) claimed(e *execution) ending {
	if t == nil || len(t.devices) == 0 || e.nodes() > 1 {
		return ending{} // of other nodes nothing is known here
	}
	var claims []gpu.Claim
	for i, r := range e.ranks {
		c := gpu.Claim{Rank: i, Name: r.hello.Device.Name, UUID: r.hello.Device.UUID}
		if c.UUID != "" { // else no GPU, or a program that does not tell; its memory may be a limit below the device's
			claims = append(claims, c)
		}
	}
	return problem(gpu.Preflight(t.devices, gpu.Reading{}, nil, gpu.Expectation{Threshold: -1, Claims: claims}))
}

func problem(found []gpu.Problem) ending {
	if len(found) == 0 {
		return ending{}
	}
	var texts []string
	for _, p := range found {
		texts = append(texts, p.Text)
	}
	return ending{outcome: found[0].Outcome, reason: found[0].Text, evidence: strings.Join(texts, "\n"), final: true}
}

// around carries out the timed steps and writes what happened to the GPUs meanwhile into the result.
func (t *telemetry) around(ctx context.Context, expected time.Duration, r *result.Result, steps func() (times, ending)) (times, ending) {
	if t == nil || len(t.devices) == 0 {
		return steps()
	}
	before, err := t.sampler.Edge(ctx)
	if err != nil {
		r.Warn(catalogue.NoTelemetry, "no reading of the GPUs before the timed steps: "+err.Error(), "")
		return steps()
	}
	var watch *gpu.Watcher
	if expected > watchFrom {
		watch = t.sampler.Watch(ctx, gpu.Timed)
	}
	timed, end := steps()
	var seen gpu.Seen
	if watch != nil {
		seen = watch.Stop()
	}
	after, err := t.sampler.Edge(ctx)
	if err != nil {
		r.Warn(catalogue.NoTelemetry, "no reading of the GPUs after the timed steps: "+err.Error(), "")
		return timed, end
	}
	t.record(gpu.Delta(before, after, seen), r)
	return timed, end
}

func (t *telemetry) record(u gpu.Usage, r *result.Result) {
	for name, v := range map[string]*float64{
		catalogue.EnergyJoules: u.Energy, catalogue.PowerMedianWatts: u.PowerMedian, catalogue.ThrottledFraction: u.ThrottledFraction,
		catalogue.SMClockMedianHertz: u.SMClockMedian, catalogue.TemperatureMax: u.TemperatureMax,
	} {
		r.Metrics[name] = v
	}
	if r.Metrics[catalogue.PeakDeviceBytes] == nil {
		r.Metrics[catalogue.PeakDeviceBytes] = u.MemoryPeak
	}
	if len(u.Missing) > 0 {
		var why []string
		for _, name := range slices.Sorted(maps.Keys(u.Missing)) {
			why = append(why, name+" ("+u.Missing[name]+")")
		}
		r.Warn(catalogue.NoTelemetry, "not known of the GPUs: "+strings.Join(why, ", "), "")
	}
	codes := map[gpu.DoubtKind]catalogue.Code{gpu.PowerCapped: catalogue.PowerCapped, gpu.Throttled: catalogue.Throttled, gpu.ECCErrors: catalogue.ECCErrors}
	for _, d := range u.Doubts() {
		r.Warn(codes[d.Kind], d.Text, "")
	}
}
