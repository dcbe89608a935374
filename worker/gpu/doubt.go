package gpu

import (
	"fmt"
	"slices"
)

// DoubtKind names what a Usage says against a number.
type DoubtKind string

// The kinds of doubts.
const (
	PowerCapped DoubtKind = "power_capped" // held back by the power limit for more than 1 % of the time: information, normal under load
	Throttled   DoubtKind = "throttled"    // held back by heat or by the power brake: the time is suspect
	ECCErrors   DoubtKind = "ecc_errors"   // memory errors that were not corrected
)

// Doubt is one of them in words.
type Doubt struct {
	Kind DoubtKind `json:"kind"`
	Text string    `json:"text"`
}

// cappedAbove is the share of the time above which the power limit is worth a word.
const cappedAbove = 0.01

// Doubts tells what happened to the GPUs that qualifies a time measured meanwhile. What is not known raises no doubt
// here; Missing tells it.
func (u Usage) Doubts() []Doubt {
	var doubts []Doubt
	add := func(kind DoubtKind, format string, args ...any) {
		doubts = append(doubts, Doubt{kind, fmt.Sprintf(format, args...)})
	}
	for _, g := range u.GPUs {
		for _, reason := range ThrottleReasons() {
			s := g.Throttle[reason]
			switch {
			case s <= 0 || u.Seconds <= 0:
			case reason == SWThermal, reason == HWThermal, reason == PowerBrake:
				add(Throttled, "%s: clocks lowered for %.3g s of %.3g s (%s)", g.UUID, s, u.Seconds, reason)
			case reason == PowerCap && s/u.Seconds > cappedAbove:
				add(PowerCapped, "%s: held at the power limit for %.0f %% of the time", g.UUID, 100*s/u.Seconds)
			}
		}
		for _, reason := range g.Reasons { // where no counter tells for how long
			if slices.Contains(lowering, reason) && !g.counts(reason) {
				add(Throttled, "%s: clocks were seen lowered (%s)", g.UUID, reason)
			}
		}
		if g.ECCUncorrected != nil && *g.ECCUncorrected > 0 {
			add(ECCErrors, "%s: %.0f memory errors that were not corrected", g.UUID, *g.ECCUncorrected)
		}
	}
	return doubts
}

// lowering are the reasons for lowered clocks that are not normal under load.
var lowering = []string{SWThermal, HWThermal, PowerBrake, hwSlowdown}

// counts reports whether a counter tells of a reason. The slowdown by hardware is by heat or by the power brake.
func (g DeviceUsage) counts(reason string) bool {
	if reason == hwSlowdown {
		return g.counts(HWThermal) && g.counts(PowerBrake)
	}
	_, ok := g.Throttle[reason]
	return ok
}
