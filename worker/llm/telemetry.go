package llm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/telemetry"
	"cpbench/worker/llm/telemetry/reading"
	"cpbench/worker/result"
)

// hosts are the machines that are read while groups are measured. A nil one reads none.
type hosts struct {
	watch    *telemetry.Watch
	file     *os.File
	interval time.Duration
}

// reads are the hosts and the addresses that a spec wants to be read; false: none.
func reads(w plan.Workload) (telemetry.Options, bool) {
	t, ok := w.Reads()
	o := telemetry.Options{
		Extra: w.ExtraMetrics, Interval: time.Duration(t.Interval), Timeout: time.Duration(t.Timeout), MaxParallel: t.MaxParallel,
	}
	for _, h := range t.Hosts {
		o.Hosts = append(o.Hosts, telemetry.Host{
			Name: h.Name, SSH: h.SSH, Host: reading.Host{GPUPrefixes: h.GPUUUIDPrefixes, NICs: h.NICs, Processes: h.ProcessNames},
		})
	}
	return o, ok
}

// watchHosts begins to read the hosts of a spec; the samples are lines beside the records of the requests, in a file
// whose name says so: hosts.jsonl beside requests.jsonl.
func watchHosts(w plan.Workload, records string, log *slog.Logger) (*hosts, error) {
	o, ok := reads(w)
	if !ok {
		return nil, nil
	}
	dir, name := filepath.Split(records)
	file, err := os.OpenFile(filepath.Join(dir, strings.Replace(name, "requests", "hosts", 1)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	o.Lines = file
	o.Failed = func(target, text string) { log.Warn("telemetry", "target", target, "error", text) }
	h := &hosts{file: file, interval: o.Interval}
	if h.watch, err = telemetry.Begin(o); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return h, nil
}

// Close takes the last sample of every host.
func (h *hosts) Close() error {
	if h == nil {
		return nil
	}
	return errors.Join(h.watch.Close(), h.file.Sync(), h.file.Close())
}

// over is what the samples say about a group; nil: no hosts are read.
func (h *hosts) over(ctx context.Context, rep *group.Report) *telemetry.Window {
	if h == nil {
		return nil
	}
	begin, end := time.Now(), time.Now() // of one that sent nothing
	if len(rep.Lines) > 0 {
		begin, end = rep.Begun, rep.Begun.Add(time.Duration(rep.Group.Wall*float64(time.Second)))
	}
	win := h.watch.Over(ctx, begin, end)
	return &win
}

// Below so many readings of power during a group, or with a time between two of them that is so many intervals long, its
// energy is in doubt: what happened between the readings around the begin and the end is a guess.
const (
	fewReadings = 5
	longGap     = 3
)

// into writes what the samples say about a group into its result. The energy that the driver counts of the task's own
// server goes before that of readings.
func (h *hosts) into(r *result.Result, w *telemetry.Window) {
	if w == nil {
		return
	}
	if w.Errors > 0 {
		r.Warn(catalogue.TelemetryErrors, fmt.Sprintf("errors in the samples since the group before: %d in %d; the first one: %s", w.Errors, w.Samples, w.First), "the samples are in hosts.jsonl of the task's logs")
	}
	if w.Samples == 0 {
		r.Warn(catalogue.NoTelemetry, "no sample of the hosts came to an end since the group before", "raise telemetry.interval, or look whether the hosts answer")
	}
	if !w.HasHosts() || r.Group == nil || r.Metrics[catalogue.EnergyJoules] != nil {
		return
	}
	e := w.Energy
	r.Metrics[catalogue.EnergyJoules] = e.Joules
	perToken(r)
	if e.Joules == nil {
		r.Warn(catalogue.NoTelemetry, "the energy of the group is not known: "+e.Why, "")
		return
	}
	if e.Readings < fewReadings || *e.Gap > longGap*h.interval.Seconds() {
		r.Warn(catalogue.EnergyCoarse, fmt.Sprintf("the energy rests on %d readings of power during the group, up to %.1f s apart", e.Readings, *e.Gap),
			"shorten telemetry.interval, or make the groups longer by max_tokens")
	}
}

// lookAtHosts takes one sample of every host of a spec. Every error of one is a bad finding: what fails before anything
// is measured would fail then as well.
func lookAtHosts(ctx context.Context, w plan.Workload) ([]Looked, error) {
	o, ok := reads(w)
	if !ok {
		return nil, nil
	}
	samples, err := telemetry.Once(ctx, o)
	if err != nil {
		return nil, err
	}
	ways := map[string]string{}
	for _, h := range o.Hosts {
		if ways[h.Name] = "this machine"; h.SSH != "" {
			ways[h.Name] = "ssh " + h.SSH
		}
	}
	all := make([]Looked, len(samples))
	for i := range samples {
		s := &samples[i]
		all[i] = Looked{Target: s.URL, Sample: s, Findings: lookAtSample(s)}
		if s.URL == "" {
			all[i].Target = fmt.Sprintf("host %s (%s)", s.Host, ways[s.Host])
		}
	}
	return all, nil
}

// lookAtSample is a sample in words.
func lookAtSample(s *telemetry.Sample) preflight.Findings {
	var f preflight.Findings
	for _, text := range s.Errors {
		f = append(f, preflight.Finding{Check: preflight.Telemetry, Grade: preflight.Bad, Text: text, Advice: "every sample would miss it"})
	}
	text := ""
	switch r := s.Reading; {
	case s.Text != nil:
		text = fmt.Sprintf("%d bytes of metrics", len(*s.Text))
	case r != nil:
		text = fmt.Sprintf("GPUs %d, processes %d, interfaces %d, memory %.1f GiB", len(r.GPUs), len(r.Processes), len(r.NICs), float64(r.Memory["MemTotal"])/(1<<30))
	default:
		return f
	}
	return append(f, preflight.Finding{Check: preflight.Telemetry, Grade: preflight.OK, Text: fmt.Sprintf("%s, in %.2f s", text, s.Duration)})
}
