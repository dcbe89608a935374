package scrape

import "fmt"

// Verdict says whether the server did only what the group asked of it.
type Verdict string

// The closed list of verdicts.
const (
	Clean        Verdict = "clean"
	Contaminated Verdict = "contaminated" // foreign traffic, a restart, or a fault of a parser
	Unaudited    Verdict = "unaudited"    // the server counts nothing that could be compared
)

// Own is what the requests of a group add up to by their own answers. A nil is not known, for example because an
// answer had no usage, and is not compared.
type Own struct {
	Finished     *int64 // requests that ended with a finish reason
	PromptTokens *int64 // sum of usage.prompt_tokens
	OutputTokens *int64 // sum of usage.completion_tokens
}

// Audit is the comparison of the server's counters with a group's own sums.
type Audit struct {
	Verdict     Verdict      `json:"verdict"`
	Differences []Difference `json:"differences,omitempty"`
	Skipped     []string     `json:"skipped,omitempty"` // what was not compared, and why
}

// Difference is a sum on which server and answers do not agree.
type Difference struct {
	What   string  `json:"what"`
	Server float64 `json:"server"`
	Own    float64 `json:"own"`
}

// Check compares the differences around a group, settle time included, with the group's own sums.
func Check(d Delta, own Own) Audit {
	a := Audit{Verdict: Unaudited}
	if len(d.Resets) > 0 {
		return Audit{Verdict: Contaminated, Skipped: []string{"everything: the counters began anew: " + d.Resets[0]}}
	}
	a.compare("requests", d.Finished, own.Finished)
	if d.Preempted != nil && *d.Preempted > 0 {
		a.Skipped = append(a.Skipped, fmt.Sprintf("prompt tokens: %v requests were preempted, and their prompts are counted again", *d.Preempted))
	} else {
		a.compare("prompt tokens", d.PromptTokens, own.PromptTokens)
	}
	a.compare("generated tokens", d.GenerationTokens, own.OutputTokens)
	return a
}

func (a *Audit) compare(what string, server *float64, own *int64) {
	switch {
	case server == nil:
		a.Skipped = append(a.Skipped, what+": the server does not count them")
	case own == nil:
		a.Skipped = append(a.Skipped, what+": not every answer tells them")
	case *server != float64(*own):
		a.Verdict = Contaminated
		a.Differences = append(a.Differences, Difference{what, *server, float64(*own)})
	case a.Verdict == Unaudited:
		a.Verdict = Clean
	}
}
