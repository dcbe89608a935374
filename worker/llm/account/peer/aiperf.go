package peer

import "cpbench/worker/llm/account"

// The definitions of AIPerf 0.13.0: aiperf/metrics/types/ttft_metric.py, time_to_first_output_token_metric.py,
// inter_token_latency_metric.py, inter_chunk_latency_metric.py, request_latency_metric.py,
// output_sequence_length_metric.py, output_token_throughput_metrics.py, benchmark_duration_metric.py; what a success is in
// aiperf/common/models/record_models.py (ParsedResponseRecord.valid), what a frame with content is in
// aiperf/endpoints/openai_chat.py, percentiles in aiperf/metrics/derived_latency.py. Without --use-server-token-count it
// counts texts with a tokenizer of its own, which a log without texts cannot.

var wordsAIPerf = map[Name]words{
	Requests: {"Request Count", "a 2xx with any text is a success, whatever follows: an error in a frame, a frame that is no JSON, no finish reason, no [DONE]; an answer without text is none"},
	TTFT:     {"Time to First Token", sameFormula},
	TTFTP50:  {"Time to First Token p50", "it interpolates between two values; cpbench takes a value that was measured"},
	TTFTP99:  {"Time to First Token p99", lessThan100},
	Visible:  {"Time to First Output Token", "a tool call counts as well"},
	TPOT:     {"Inter Token Latency", "(last text - first text) / (tokens - 1), also where all text came with one read, which is 0 there and missing in cpbench"},
	Gap:      {"Inter Chunk Latency", "frames of one read have gaps of 0; cpbench gives them none"},
	GapP50:   {"Inter Chunk Latency p50", "frames of one read have gaps of 0, and it interpolates between two values"},
	GapMax:   {"Inter Chunk Latency max", "frames of one read have gaps of 0; cpbench gives them none"},
	Latency:  {"Request Latency", "it ends at the last text; cpbench's ends at [DONE]"},
	Tokens:   {"Total Output Sequence Length", "reasoning tokens and what is left of the completion tokens, but no less than 0"},
	Rate:     {"Output Token Throughput", "tokens / time until the last text of all; cpbench's ends at the last [DONE]"},
}

func judgeAIPerf(f *account.Facts) request {
	q := request{unknown: unknowable(f, false)}
	var texts []int64
	for _, x := range f.Frames() {
		if x.Channels() == 0 {
			continue
		}
		texts = append(texts, x.At)
		if q.visible == nil && x.Channels()&(2|4) != 0 {
			q.visible = since(0, x.At)
		}
	}
	q.counted = f.Status >= 200 && f.Status < 300 && f.Failure == nil && len(texts) > 0
	if !q.counted {
		return q
	}
	first, last := texts[0], texts[len(texts)-1]
	q.ttft, q.latency = since(0, first), since(0, last)
	q.started, q.ended = f.StartNS, f.StartNS+last // failures are no part of its duration
	for i := 1; i < len(texts); i++ {
		q.gaps = append(q.gaps, *since(texts[i-1], texts[i]))
	}
	if q.tokens = sequence(f.Usage); q.tokens == nil {
		q.lacks = "the server told no count of tokens"
	} else if *q.tokens > 1 {
		q.tpot = number(float64(last-first) / 1e9 / float64(*q.tokens-1))
	}
	return q
}

// sequence is AIPerf's length of an answer: reasoning, and completion without it.
func sequence(u *account.Usage) *int64 {
	if u == nil || u.Completion == nil && u.Reasoning == nil {
		return nil
	}
	var n int64
	if u.Completion != nil {
		n = *u.Completion
	}
	if u.Reasoning != nil {
		n = max(n, *u.Reasoning)
	}
	return &n
}
