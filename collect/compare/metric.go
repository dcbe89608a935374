package compare

import (
	"maps"
	"slices"
	"strings"

	"cpbench/collect/compare/cell"
	"cpbench/plan/catalogue"
)

// The main metrics of the workloads.
var (
	ofSteps   = []string{catalogue.StepSeconds, catalogue.PeakAllocatedBytes, cell.MaxFit}
	ofServing = []string{
		catalogue.TTFTSeconds, catalogue.FirstVisibleSeconds, catalogue.DecodeTokensPerSecond, catalogue.AggregateTokensPerSecond,
		catalogue.AcceptedPerRound, catalogue.LongTTFTSeconds, catalogue.ShortGapDuringP50Seconds,
	}
)

// ofGoodput are the metrics that the limits of workload.goodput make.
var ofGoodput = []string{catalogue.GoodFraction, catalogue.GoodRequestsPerSecond, catalogue.LimitsMet}

// metrics are those that are compared: the ones asked for, else the main ones of the workload.
func (c *comparison) metrics(rows []*group) ([]cell.Metric, error) {
	seen := figures(rows)
	names := c.o.Metrics
	if len(names) == 0 {
		names = c.usual(rows, seen)
	}
	var list []cell.Metric
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue // asked for twice
		}
		m, ok := metricOf(name, seen)
		if !ok {
			return nil, mistake("measured were "+strings.Join(slices.Sorted(maps.Keys(seen)), ", "), "unknown metric %q", name)
		}
		list = append(list, m)
	}
	return list, nil
}

// figures are the names of all that was measured, the program's own figures with their unit.
func figures(rows []*group) map[string]string {
	seen := map[string]string{}
	for _, g := range rows {
		for side := range g.entries {
			for e := range g.good(side) {
				for name := range e.Result.Metrics() {
					seen[name] = ""
				}
				for _, f := range e.Result.Extra {
					seen[f.Name] = f.Unit
				}
			}
		}
	}
	return seen
}

// usual are the main metrics of the workload. Of a command that tells no peak it is that of its GPUs, and the first
// visible text is left out where it is always the first of all.
func (c *comparison) usual(rows []*group, seen map[string]string) []string {
	switch _, peak := seen[catalogue.PeakAllocatedBytes]; {
	case c.kind == "llm" && sameVisible(rows):
		return slices.DeleteFunc(slices.Clone(ofServing), func(n string) bool { return n == catalogue.FirstVisibleSeconds })
	case c.kind == "llm":
		return ofServing
	case c.kind == "command" && !peak:
		return []string{catalogue.StepSeconds, catalogue.PeakDeviceBytes, cell.MaxFit}
	}
	return ofSteps
}

// metricOf is the metric of a name. False: neither the catalogue has it, nor was it measured.
func metricOf(name string, seen map[string]string) (cell.Metric, bool) {
	if name == cell.MaxFit {
		return cell.Metric{Metric: catalogue.Metric{Name: name, Unit: "1", Better: catalogue.Higher, Title: "max-fit", Scale: 1}, Kind: cell.Bracket}, true
	}
	if m, ok := catalogue.MetricByName(name); ok {
		if m.Unit == "bytes" {
			return cell.Metric{Metric: m, Kind: cell.Largest}, true
		}
		return cell.Metric{Metric: m, Kind: cell.Sampled}, true
	}
	unit, ok := seen[name]
	title := name
	if unit != "" {
		title += " (" + unit + ")"
	}
	return cell.Metric{Metric: catalogue.Metric{Name: name, Unit: unit, Title: title, Scale: 1}, Kind: cell.Sampled}, ok
}

// sameVisible reports whether the first text was always one of the answer itself, so that one time tells both.
func sameVisible(rows []*group) bool {
	for _, g := range rows {
		for side := range g.entries {
			for e := range g.good(side) {
				first, any := e.Result.Metric(catalogue.TTFTSeconds)
				if visible, ok := e.Result.Metric(catalogue.FirstVisibleSeconds); ok != any || visible != first {
					return false // another time, or no answer at all
				}
			}
		}
	}
	return true
}
