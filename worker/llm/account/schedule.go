package account

import (
	"cmp"
	"slices"
)

const (
	lagLimit = 10e-3 // seconds
	lagShare = 0.05  // of the mean time between two intended starts
)

// schedule compares the starts with the intended ones. Latency that is counted from a late start flatters the server.
func (g *Group) schedule(records []Record) {
	var lags []*float64
	var intended []int64
	for _, r := range records {
		lags = append(lags, r.Numbers.Lag)
		if r.Facts.ScheduledNS != nil {
			intended = append(intended, r.Facts.StartNS+*r.Facts.ScheduledNS)
		}
	}
	g.Lag = statOf(lags)
	worst := g.Lag.P99
	if worst == nil {
		worst = g.Lag.Max
	}
	if worst == nil {
		return
	}
	limit := lagLimit
	slices.Sort(intended)
	if n := len(intended); n > 1 && intended[n-1] > intended[0] { // an open loop; behind a barrier all are equal
		limit = min(limit, lagShare*float64(intended[n-1]-intended[0])/1e9/float64(n-1))
	}
	g.Degraded = *worst > limit
}

// peaks finds the busiest second. It counts frames; tokens only where continuous usage tells them for each frame.
func (g *Group) peaks(records []Record, lines []timeline) {
	type arrival struct{ at, tokens int64 }
	var all []arrival
	known := true
	for i := range records {
		f := &records[i].Facts
		before := int64(0)
		for _, k := range lines[i].text {
			now, ok := f.usageAt(k)
			known = known && ok
			all = append(all, arrival{f.StartNS + lines[i].at[k], now - before})
			before = now
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	var frames, tokens, most, mostTokens int64
	from := 0
	for _, a := range all {
		frames, tokens = frames+1, tokens+a.tokens
		for ; a.at-all[from].at >= 1e9; from++ {
			frames, tokens = frames-1, tokens-all[from].tokens
		}
		most, mostTokens = max(most, frames), max(mostTokens, tokens)
	}
	peak, peakTokens := float64(most), float64(mostTokens)
	if g.Peak = &peak; known {
		g.PeakTokens = &peakTokens
	}
}
