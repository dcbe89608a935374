package scrape

import "fmt"

// Speculation is what speculative decoding did during a group. It is the server's, never one stream's: the counters
// are global.
type Speculation struct {
	Rounds   *float64 `json:"rounds"`
	Proposed *float64 `json:"proposed"`
	Accepted *float64 `json:"accepted"`

	AcceptedPerRound    *float64  `json:"accepted_per_round"`     // no bonus token added
	AcceptedPerProposed *float64  `json:"accepted_per_proposed"`  // the acceptance rate
	MeanLength          *float64  `json:"mean_acceptance_length"` // 1 + accepted per round: with the token that each round gives anyway
	PositionPerRound    []float64 `json:"accepted_per_round_by_position"`

	// Lifetime is what a server tells that has only averages since its start; they are no result of the group.
	Lifetime *Lifetime `json:"lifetime,omitempty"`
	// Broken are the identities that the counters violate; then they are not to be believed.
	Broken []string `json:"broken,omitempty"`
}

// Lifetime are averages since the server started.
type Lifetime struct {
	AcceptLength *float64 `json:"accept_length"`
	AcceptRate   *float64 `json:"accept_rate"`
}

// Speculate makes the summary of a group from its differences and the snapshot after it. Rates without rounds are nil.
func Speculate(d Delta, after Snapshot) Speculation {
	s := Speculation{Rounds: d.Rounds, Proposed: d.Proposed, Accepted: d.Accepted}
	if l := (Lifetime{after.single(acceptLength), after.single(acceptRate)}); l != (Lifetime{}) {
		s.Lifetime = &l
	}
	if d.Rounds == nil || *d.Rounds <= 0 {
		return s
	}
	s.AcceptedPerRound = ratio(d.Accepted, d.Rounds)
	s.AcceptedPerProposed = ratio(d.Accepted, d.Proposed)
	if s.AcceptedPerRound != nil {
		v := 1 + *s.AcceptedPerRound
		s.MeanLength = &v
	}
	for _, v := range d.PerPos {
		s.PositionPerRound = append(s.PositionPerRound, v / *d.Rounds)
	}
	s.Broken = d.broken()
	return s
}

func ratio(a, b *float64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	v := *a / *b
	return &v
}

// broken checks what must hold if there were rounds.
func (d *Delta) broken() []string {
	var out []string
	if d.Accepted != nil && d.Proposed != nil && *d.Accepted > *d.Proposed {
		out = append(out, fmt.Sprintf("%v tokens were accepted and only %v proposed", *d.Accepted, *d.Proposed))
	}
	if d.PerPos == nil {
		return out
	}
	var sum float64
	for i, v := range d.PerPos {
		if i > 0 && v > d.PerPos[i-1] {
			out = append(out, fmt.Sprintf("%v tokens were accepted at position %d and only %v at the one before", v, i, d.PerPos[i-1]))
		}
		sum += v
	}
	if d.Accepted != nil && sum != *d.Accepted {
		out = append(out, fmt.Sprintf("the positions add up to %v accepted tokens and the counter to %v", sum, *d.Accepted))
	}
	return out
}
