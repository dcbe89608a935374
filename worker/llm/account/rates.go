package account

import "slices"

// rates makes the three rates of the whole answer. All have the span from the first to the last text below.
func (n *Numbers) rates(f Facts, t timeline) {
	completion := n.CompletionTokens
	span, why := span(t, t.text, completion)
	if why == "" && completion == nil {
		why = NoUsage
	}
	if why != "" {
		n.Nulls["decode_tps"], n.Nulls["decode_unbiased_tps"], n.Nulls["tpot_s"] = why, why, why
		return
	}
	tps, tpot := float64(*completion)/span, span/float64(*completion-1)
	n.DecodeTPS, n.TPOT = &tps, &tpot
	first, ok := f.usageAt(t.text[0])
	if !ok {
		n.Nulls["decode_unbiased_tps"] = NoContinuous
		return
	}
	unbiased := float64(*completion-first) / span
	n.UnbiasedTPS = &unbiased
}

// span is the time in seconds between the first and the last of some frames, or why there can be no rate over it.
func span(t timeline, frames []int, tokens *int64) (float64, Null) {
	switch {
	case len(frames) == 0:
		return 0, NoText
	case tokens != nil && *tokens <= 1:
		return 0, SingleToken
	}
	first, last := frames[0], frames[len(frames)-1]
	if t.read[first] == t.read[last] || t.at[first] == t.at[last] {
		return 0, SingleRead
	}
	return float64(t.at[last]-t.at[first]) / 1e9, ""
}

// usageAt is the completion count that stood in a frame.
func (f *Facts) usageAt(frame int) (int64, bool) {
	i, ok := slices.BinarySearch(f.UsageFrames, frame)
	if !ok || i >= len(f.UsageTokens) {
		return 0, false
	}
	return f.UsageTokens[i], true
}

// gaps are the times between text frames that came with different reads. Frames of one read have no gap between them:
// nobody knows when the server made the later ones.
func (n *Numbers) gaps(f Facts, t timeline) {
	n.Frames = len(t.text)
	for k := 0; k <= t.last; k++ {
		if f.Kinds[k] == KindComment {
			n.Comments++
		}
	}
	gaps := f.frameGaps(t)
	lengths := make([]float64, len(gaps))
	for i, g := range gaps {
		lengths[i] = g.length
	}
	n.Together = max(0, len(t.text)-1-len(gaps))
	n.FrameGap = NewStat(lengths)
	n.GapIsITL = n.Together == 0 && len(gaps) > 0 && f.oneTokenEach(t)
	n.Stalls.Factor = f.Rules.StallFactor
	if n.Stalls.Factor <= 0 {
		n.Stalls.Factor = DefaultStallFactor
	}
	if len(lengths) == 0 {
		return
	}
	n.Stalls.Longest = n.FrameGap.Max
	for _, g := range lengths {
		if g > n.Stalls.Factor**n.FrameGap.P50 {
			n.Stalls.Count++
		}
	}
}

// gap is the time between two text frames.
type gap struct {
	end    int64 // ns from t0
	length float64
}

func (f *Facts) frameGaps(t timeline) []gap {
	var gaps []gap
	for i := 1; i < len(t.text); i++ {
		before, now := t.text[i-1], t.text[i]
		if t.read[before] != t.read[now] {
			gaps = append(gaps, gap{t.at[now], float64(t.at[now]-t.at[before]) / 1e9})
		}
	}
	return gaps
}

// oneTokenEach reports whether continuous usage shows that every text frame after the first brought one token.
func (f *Facts) oneTokenEach(t timeline) bool {
	before := int64(0)
	for i, k := range t.text {
		now, ok := f.usageAt(k)
		if !ok || i > 0 && now != before+1 {
			return false
		}
		before = now
	}
	return true
}

const (
	withControl = "includes control tokens"
	withTools   = "includes control tokens and tool calls"
)

// channels counts and times each channel by itself. The server's count of the reasoning beats the tokenizer's.
func (n *Numbers) channels(f Facts, t timeline) {
	var byTokenizer Retokenized
	if f.Retokenized != nil {
		byTokenizer = *f.Retokenized
	}
	for i, c := range []struct {
		name    string
		into    *Channel
		counted *int64
	}{
		{"reasoning", &n.Reasoning, byTokenizer.Reasoning},
		{"content", &n.Content, byTokenizer.Content},
		{"tool", &n.Tool, byTokenizer.Tool},
	} {
		var frames []int
		for _, k := range t.text {
			if channels(f.Kinds[k])&(1<<i) != 0 {
				frames = append(frames, k)
			}
		}
		c.into.count(c.counted)
		if i < 2 {
			n.serverCount(c.name, f, c.into)
		}
		n.channelRate(c.name, c.into, t, frames)
	}
}

func (c *Channel) count(byTokenizer *int64) {
	c.Source = MissingCount
	if byTokenizer != nil {
		c.Tokens, c.Source = byTokenizer, RetokenizedText
	}
}

// ReasoningTokens is how many tokens of the answer were reasoning by the server's own count; nil if it tells none. A 0
// beside reasoning text tells none: the usage of SGLang had the field before anything counted for it.
func (f *Facts) ReasoningTokens() *int64 {
	if f.Usage == nil || f.Usage.Reasoning == nil || *f.Usage.Reasoning == 0 && f.TextBytes[0] > 0 {
		return nil
	}
	return f.Usage.Reasoning
}

// serverCount replaces a count by the server's, if it tells how much was reasoning.
func (n *Numbers) serverCount(name string, f Facts, c *Channel) {
	u, thought := f.Usage, f.ReasoningTokens()
	if thought == nil {
		return
	}
	if name == "reasoning" {
		c.Tokens, c.Source = thought, ServerUsage
		return
	}
	if u.Completion == nil {
		return
	}
	c.Tokens, c.Source, c.Note = nil, ServerUsage, withControl
	if f.TextBytes[2] > 0 {
		c.Note = withTools
	}
	if rest := *u.Completion - *thought; rest >= 0 {
		c.Tokens = &rest
		return
	}
	n.Nulls["content.tokens"] = Above
}

func (n *Numbers) channelRate(name string, c *Channel, t timeline, frames []int) {
	c.Frames = len(frames)
	span, why := span(t, frames, c.Tokens)
	if len(frames) > 0 {
		c.First, c.Last = seconds(&t.at[frames[0]]), seconds(&t.at[frames[len(frames)-1]])
	}
	switch {
	case why != "":
	case c.Tokens == nil && n.Nulls[name+".tokens"] != "":
		why = n.Nulls[name+".tokens"]
	case c.Tokens == nil:
		why = NoCount
		n.Nulls[name+".tokens"] = why
	}
	if why != "" {
		n.Nulls[name+".tps"] = why
		return
	}
	tps := float64(*c.Tokens-1) / span
	c.TPS = &tps
}
