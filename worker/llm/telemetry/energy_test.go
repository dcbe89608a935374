package telemetry

import (
	"math"
	"testing"
)

func TestIntegrate(t *testing.T) {
	t.Parallel()
	w := func(at, watts float64) Watts { return Watts{at, &watts} }
	null := func(at float64) Watts { return Watts{at, nil} }
	for name, c := range map[string]struct {
		readings []Watts
		joules   float64
		n        int
		gap      float64
		why      string
	}{
		"flat":                    {[]Watts{w(9, 50), w(11, 50), w(13, 50), w(15, 50)}, 200, 2, 2, ""},
		"at begin and end":        {[]Watts{w(10, 100), w(14, 100)}, 400, 2, 4, ""},
		"a ramp":                  {[]Watts{w(8, 0), w(16, 80)}, 160, 0, 8, ""}, // 20 W at the begin, 60 W at the end
		"a step is a slope":       {[]Watts{w(9, 0), w(11, 100), w(13, 100), w(15, 0)}, 75 + 200 + 75, 2, 2, ""},
		"more than is needed":     {[]Watts{w(0, 900), w(9, 50), w(11, 50), w(15, 50), w(99, 900)}, 200, 1, 4, ""},
		"a null lies between":     {[]Watts{w(9, 50), null(11), null(13), w(15, 50)}, 200, 0, 6, ""},
		"two at the same instant": {[]Watts{w(9, 50), w(11, 50), w(11, 50), w(15, 50)}, 200, 2, 4, ""},
		"none before":             {[]Watts{w(10.5, 50), w(15, 50)}, 0, 1, 0, "no power was read before the group, 0.5 s into it for the first time"},
		"none after":              {[]Watts{w(9, 50), w(13.5, 50)}, 0, 1, 0, "no power was read after the group, for the last time 0.5 s before its end"},
		"null before":             {[]Watts{null(9), w(11, 50), w(15, 50)}, 0, 1, 0, "no power was read before the group, 1.0 s into it for the first time"},
		"a single one":            {[]Watts{w(9, 50)}, 0, 0, 0, "no power was read after the group, for the last time 5.0 s before its end"},
		"no power":                {[]Watts{null(9), null(15)}, 0, 0, 0, "its power cannot be read"},
		"nothing":                 {nil, 0, 0, 0, "its power cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, why := integrate(c.readings, 10, 14)
			if why != c.why {
				t.Fatalf("%q, want %q", why, c.why)
			}
			if c.why == "" && (math.Abs(got.joules-c.joules) > 1e-9 || got.readings != c.n || got.gap != c.gap) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A sum over some GPUs would be a claim about all.
func TestTotal(t *testing.T) {
	t.Parallel()
	a := &sum{host: "a"}
	a.add(integral{100, 7, 2})
	a.add(integral{50, 5, 3})
	none, bad := &sum{host: "no GPU"}, &sum{host: "b", why: "its GPUs could not be read"}
	if e := total([]*sum{none, a}); *e.Joules != 150 || e.GPUs != 2 || e.Readings != 5 || *e.Gap != 3 || e.Why != "" {
		t.Errorf("%+v", e)
	}
	if e := total([]*sum{a, bad}); e.Joules != nil || e.Why != "b: its GPUs could not be read" {
		t.Errorf("%+v", e)
	}
	if e := total([]*sum{none}); e.Joules != nil || e.Why != "no host has a GPU that nvidia-smi shows" {
		t.Errorf("%+v", e)
	}
	if e := total(nil); e.Joules != nil || e.Why != "" {
		t.Errorf("%+v", e)
	}
}
