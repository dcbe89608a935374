package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Goodput are the limits that a request has to keep to count as good: a preset, or limits of your own.
type Goodput struct {
	// Preset is the name of limits that MLPerf's inference rules set for a model.
	Preset string `yaml:"preset" json:"preset,omitempty" jsonschema:"enum=llama3.1-8b,enum=llama3.1-8b-interactive,enum=llama2-70b,enum=llama2-70b-interactive,enum=llama3.1-405b,enum=llama3.1-405b-interactive,enum=mixtral-8x7b,enum=deepseek-r1,enum=deepseek-r1-interactive,enum=gpt-oss-120b,enum=gpt-oss-120b-interactive"`
	// TTFTMS is the limit on the time to the first text, in milliseconds. Absent: none.
	TTFTMS Millis `yaml:"ttft_ms" json:"ttft_ms,omitempty"`
	// TPOTMS is the limit on the time for each further token, in milliseconds. Absent: none.
	TPOTMS Millis `yaml:"tpot_ms" json:"tpot_ms,omitempty"`
}

// Millis is a time in milliseconds, above 0; 0 is "not given".
type Millis float64

// presets are the limits of MLPerf's inference rules, TTFT and TPOT in milliseconds.
var presets = map[string][2]Millis{
	"llama3.1-8b": {2000, 100}, "llama3.1-8b-interactive": {500, 30},
	"llama2-70b": {2000, 200}, "llama2-70b-interactive": {450, 40},
	"llama3.1-405b": {6000, 175}, "llama3.1-405b-interactive": {4500, 80},
	"mixtral-8x7b": {2000, 200},
	"deepseek-r1":  {2000, 80}, "deepseek-r1-interactive": {1500, 15},
	"gpt-oss-120b": {3000, 80}, "gpt-oss-120b-interactive": {2000, 20},
}

// Limits are the limits in seconds; nil: that time has none. Both are nil where nothing is asked for.
func (g Goodput) Limits() (ttft, tpot *float64) {
	of := func(ms Millis) *float64 {
		if ms == 0 {
			return nil
		}
		s := float64(ms) / 1e3
		return &s
	}
	if p, ok := presets[g.Preset]; ok {
		return of(p[0]), of(p[1])
	}
	return of(g.TTFTMS), of(g.TPOTMS)
}

// String tells the limits in words, such as "TTFT at most 450 ms, TPOT at most 40 ms (llama2-70b-interactive)".
func (g Goodput) String() string {
	var parts []string
	ttft, tpot := g.Limits()
	for _, l := range []struct {
		name  string
		limit *float64
	}{{"TTFT", ttft}, {"TPOT", tpot}} {
		if l.limit != nil {
			parts = append(parts, fmt.Sprintf("%s at most %g ms", l.name, *l.limit*1e3))
		}
	}
	text := strings.Join(parts, ", ")
	if g.Preset != "" {
		text += " (" + g.Preset + ")"
	}
	return text
}

// check finds what is wrong with the limits. That a preset is one of the list is a rule of its field.
func (g Goodput) check(ps *problems) {
	const at = "workload.goodput"
	given := slices.ContainsFunc([]string{"ttft_ms", "tpot_ms"}, func(name string) bool {
		_, ok := ps.pos[at+"."+name]
		return ok
	})
	switch _, asked := ps.pos[at]; {
	case !asked || ps.bad[at]:
	case g.Preset != "" && given:
		ps.at(at, "remove one of them", "%s: a preset and limits of your own exclude one another", at)
	case g.Preset == "" && !given:
		ps.at(at, "write `{preset: llama2-70b}` or `{ttft_ms: 2000, tpot_ms: 200}`", "%s has no limits", at)
	}
}

func (m *Millis) decodeNode(d *decoder, n *yaml.Node, path string) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v > 1e9 {
		d.at(path, "write for example 450 or 12.5", "%s: %q is no number of milliseconds above 0", path, text)
		return
	}
	*m = Millis(v)
}
