// Package peer makes the numbers that other load clients would have shown for requests that were recorded here: use
// Compare with the records of one group. It takes the definitions of those clients as their public sources have them,
// and the log as it is, so that a difference is one of definitions and not of two runs.
//
// What it does not imitate are faults of their parsers: every tool is given the frames that account has understood.
package peer

import (
	"math"
	"slices"

	"cpbench/worker/llm/account"
)

// Tool is a load client whose definitions are known.
type Tool string

// The closed list of tools.
const (
	VLLM     Tool = "vllm"
	AIPerf   Tool = "aiperf"
	GuideLLM Tool = "guidellm"
)

// Tools are all of them.
func Tools() []Tool { return []Tool{VLLM, AIPerf, GuideLLM} }

// Known reports whether the tool is in the list.
func (t Tool) Known() bool { return slices.Contains(Tools(), t) }

// Version is the program and the version whose sources were read.
func (t Tool) Version() string { return definitions[t].version }

// Figure is one number of a group, by two definitions. A nil number could not be had, or the tool has no such figure;
// Why says so.
type Figure struct {
	Name   Name     `json:"figure"`
	Theirs string   `json:"name_there,omitempty"` // the tool's own name of it; empty: it has none
	Ours   *float64 `json:"cpbench"`
	Other  *float64 `json:"other"`
	Why    string   `json:"why,omitempty"` // the two differ; empty: they are equal
}

// Name is the name of a figure. Times are seconds.
type Name string

// The figures, in the order of a table.
const (
	Requests  Name = "requests"         // that count as successes
	TTFT      Name = "ttft_seconds"     // mean
	TTFTP50   Name = "ttft_p50_seconds" // median
	TTFTP99   Name = "ttft_p99_seconds"
	Visible   Name = "first_visible_seconds" // mean
	TPOT      Name = "tpot_seconds"          // mean
	FromStart Name = "tpot_from_start_seconds"
	Gap       Name = "frame_gap_seconds" // mean over all gaps
	GapP50    Name = "frame_gap_p50_seconds"
	GapMax    Name = "frame_gap_max_seconds"
	Latency   Name = "request_seconds" // mean
	Tokens    Name = "output_tokens"   // delivered by the successes
	Rate      Name = "aggregate_tokens_per_second"
)

// Names are all figures in their order.
func Names() []Name {
	return []Name{Requests, TTFT, TTFTP50, TTFTP99, Visible, TPOT, FromStart, Gap, GapP50, GapMax, Latency, Tokens, Rate}
}

// definition is what is known of a tool.
type definition struct {
	version string
	judge   func(f *account.Facts) request
	fold    func(requests []request) map[Name]*float64
	words   map[Name]words
}

// words are the tool's name of a figure, and what its definition does otherwise than ours.
type words struct{ name, why string }

var definitions = map[Tool]definition{
	VLLM:     {"vllm bench serve 0.32.0", judgeVLLM, foldNumpy, wordsVLLM},
	AIPerf:   {"aiperf 0.13.0 with --use-server-token-count", judgeAIPerf, foldNumpy, wordsAIPerf},
	GuideLLM: {"guidellm 0.8.1", judgeGuideLLM, foldGuideLLM, wordsGuideLLM},
}

// request is what a tool makes of one request. Times are seconds, a nil one is missing.
type request struct {
	counted bool   // as a success
	unknown string // why the log cannot tell what the tool would have seen
	lacks   string // why a success has no count of tokens

	ttft, visible, last, latency, tpot *float64

	gaps    []float64
	tokens  *int64
	started int64 // ns from the epoch, for the time of the whole; both 0: no part of it
	ended   int64
}

const (
	otherRequests = "it counts other requests as successes"
	sameFormula   = "the formula is the same"
)

// Compare makes the figures of one group by our definition and by the tool's. A group of which one request cannot be
// judged by the log has no figures of the tool: some of them would be a claim about all.
func Compare(tool Tool, records []account.Record) []Figure {
	d := definitions[tool]
	ours := oursOf(account.Sum(records))
	var all []request
	unknown, lacks, sameSet := "", "", true
	for i := range records {
		q := d.judge(&records[i].Facts)
		all = append(all, q)
		if unknown == "" {
			unknown = q.unknown
		}
		if q.counted && q.tokens == nil && lacks == "" {
			lacks = q.lacks
		}
		sameSet = sameSet && q.counted == (records[i].Numbers.Outcome == account.Success)
	}
	theirs := map[Name]*float64{}
	if unknown == "" {
		theirs = d.fold(all)
	}
	var figures []Figure
	for _, name := range Names() {
		w, known := d.words[name]
		f := Figure{Name: name, Theirs: w.name, Ours: ours[name], Other: theirs[name]}
		if f.Ours == nil && !known {
			continue // of another tool
		}
		f.Why = why(f, w, unknown, lacks, sameSet)
		figures = append(figures, f)
	}
	return figures
}

// why says in words why the two numbers of a figure differ; empty if they do not.
func why(f Figure, w words, unknown, lacks string, sameSet bool) string {
	counts := f.Name == Tokens || f.Name == Rate || f.Name == TPOT || f.Name == FromStart
	switch {
	case f.Theirs == "":
		return w.why // it has no such figure
	case unknown != "":
		return unknown
	case f.Other == nil && counts && lacks != "":
		return lacks
	case f.Other == nil && f.Ours == nil, f.Other != nil && f.Ours != nil && near(*f.Other, *f.Ours):
		return ""
	case !sameSet && f.Name != Requests:
		return join(otherRequests, w.why)
	}
	return w.why
}

func join(a, b string) string {
	if b == sameFormula {
		return a
	}
	return a + "; " + b
}

// near allows for sums that were made in another order.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// oursOf are the figures of a group by our own definitions.
func oursOf(g account.Group) map[Name]*float64 {
	requests := float64(g.Succeeded)
	m := map[Name]*float64{
		Requests: &requests, TTFT: g.TTFT.Mean, TTFTP50: g.TTFT.P50, TTFTP99: g.TTFT.P99, Visible: g.Visible.Mean, TPOT: g.TPOT.Mean,
		Gap: g.FrameGap.Mean, GapP50: g.FrameGap.P50, GapMax: g.FrameGap.Max, Latency: g.Total.Mean, Rate: g.TPS,
	}
	if g.Tokens != nil {
		n := float64(*g.Tokens)
		m[Tokens] = &n
	}
	return m
}

// Same puts the figures of two sums of one group side by side, both by our definitions.
func Same(stored, now account.Group) []Figure {
	a, b := oursOf(stored), oursOf(now)
	var figures []Figure
	for _, name := range Names() {
		if name == FromStart {
			continue // no figure of ours
		}
		f := Figure{Name: name, Ours: a[name], Other: b[name]}
		if (f.Ours == nil) != (f.Other == nil) || f.Ours != nil && *f.Ours != *f.Other {
			f.Why = "another version of cpbench has made what is stored, or the file was changed"
		}
		figures = append(figures, f)
	}
	return figures
}
