package account

import (
	"cmp"
	"fmt"
	"slices"
)

// Group is what the streams behind one barrier measured together. Percentiles are taken by PercentileMethod over the
// successful streams. Streams of one group are no repetitions: a table's n counts groups.
type Group struct {
	Streams   int            `json:"streams"`
	Succeeded int            `json:"succeeded"`
	Truncated int            `json:"truncated"`
	Failed    int            `json:"failed"`
	Length    int            `json:"finish_length"` // successes whose budget ran out, which is not a task done
	Reasons   map[Reason]int `json:"reasons,omitempty"`
	// Valid is false if a stream was no success: the load of the others was lighter, so the group compares with none.
	Valid bool `json:"valid"`

	Wall            float64  `json:"wall_s"`               // first t0 to last terminal event
	Skew            float64  `json:"barrier_skew_s"`       // last t0 - first t0
	ConcurrencyMax  int      `json:"concurrency_max"`      // most streams open at one instant
	ConcurrencyMean *float64 `json:"concurrency_mean"`     // over the wall time
	Tokens          *int64   `json:"tokens"`               // delivered by successes; null if one of them has no count
	OtherTokens     int64    `json:"tokens_not_counted"`   // of the other streams, as far as their servers told
	TPS             *float64 `json:"tokens_per_second"`    // Tokens / Wall, prefill and staggered arrivals included
	PromptTokens    *int64   `json:"prompt_tokens"`        // of all streams; null if one has no count
	CompletionSum   *int64   `json:"completion_tokens"`    // of all streams; null if one has no count
	Peak            *float64 `json:"peak_frames_per_s"`    // most text frames within one second; frames are not tokens
	PeakTokens      *float64 `json:"peak_tokens_per_s"`    // null unless the tokens of each text frame are known
	Method          string   `json:"percentile_method"`    // PercentileMethod
	Nulls           int      `json:"ttft_nulls"`           // successes without a first text
	Degraded        bool     `json:"schedule_degraded"`    // requests started too late for their schedule
	Retried         int      `json:"retried_by_transport"` // requests that went through more than one connection

	Lag         Stat `json:"lag_s"`
	TTFT        Stat `json:"ttft_s"`
	Visible     Stat `json:"first_visible_s"`
	Total       Stat `json:"total_s"`
	TPOT        Stat `json:"tpot_s"`
	DecodeTPS   Stat `json:"decode_tps"`
	UnbiasedTPS Stat `json:"decode_unbiased_tps"`
	FrameGap    Stat `json:"frame_gap_s"` // of all gaps of the successes
	Stalls      int  `json:"stalls"`

	Warnings []Warning `json:"warnings,omitempty"` // of all streams, each once, with the number of streams
}

// Sum makes the numbers of a group of records, in any order.
func Sum(records []Record) Group {
	g := Group{Streams: len(records), Reasons: map[Reason]int{}, Method: PercentileMethod}
	lines := make([]timeline, len(records))
	good := make([]Numbers, 0, len(records))
	var gaps []float64
	for i, r := range records {
		f := &records[i].Facts
		lines[i] = f.timeline()
		g.count(r)
		if r.Numbers.Outcome != Success {
			continue
		}
		good = append(good, r.Numbers)
		for _, gap := range f.frameGaps(lines[i]) {
			gaps = append(gaps, gap.length)
		}
	}
	g.Valid = g.Streams > 0 && g.Succeeded == g.Streams
	g.span(records, lines)
	g.tokens(records)
	g.stats(good, gaps)
	g.schedule(records)
	g.peaks(records, lines)
	g.warn(records)
	if len(g.Reasons) == 0 {
		g.Reasons = nil
	}
	return g
}

func (g *Group) count(r Record) {
	switch r.Numbers.Outcome {
	case Success:
		g.Succeeded++
		if r.Numbers.Finish == "length" {
			g.Length++
		}
	case Truncated:
		g.Truncated++
	case Failed:
		g.Failed++
	}
	if r.Numbers.Reason != "" {
		g.Reasons[r.Numbers.Reason]++
	}
	if r.Facts.Conn.Count > 1 {
		g.Retried++
	}
}

