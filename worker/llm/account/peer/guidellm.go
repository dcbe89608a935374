package peer

import "cpbench/worker/llm/account"

// The definitions of GuideLLM 0.8.1: guidellm/schemas/base/request_stats.py for one request, _resolve_streaming and
// _trace_request_start in guidellm/backends/openai/http.py for its instants, add_streaming_line and extract_metrics of the
// chat handler in guidellm/backends/openai/request_handlers.py for frames and counts, guidellm/benchmark/schemas/metrics.py
// and guidellm/schemas/base/statistics.py for all requests. All its times are of the wall clock.

var wordsGuideLLM = map[Name]words{
	Requests:  {"Successful Requests", "an error in a frame is a failure as here, but no finish reason or no [DONE] is none; an answer without text is a success if its usage counts tokens"},
	TTFT:      {"TTFT mean", "it begins when the header is about to be written, so the wait for a connection is left out"},
	TTFTP50:   {"TTFT median", "it begins when the header is about to be written, so the wait for a connection is left out"},
	TTFTP99:   {"TTFT p99", "it is told from one value on; cpbench tells a 99th percentile from 100 values on"},
	Visible:   {"TTFOT mean", "it begins when the header is about to be written, and a tool call counts as well"},
	TPOT:      {"ITL mean", "(last text - first text) / (tokens - 1), and the mean is weighted by tokens: a long answer counts more than a short one"},
	FromStart: {"TPOT mean", "(last text - start) / tokens, with the wait for the first text in it, weighted by tokens; cpbench has no such figure"},
	Gap:       {"", "it keeps no time between frames"},
	GapP50:    {"", "it keeps no time between frames"},
	GapMax:    {"", "it keeps no time between frames"},
	Latency:   {"Request Latency mean", "from when the header is about to be written to [DONE], or to the end of the body without one"},
	Tokens:    {"Output Tokens", "where the server tells no usage, every frame with text is taken for a token"},
	Rate:      {"Output Tokens/s mean", "tokens / time from the first header to the end of the last request"},
}

func judgeGuideLLM(f *account.Facts) request {
	q := request{unknown: unknowable(f, true)}
	start := int64(0)
	if f.ConnNS != nil {
		start = *f.ConnNS
	}
	w := watchGuideLLM(f)
	q.started, q.ended = f.StartNS+start, f.StartNS+w.end
	usage := usageGuideLLM(f)
	empty := f.TextBytes[1] == 0 && f.TextBytes[2] == 0 && (usage == nil || *usage == 0)
	whole := (f.Failure == nil || w.done) && f.InBand == nil && !w.broken
	q.counted = f.Status >= 200 && f.Status < 300 && whole && !empty
	if !q.counted {
		return q
	}
	q.latency = since(start, w.end)
	if q.tokens = usage; usage == nil && len(w.texts) > 0 {
		n := int64(len(w.texts))
		q.tokens = &n
	}
	q.last = q.latency
	if len(w.texts) == 0 {
		return q
	}
	first, last := w.texts[0], w.texts[len(w.texts)-1]
	q.ttft, q.last = since(start, first), since(start, last)
	if w.output != nil {
		q.visible = since(start, *w.output)
	}
	if q.tokens != nil && *q.tokens > 1 {
		q.tpot = number(float64(last-first) / 1e9 / float64(*q.tokens-1))
	}
	return q
}

// watched is what this tool has seen of a stream until [DONE], behind which it reads no more. Times are ns from t0.
type watched struct {
	texts        []int64 // of frames with text
	output       *int64  // of the first that is no reasoning
	end          int64
	done, broken bool
}

func watchGuideLLM(f *account.Facts) watched {
	w := watched{end: f.EndNS}
	for _, x := range f.Frames() {
		switch {
		case x.Kind == account.KindDone:
			w.end, w.done = x.At, true
			return w
		case x.Kind == account.KindBroken:
			w.broken = true
		case x.Channels() != 0:
			w.texts = append(w.texts, x.At)
			if w.output == nil && x.Channels()&(2|4) != 0 {
				w.output = &x.At
			}
		}
	}
	return w
}

// usageGuideLLM is the count of the last usage, 0 where that tells none; nil without usage.
func usageGuideLLM(f *account.Facts) *int64 {
	if f.Usage == nil {
		return nil
	}
	n := int64(0)
	if f.Usage.Completion != nil {
		n = *f.Usage.Completion
	}
	return &n
}

// foldGuideLLM makes the figures of a group. A missing time between tokens counts as 0 with its weight, as there.
func foldGuideLLM(requests []request) map[Name]*float64 {
	m := map[Name]*float64{}
	good := counted(requests)
	m[Requests] = number(float64(len(good)))
	ttfts := pick(good, func(q request) *float64 { return q.ttft })
	m[TTFT], m[TTFTP50], m[TTFTP99] = mean(ttfts), nearestRank(ttfts, 50), nearestRank(ttfts, 99)
	m[Visible] = mean(pick(good, func(q request) *float64 { return q.visible }))
	m[Latency] = mean(pick(good, func(q request) *float64 { return q.latency }))
	n, ok := tokensOf(good)
	if !ok {
		return m
	}
	m[Tokens], m[Rate] = number(n), rate(n, requests)
	var between, weight, whole float64
	for _, q := range good {
		tokens := float64(*q.tokens)
		whole += *q.last // of each token the share, times the tokens
		if q.tpot != nil {
			between += *q.tpot * (tokens - 1)
		}
		weight += max(tokens-1, 0)
	}
	if weight > 0 {
		m[TPOT] = number(between / weight)
	}
	if n > 0 {
		m[FromStart] = number(whole / n)
	}
	return m
}
