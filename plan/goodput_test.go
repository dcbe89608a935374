package plan

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The names that a spec may give are those of the table.
func TestPresets(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[Goodput]().FieldByName("Preset")
	names := rulesOf(field).enum
	if len(names) != len(presets) || len(names) == 0 {
		t.Errorf("%d names and %d presets", len(names), len(presets))
	}
	for _, name := range names {
		p, ok := presets[name]
		if !ok || p[0] <= p[1] || p[1] <= 0 {
			t.Errorf("%s: %v", name, p)
		}
		if q, ok := presets[name+"-interactive"]; ok && (q[0] >= p[0] || q[1] >= p[1]) {
			t.Errorf("%s: %v, and interactively %v", name, p, q)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s := func(v float64) *float64 { return &v }
	for name, c := range map[string]struct {
		goodput Goodput
		want    [2]*float64
		words   string
	}{
		"none":    {Goodput{}, [2]*float64{}, ""},
		"preset":  {Goodput{Preset: "llama2-70b-interactive"}, [2]*float64{s(.45), s(.04)}, "TTFT at most 450 ms, TPOT at most 40 ms (llama2-70b-interactive)"},
		"own":     {Goodput{TTFTMS: 2000, TPOTMS: 12.5}, [2]*float64{s(2), s(.0125)}, "TTFT at most 2000 ms, TPOT at most 12.5 ms"},
		"one own": {Goodput{TPOTMS: 20}, [2]*float64{nil, s(.02)}, "TPOT at most 20 ms"},
	} {
		if got := c.goodput.String(); got != c.words {
			t.Errorf("%s: %q", name, got)
		}
		ttft, tpot := c.goodput.Limits()
		if d := cmp.Diff(c.want, [2]*float64{ttft, tpot}); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
