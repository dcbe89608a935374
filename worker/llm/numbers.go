package llm

import (
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/account"
	"cpbench/worker/llm/group"
	"cpbench/worker/result"
)

// numbers writes the metrics of a group. What could not be had is left out.
func numbers(r *result.Result, rep *group.Report) {
	g := rep.Group
	stat(r, g.TTFT, catalogue.TTFTSeconds, catalogue.TTFTP50Seconds, catalogue.TTFTP90Seconds, catalogue.TTFTP99Seconds, catalogue.TTFTMaxSeconds)
	stat(r, g.Visible, catalogue.FirstVisibleSeconds, catalogue.FirstVisibleP50Seconds, "", "", catalogue.FirstVisibleMaxSeconds)
	stat(r, g.Total, catalogue.RequestSeconds, catalogue.RequestP50Seconds, "", "", catalogue.RequestMaxSeconds)
	stat(r, g.TPOT, catalogue.TPOTSeconds, catalogue.TPOTP50Seconds, "", "", catalogue.TPOTMaxSeconds)
	stat(r, g.FrameGap, catalogue.FrameGapSeconds, catalogue.FrameGapP50Seconds, "", catalogue.FrameGapP99Seconds, catalogue.FrameGapMaxSeconds)
	stat(r, g.DecodeTPS, catalogue.DecodeTokensPerSecond, "", "", "", "")
	stat(r, g.UnbiasedTPS, catalogue.DecodeUnbiasedTokensPerSecond, "", "", "", "")
	stat(r, g.Lag, "", "", "", "", catalogue.LagMaxSeconds)
	if g.Succeeded > 0 {
		r.Set(catalogue.Stalls, float64(g.Stalls))
	}
	set(r, catalogue.AggregateTokensPerSecond, g.TPS)
	r.Set(catalogue.GroupSeconds, g.Wall)
	if rep.Overlap == nil { // the long request of the mixed case starts behind no barrier
		r.Set(catalogue.BarrierSkewSeconds, g.Skew)
	}
	set(r, catalogue.StreamsMean, g.ConcurrencyMean)
	r.Set(catalogue.StreamsMax, float64(g.ConcurrencyMax))
	tokens(r, rep)
	if rep.Delta != nil {
		counters(r, rep)
	}
	if rep.Overlap != nil {
		interference(r, rep)
	}
}

// stat writes the parts of a statistic that have a name.
func stat(r *result.Result, s account.Stat, mean, p50, p90, p99, most string) {
	set(r, mean, s.Mean)
	set(r, p50, s.P50)
	set(r, p90, s.P90)
	set(r, p99, s.P99)
	set(r, most, s.Max)
}

func set(r *result.Result, name string, v *float64) {
	if name != "" && v != nil {
		r.Set(name, *v)
	}
}

// tokens writes the counts: those that the tokenizer measured and those that the answers tell.
func tokens(r *result.Result, rep *group.Report) {
	var measured, used, cached []*int64
	for _, line := range rep.Lines {
		var n *int64
		if t := line.Request.Prompt.Tokens; t != nil {
			v := int64(*t)
			n = &v
		}
		measured = append(measured, n)
		used, cached = append(used, line.Record.Numbers.PromptTokens), append(cached, line.Record.Numbers.CachedTokens)
	}
	set(r, catalogue.PromptMeasuredTokens, meanOf(measured))
	set(r, catalogue.PromptUsedTokens, meanOf(used))
	set(r, catalogue.CachedTokens, meanOf(cached))
	if n := rep.Group.Tokens; n != nil {
		r.Set(catalogue.OutputTokens, float64(*n))
	}
}

// meanOf is the mean of some counts; nil if one of them is not known, because a mean over some would be a claim about
// all.
func meanOf(values []*int64) *float64 {
	var sum float64
	for _, v := range values {
		if v == nil {
			return nil
		}
		sum += float64(*v)
	}
	if len(values) == 0 {
		return nil
	}
	mean := sum / float64(len(values))
	return &mean
}

// counters writes what the server's counters tell of the group as a whole.
func counters(r *result.Result, rep *group.Report) {
	if rep.Cache.Source == "counters" {
		set(r, catalogue.CacheHitFraction, rep.Cache.Share)
	} else {
		set(r, catalogue.CachedFraction, rep.Cache.Share)
	}
	s := rep.Speculation
	set(r, catalogue.SpeculationRounds, s.Rounds)
	set(r, catalogue.ProposedTokens, s.Proposed)
	set(r, catalogue.AcceptedTokens, s.Accepted)
	set(r, catalogue.AcceptedPerRound, s.AcceptedPerRound)
	set(r, catalogue.AcceptedFraction, s.AcceptedPerProposed)
	set(r, catalogue.AcceptanceLength, s.MeanLength)
}

// interference writes what the long request of the mixed case did to the short ones.
func interference(r *result.Result, rep *group.Report) {
	long := rep.Lines[len(rep.Lines)-1].Record.Numbers
	set(r, catalogue.LongTTFTSeconds, long.TTFT)
	var before, during, after []float64
	var longest *float64
	for _, s := range rep.Overlap.Shorts {
		for _, part := range []struct {
			stat account.Stat
			into *[]float64
		}{{s.Before, &before}, {s.During, &during}, {s.After, &after}} {
			if part.stat.P50 != nil {
				*part.into = append(*part.into, *part.stat.P50)
			}
		}
		if m := s.During.Max; m != nil && (longest == nil || *m > *longest) {
			longest = m
		}
	}
	n := len(rep.Overlap.Shorts)
	for name, values := range map[string][]float64{
		catalogue.ShortGapBeforeP50Seconds: before, catalogue.ShortGapDuringP50Seconds: during, catalogue.ShortGapAfterP50Seconds: after,
	} {
		if len(values) == n {
			set(r, name, account.NewStat(values).Mean)
		}
	}
	set(r, catalogue.ShortGapDuringMaxSeconds, longest)
}
