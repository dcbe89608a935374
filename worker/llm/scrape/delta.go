package scrape

import (
	"fmt"
	"slices"
)

// Delta is what changed between two snapshots. A nil is not known: the server does not count it, or a reset lies
// between.
type Delta struct {
	PromptTokens     *float64 `json:"prompt_tokens"`
	GenerationTokens *float64 `json:"generation_tokens"`
	Finished         *float64 `json:"requests_finished"`
	Preempted        *float64 `json:"requests_preempted"`
	CacheQueries     *float64 `json:"cache_queries"`
	CacheHits        *float64 `json:"cache_hits"`

	Rounds   *float64  `json:"spec_rounds"`
	Proposed *float64  `json:"spec_proposed"`
	Accepted *float64  `json:"spec_accepted"` // without bonus tokens
	PerPos   []float64 `json:"spec_accepted_per_position"`

	// Resets are the signs that counters began anew in between: then no difference is known and a run that needs one
	// has failed. Empty: there are none.
	Resets []string `json:"resets,omitempty"`
}

// maxResets bounds the signs that are told one by one.
const maxResets = 5

// Between is what changed from before to after. Every series counts, not only the sums: of two engines one may
// restart while the other makes up for it.
func Between(before, after Snapshot) Delta {
	d := Delta{Resets: resets(&before, &after)}
	if len(d.Resets) > 0 {
		return d
	}
	for q, to := range map[quantity]**float64{
		promptTokens: &d.PromptTokens, generationTokens: &d.GenerationTokens, finished: &d.Finished, preempted: &d.Preempted,
		cacheQueries: &d.CacheQueries, cacheHits: &d.CacheHits, rounds: &d.Rounds, proposed: &d.Proposed, accepted: &d.Accepted,
	} {
		*to = minus(after.sum(q), before.sum(q))
	}
	d.PerPos = perPosition(before.positions(), after.positions())
	return d
}

// minus is a difference, nil if one of the values is.
func minus(after, before *float64) *float64 {
	if after == nil || before == nil {
		return nil
	}
	v := *after - *before
	return &v
}

// perPosition is the difference by place. A place that is new was 0 before, since drafts may have become longer.
func perPosition(before, after []float64) []float64 {
	if before == nil || len(after) < len(before) {
		return nil
	}
	out := slices.Clone(after)
	for i, v := range before {
		out[i] -= v
	}
	return out
}

// resets are the signs of a restart: a counter that fell or is gone, a time of creation or a set of engines that
// changed. A fall alone would miss a process that has climbed past the old values.
func resets(before, after *Snapshot) []string {
	var signs []string
	for key, b := range before.series {
		a, ok := after.series[key]
		switch {
		case b.kind == gauge:
		case !ok:
			signs = append(signs, key+" is gone")
		case b.kind == created && a.value != b.value:
			signs = append(signs, key+" has changed")
		case a.value < b.value:
			signs = append(signs, fmt.Sprintf("%s fell from %v to %v", key, b.value, a.value))
		}
	}
	if b, a := before.engines(running), after.engines(running); !slices.Equal(b, a) {
		signs = append(signs, fmt.Sprintf("the engines were %v and are %v", b, a))
	}
	slices.Sort(signs)
	if n := len(signs); n > maxResets {
		signs = append(signs[:maxResets], fmt.Sprintf("and %d more", n-maxResets))
	}
	return signs
}
