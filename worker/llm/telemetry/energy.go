package telemetry

import (
	"fmt"
	"strings"
)

// Energy is what the GPUs of all hosts took during a group: the power of each, integrated over the time between its
// readings by the trapezoidal rule, from the begin of the group to its end.
type Energy struct {
	Joules *float64 `json:"joules"` // null: it is not known of every GPU
	GPUs   int      `json:"gpus"`
	// Readings are the fewest of a GPU during the group, and Gap is the longest time in seconds between two of them that
	// the sum rests on. Together they say how much may have gone unseen.
	Readings int      `json:"readings"`
	Gap      *float64 `json:"reading_gap_max_s"`
	Why      string   `json:"reason,omitempty"` // why it is not known
}

// sum is the energy of the GPUs of one host.
type sum struct {
	host     string
	why      string // why it is not known
	gpus     int
	joules   float64
	readings int
	gap      float64
}

// integral is the energy of one GPU.
type integral struct {
	joules   float64
	readings int     // during the group
	gap      float64 // longest time between two readings
}

// integrate sums power over time between two instants. It needs a reading before or at the begin and one at or after the
// end, and says why where there is none: nothing is known of what was before the first reading and after the last one.
func integrate(readings []Watts, begin, end float64) (sum integral, why string) {
	var before *Watts
	for i := range readings {
		r := &readings[i]
		if r.Watts == nil {
			continue // the two around it are further apart then
		}
		if r.Offset >= begin && r.Offset <= end {
			sum.readings++
		}
		if before == nil {
			if r.Offset > begin {
				return sum, fmt.Sprintf("no power was read before the group, %.1f s into it for the first time", r.Offset-begin)
			}
			before = r
			continue
		}
		if from, to := max(before.Offset, begin), min(r.Offset, end); from < to {
			sum.joules += (to - from) * (power(*before, *r, from) + power(*before, *r, to)) / 2
			sum.gap = max(sum.gap, r.Offset-before.Offset)
		}
		before = r
	}
	switch {
	case before == nil:
		return sum, "its power cannot be read"
	case before.Offset < end:
		return sum, fmt.Sprintf("no power was read after the group, for the last time %.1f s before its end", end-before.Offset)
	}
	return sum, ""
}

// power is the power at an instant between two readings.
func power(a, b Watts, at float64) float64 {
	if b.Offset == a.Offset {
		return *b.Watts
	}
	return *a.Watts + (*b.Watts-*a.Watts)*(at-a.Offset)/(b.Offset-a.Offset)
}

// add adds a GPU.
func (s *sum) add(e integral) {
	if s.readings = min(s.readings, e.readings); s.gpus == 0 {
		s.readings = e.readings
	}
	s.gpus++
	s.joules, s.gap = s.joules+e.joules, max(s.gap, e.gap)
}

// total is the energy of all hosts; a sum over some would be a claim about all.
func total(hosts []*sum) Energy {
	var e Energy
	var joules, gap float64
	var why []string
	for _, h := range hosts {
		switch {
		case h.why != "":
			why = append(why, h.host+": "+h.why)
		case h.gpus > 0:
			if e.Readings = min(e.Readings, h.readings); e.GPUs == 0 {
				e.Readings = h.readings
			}
			e.GPUs += h.gpus
			joules, gap = joules+h.joules, max(gap, h.gap)
		}
	}
	switch {
	case len(why) > 0:
		e.Why = strings.Join(why, "; ")
	case e.GPUs == 0 && len(hosts) > 0:
		e.Why = "no host has a GPU that nvidia-smi shows"
	case e.GPUs > 0:
		e.Joules, e.Gap = &joules, &gap
	}
	return e
}
