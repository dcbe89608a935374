// Package scrape reads the metrics of an LLM server around a group of requests: whether the server was idle before
// it, what the group changed, and whether anything else used the server meanwhile. Use Source.WaitIdle before a group,
// Source.Fetch after it, and Between for the differences. It is the only door to the Prometheus text parser.
//
// What a server does not tell is nil, never 0. Names differ over servers and versions; names.go has all of them.
package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// series is one line of the text: a name and labels. Its key is unique within a snapshot.
type series struct {
	endpoint int // index of the address that it comes from
	name     string
	labels   map[string]string
	value    float64
	kind     kind
}

// kind says how a series may move.
type kind int

const (
	gauge   kind = iota // any way
	counter             // up only
	created             // not at all while the process lives
)

// Snapshot is what the metrics of a server said at one time, from all its addresses.
type Snapshot struct {
	At     time.Time // when the last answer had been read
	series map[string]series
}

// key is the name of a series with its labels in order, and the address if there are several.
func (s *series) key() string {
	var b strings.Builder
	if s.endpoint > 0 {
		fmt.Fprintf(&b, "[%d]", s.endpoint)
	}
	b.WriteString(s.name)
	sep := byte('{')
	for _, name := range slices.Sorted(maps.Keys(s.labels)) {
		b.WriteByte(sep)
		b.WriteString(name + "=" + strconv.Quote(s.labels[name]))
		sep = ','
	}
	if sep == ',' {
		b.WriteByte('}')
	}
	return b.String()
}

// Started tells when the processes of the server began, in order; empty if it does not tell.
func (s *Snapshot) Started() string {
	var times []string
	for _, one := range s.series {
		if one.name == processStart {
			times = append(times, time.Unix(0, int64(one.value*1e9)).UTC().Format(time.RFC3339))
		}
	}
	slices.Sort(times)
	return strings.Join(times, ", ")
}

// Parse reads the text of one address. It is an error if any line is broken, if a series stands there twice, or if
// what is counted is no finite number: half a text would look like a server that was restarted.
func Parse(text []byte) (Snapshot, error) {
	s := Snapshot{series: map[string]series{}}
	return s, s.add(0, text)
}

// add parses the text of one address into the snapshot.
func (s *Snapshot) add(endpoint int, text []byte) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return err
	}
	for name, family := range families {
		if !known(name) {
			continue // of the process, of the web framework: not of the model
		}
		for _, m := range family.GetMetric() {
			for _, one := range flatten(name, family.GetType(), m) {
				one.endpoint = endpoint
				if isCreated(name, families) {
					one.kind = created
				}
				if err := s.put(one); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// put adds a series.
func (s *Snapshot) put(one series) error {
	key := one.key()
	if _, twice := s.series[key]; twice {
		return fmt.Errorf("the series %s stands there twice", key)
	}
	if one.value-one.value != 0 { // NaN or infinite
		if one.kind != gauge {
			return fmt.Errorf("the counter %s is %v", key, one.value)
		}
		return nil // a gauge that says nothing is missing
	}
	s.series[key] = one
	return nil
}

// flatten turns one metric into the series that are compared. Buckets are left out: their sum is the count.
func flatten(name string, t dto.MetricType, m *dto.Metric) []series {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	one := func(suffix string, value float64, k kind) series {
		return series{name: name + suffix, labels: labels, value: value, kind: k}
	}
	switch t {
	case dto.MetricType_COUNTER:
		return []series{one("", m.GetCounter().GetValue(), counter)}
	case dto.MetricType_GAUGE:
		return []series{one("", m.GetGauge().GetValue(), gauge)}
	case dto.MetricType_HISTOGRAM:
		h := m.GetHistogram()
		return []series{one("_count", max(float64(h.GetSampleCount()), h.GetSampleCountFloat()), counter), one("_sum", h.GetSampleSum(), counter)}
	case dto.MetricType_SUMMARY:
		return []series{one("_count", float64(m.GetSummary().GetSampleCount()), counter), one("_sum", m.GetSummary().GetSampleSum(), counter)}
	case dto.MetricType_UNTYPED:
		// Text without TYPE lines, and OpenMetrics text, whose TYPE lines leave out the suffix.
		k := gauge
		if strings.HasSuffix(name, "_total") {
			k = counter
		}
		return []series{one("", m.GetUntyped().GetValue(), k)}
	case dto.MetricType_GAUGE_HISTOGRAM: // no server has one
	}
	return nil
}

// isCreated reports whether a family holds the times at which other series were created. Such lines are Unix times and
// no counts, however much their names look like those of counters (vllm#41916).
func isCreated(name string, families map[string]*dto.MetricFamily) bool {
	if name == processStart {
		return true
	}
	base, ok := strings.CutSuffix(name, "_created")
	if !ok {
		return false
	}
	for _, of := range []string{base, base + "_total", base + "_count"} {
		if _, ok := families[of]; ok {
			return true
		}
	}
	return false
}

// Merge makes one snapshot of those of several addresses, in the order of the addresses.
func Merge(parts ...Snapshot) (Snapshot, error) {
	all := Snapshot{series: map[string]series{}}
	var errs []error
	for i, p := range parts {
		if p.At.After(all.At) {
			all.At = p.At
		}
		for _, one := range p.series {
			one.endpoint = i
			errs = append(errs, all.put(one))
		}
	}
	return all, errors.Join(errs...)
}
