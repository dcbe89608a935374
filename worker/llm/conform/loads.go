package conform

import (
	"errors"
	"fmt"
	"strings"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/scrape"
)

// loadChecks look at several requests: streams at once, connections, counters.
var loadChecks = []check{
	{Check{"streams at once", "guidellm#487, vllm#54101", "a server with fewer slots lets the others wait, and their TTFT is that of the queue"}, together},
	{Check{"keep-alive", "llm-d#1564, vllm#21981", "a connection for every request puts its handshake into the first measured time of the next one"}, func(e *evidence) (Verdict, string) {
		if !e.again.ok() {
			return Fail, e.again.failure()
		}
		if !e.again.facts.Conn.Reused {
			return Warn, "the connection was not used for the next request; cpbench opens them before the barrier"
		}
		return Pass, "the next request went over the same connection"
	}},
	{Check{"metrics", "vllm#41916, vllm#18354, speculators#1095", "without gauges nothing shows that the server was idle, and without counters nothing that it was ours alone"}, metrics},
	{Check{"counters", "vllm#54227", "counters that move by the sums of the answers show that nothing else ran and that nothing was counted wrongly"}, func(e *evidence) (Verdict, string) {
		if e.metrics != nil {
			return NotOffered, "the metrics cannot be read"
		}
		switch e.audit.Verdict {
		case scrape.Unaudited:
			return NotOffered, "the server counts nothing that could be compared"
		case scrape.Contaminated:
			if len(e.delta.Resets) > 0 {
				return Fail, "the counters began anew: " + e.delta.Resets[0]
			}
			var all []string
			for _, d := range e.audit.Differences {
				all = append(all, fmt.Sprintf("%s: the server counts %v and the answers %v", d.What, d.Server, d.Own))
			}
			return Fail, strings.Join(all, "; ")
		case scrape.Clean:
		}
		seen := fmt.Sprintf("moved by exactly the sums of the answers, %.1f s after the last of them", e.settled.Seconds())
		if len(e.audit.Skipped) > 0 {
			seen += "; not compared: " + strings.Join(e.audit.Skipped, ", ")
		}
		return Pass, seen
	}},
	{Check{"abort", "vllm#29928, vllm#31503", "a gauge that stays up after an abort lets every later group be refused as not idle"}, func(e *evidence) (Verdict, string) {
		switch a := e.abort; {
		case a.err != nil:
			return Fail, a.err.Error()
		case !a.tried || e.load.Running == nil || e.load.Waiting == nil:
			return NotOffered, "no gauges of running and waiting requests"
		case a.ended:
			return NotOffered, "the answer had ended before it could be broken off"
		case !a.idle:
			return Fail, fmt.Sprintf("a request that was broken off still runs after %.1f s", a.took.Seconds())
		default:
			return Pass, fmt.Sprintf("the gauges are 0 again %.1f s after a stream was broken off", a.took.Seconds())
		}
	}},
}

// together tells how many streams of one barrier generated at the same time.
func together(e *evidence) (Verdict, string) {
	var records []account.Record
	for _, a := range e.wide {
		if !a.ok() {
			return Fail, a.failure()
		}
		records = append(records, account.Record{Facts: a.facts, Numbers: a.numbers})
	}
	if len(records) == 0 {
		return NotOffered, "they were not sent"
	}
	most, first, last := 0, 0.0, 0.0
	for i, r := range records {
		n := r.Numbers
		if n.TTFT == nil || n.LastText == nil {
			return NotOffered, "a stream has no text"
		}
		begun := float64(r.Facts.StartNS)/1e9 + *n.TTFT
		open := 0 // streams that were generating when the text of this one began
		for _, o := range records {
			from := float64(o.Facts.StartNS)/1e9 + *o.Numbers.TTFT
			to := float64(o.Facts.StartNS)/1e9 + *o.Numbers.LastText
			if from <= begun && begun <= to {
				open++
			}
		}
		most = max(most, open)
		if i == 0 || *n.TTFT < first {
			first = *n.TTFT
		}
		last = max(last, *n.TTFT)
	}
	seen := fmt.Sprintf("%d of %d generated at the same time; their first texts came after %.4g to %.4g ms", most, len(records), first*1e3, last*1e3)
	if most < len(records) {
		return Warn, seen + ": the server has fewer slots, or the answers are too short to meet"
	}
	return Pass, seen
}

// metrics tells what of the metrics is there.
func metrics(e *evidence) (Verdict, string) {
	switch busy := new(scrape.NotIdle); {
	case errors.As(e.metrics, &busy):
		return Fail, e.metrics.Error()
	case e.metrics != nil:
		return Warn, brief(e.metrics.Error()) + ": groups are refused without them"
	}
	var there, missing []string
	for _, q := range []struct {
		name         string
		have, needed bool
	}{
		{"running", e.load.Running != nil, true},
		{"waiting", e.load.Waiting != nil, true},
		{"prompt tokens", e.delta.PromptTokens != nil, true},
		{"generated tokens", e.delta.GenerationTokens != nil, true},
		{"finished requests", e.delta.Finished != nil, false},
		{"preemptions", e.delta.Preempted != nil, false},
		{"cache queries and hits", e.delta.CacheQueries != nil && e.delta.CacheHits != nil, false},
		{"rounds of speculation", e.delta.Rounds != nil, false},
	} {
		if q.have {
			there = append(there, q.name)
		} else if missing = append(missing, q.name); q.needed && len(e.delta.Resets) == 0 {
			missing[len(missing)-1] += " (needed)"
		}
	}
	seen := "there are " + strings.Join(there, ", ")
	if len(missing) > 0 {
		seen += "; there are no " + strings.Join(missing, ", ")
	}
	if strings.Contains(seen, "(needed)") {
		return Fail, seen
	}
	return Pass, seen
}
