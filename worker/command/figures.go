package command

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"github.com/tidwall/gjson"
)

// figure is a number that the program writes.
type figure struct {
	name   string
	unit   string
	metric bool    // a metric of the catalogue, kept in its base unit
	scale  float64 // from the unit of the spec to the base unit
	re     *regexp.Regexp
	file   string // pattern of a JSON file
	path   string // where the number stands in it, in the language of gjson
}

// units are the units in which a metric of the catalogue may be written, in its base unit.
var units = map[string]map[string]float64{
	"seconds": {"s": 1, "sec": 1, "seconds": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60, "h": 3600},
	"bytes": {
		"B": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	},
}

func compileFigure(f plan.Figure) (figure, error) {
	c := figure{name: f.Name, unit: f.Unit, scale: 1}
	if f.Regex != "" {
		re, err := regexp.Compile(f.Regex)
		if err != nil {
			return c, err
		}
		if re.NumSubexp() == 0 {
			return c, fmt.Errorf("%q has no group for the number", f.Regex)
		}
		c.re = re
	}
	c.file, c.path, _ = strings.Cut(f.JSON, ":")
	m, ok := catalogue.MetricByName(f.Name)
	if !ok {
		return c, nil
	}
	c.metric = true
	if f.Unit == "" || f.Unit == m.Unit {
		return c, nil
	}
	scale, ok := units[m.Unit][f.Unit]
	if !ok {
		return c, fmt.Errorf("%s is in %s, and the unit %q cannot be converted to that", f.Name, m.Unit, f.Unit)
	}
	c.scale = scale
	return c, nil
}

// read reads the figures of a run, in their base units; NaN is "not found".
func (s *session) read(x run) []float64 {
	values := make([]float64, len(s.figures))
	var lines []string
	for i, f := range s.figures {
		if f.re != nil && lines == nil {
			// A progress bar returns to the start of its line.
			lines = strings.FieldsFunc(tail(x.log, figureBytes), func(c rune) bool { return c == '\n' || c == '\r' })
		}
		text, why := "", ""
		if f.re != nil {
			text, why = f.inLines(lines)
		} else {
			text, why = f.inFile(&x)
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if why == "" && (err != nil || math.IsNaN(v*f.scale) || math.IsInf(v*f.scale, 0)) {
			why = fmt.Sprintf("%.40q is not a number", text)
		}
		if values[i] = v * f.scale; why != "" {
			values[i] = math.NaN()
			s.job.Log.Warn("no figure", "name", f.name, "why", why)
		}
	}
	return values
}

// inLines finds the figure in the last line that matches.
func (f *figure) inLines(lines []string) (text, why string) {
	for _, line := range slices.Backward(lines) {
		if at := f.re.FindStringSubmatch(line); at != nil {
			return at[1], ""
		}
	}
	return "", "no line of the output matches"
}

// maxJSON is the largest JSON file that is read.
const maxJSON = 64 << 20

// inFile finds the figure in the newest file that the run has written.
func (f *figure) inFile(x *run) (text, why string) {
	files, why := x.written(f.file)
	if why != "" {
		return "", why
	}
	path := files[len(files)-1]
	if info, err := os.Stat(path); err != nil || info.Size() > maxJSON {
		return "", path + " is larger than what is read, or gone"
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err.Error()
	}
	if !gjson.ValidBytes(data) {
		return "", path + " is not JSON"
	}
	v := gjson.GetBytes(data, f.path)
	switch v.Type {
	case gjson.Number:
		return v.Raw, "" // as it is written, without a way through another type
	case gjson.String:
		return v.Str, ""
	case gjson.Null, gjson.False, gjson.True, gjson.JSON:
	}
	return "", fmt.Sprintf("%s has no number at %s", path, f.path)
}

// measurement gathers the timed runs of one execution.
type measurement struct {
	figures []figure
	first   float64 // seconds of the very first run; NaN: not known, 0: there was none
	wall    []float64
	values  [][]float64 // by run and figure
}

// step is the place of the figure step_seconds, which replaces the time of the whole run; -1: there is none.
func (m *measurement) step() int {
	return slices.IndexFunc(m.figures, func(f figure) bool { return f.name == catalogue.StepSeconds })
}

func (m *measurement) add(seconds float64, values []float64, timed bool) {
	if m.first == 0 {
		if m.first = seconds; m.step() >= 0 {
			m.first = values[m.step()]
		}
	}
	if timed {
		m.wall = append(m.wall, seconds)
		m.values = append(m.values, values)
	}
}

// steps are the times of the timed runs: of the whole program, or what the program says of its step. None if it does
// not say that of every run, because the two are different things.
func (m *measurement) steps() []float64 {
	i := m.step()
	if i < 0 {
		return m.wall
	}
	var steps []float64
	for _, v := range m.values {
		if math.IsNaN(v[i]) || v[i] < 0 {
			return nil
		}
		steps = append(steps, v[i])
	}
	return steps
}

// samples are the lines of the sidecar.
func (m *measurement) samples() []result.Sample {
	var out []result.Sample
	for i, v := range m.steps() {
		out = append(out, result.Sample{Iteration: i + 1, Seconds: []float64{v}})
	}
	return out
}

// wallSeconds is the figure with the time of the whole program where step_seconds is something else.
const wallSeconds = "wall_seconds"

// into puts what was measured into the result.
func (m *measurement) into(r *result.Result, warmup int) {
	if m.first > 0 { // false for NaN
		r.Set(catalogue.FirstStepSeconds, m.first)
	}
	if len(m.wall) == 0 {
		return
	}
	if steps := m.steps(); len(steps) > 0 {
		columns := make([][]float64, len(steps))
		for i, v := range steps {
			columns[i] = []float64{v}
		}
		sum, warnings := result.Summarize(columns, warmup)
		r.Steps = &sum
		r.Warnings = append(r.Warnings, warnings...)
		r.Set(catalogue.StepSeconds, sum.Median)
	}
	for i, f := range m.figures {
		m.figure(i, f, r)
	}
	if m.step() >= 0 {
		r.Extra = append(r.Extra, result.Figure{Name: wallSeconds, Value: result.Median(m.wall), Unit: "s"})
	}
}

// figure puts the median of one figure into the result, and tells where it is missing.
func (m *measurement) figure(i int, f figure, r *result.Result) {
	var found []float64
	for _, v := range m.values {
		if !math.IsNaN(v[i]) {
			found = append(found, v[i])
		}
	}
	if n := len(m.values); len(found) < n {
		r.Warn(catalogue.FigureMissing, fmt.Sprintf("%s was found in %d of %d runs", f.name, len(found), n), "see events.jsonl in the task's log folder for the reason")
	}
	switch {
	case len(found) == 0 || f.name == catalogue.StepSeconds: // done with the steps
	case f.metric:
		r.Set(f.name, result.Median(found))
	default:
		r.Extra = append(r.Extra, result.Figure{Name: f.name, Value: result.Median(found), Unit: f.unit})
	}
}