// span measures wall time, skew and how many streams were open.
func (g *Group) span(records []Record, lines []timeline) {
	if len(records) == 0 {
		return
	}
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	var busy, firstStart, lastStart, lastEnd int64
	for i := range records {
		f := &records[i].Facts
		length := f.terminal(lines[i])
		start, end := f.StartNS, f.StartNS+length
		edges = append(edges, edge{start, 1}, edge{end, -1})
		busy += length
		if i == 0 {
			firstStart, lastStart, lastEnd = start, start, end
		}
		firstStart, lastStart, lastEnd = min(firstStart, start), max(lastStart, start), max(lastEnd, end)
	}
	g.Wall, g.Skew = float64(lastEnd-firstStart)/1e9, float64(lastStart-firstStart)/1e9
	if g.Wall > 0 {
		mean := float64(busy) / 1e9 / g.Wall
		g.ConcurrencyMean = &mean
	}
	// A stream that ends where another begins was not open with it.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.delta-b.delta) })
	open := 0
	for _, e := range edges {
		open += e.delta
		g.ConcurrencyMax = max(g.ConcurrencyMax, open)
	}
}

// tokens adds up the servers' counts. A sum with a part missing is no sum.
func (g *Group) tokens(records []Record) {
	var delivered, prompts, completions int64
	counted, allPrompts, allCompletions := g.Succeeded > 0, len(records) > 0, len(records) > 0
	for _, r := range records {
		n := r.Numbers
		prompts, completions = prompts+deref(n.PromptTokens), completions+deref(n.CompletionTokens)
		allPrompts, allCompletions = allPrompts && n.PromptTokens != nil, allCompletions && n.CompletionTokens != nil
		if n.Outcome != Success {
			g.OtherTokens += deref(n.CompletionTokens)
			continue
		}
		delivered += deref(n.CompletionTokens)
		counted = counted && n.CompletionTokens != nil
	}
	if allPrompts {
		g.PromptTokens = &prompts
	}
	if allCompletions {
		g.CompletionSum = &completions
	}
	if counted {
		g.Tokens = &delivered
		if g.Wall > 0 {
			tps := float64(delivered) / g.Wall
			g.TPS = &tps
		}
	}
}

func (g *Group) stats(good []Numbers, gaps []float64) {
	of := func(pick func(Numbers) *float64) Stat {
		values := make([]*float64, len(good))
		for i, n := range good {
			values[i] = pick(n)
		}
		return statOf(values)
	}
	g.TTFT = of(func(n Numbers) *float64 { return n.TTFT })
	g.Visible = of(func(n Numbers) *float64 { return n.Visible })
	g.Total = of(func(n Numbers) *float64 { return n.Total })
	g.TPOT = of(func(n Numbers) *float64 { return n.TPOT })
	g.DecodeTPS = of(func(n Numbers) *float64 { return n.DecodeTPS })
	g.UnbiasedTPS = of(func(n Numbers) *float64 { return n.UnbiasedTPS })
	g.FrameGap = NewStat(gaps)
	g.Nulls = g.TTFT.Nulls
	for _, n := range good {
		g.Stalls += n.Stalls.Count
	}
}

// warn gathers the warnings of the streams.
func (g *Group) warn(records []Record) {
	count := map[WarningCode]int{}
	first := map[WarningCode]string{}
	var order []WarningCode
	for _, r := range records {
		for _, w := range r.Numbers.Warnings {
			if count[w.Code]++; count[w.Code] == 1 {
				order = append(order, w.Code)
				first[w.Code] = w.Text
			}
		}
	}
	for _, code := range order {
		g.Warnings = append(g.Warnings, Warning{code, fmt.Sprintf("%s (%d of %d streams)", first[code], count[code], len(records))})
	}
}
