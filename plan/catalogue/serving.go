package catalogue

// The metrics of the llm workload. Those without a statistic in their name are means over the successful streams of a
// group, and a table's n counts groups, never streams.
const (
	TTFTSeconds            = "ttft_seconds"
	TTFTP50Seconds         = "ttft_p50_seconds"
	TTFTP90Seconds         = "ttft_p90_seconds"
	TTFTP99Seconds         = "ttft_p99_seconds"
	TTFTMaxSeconds         = "ttft_max_seconds"
	FirstVisibleSeconds    = "first_visible_seconds"
	FirstVisibleP50Seconds = "first_visible_p50_seconds"
	FirstVisibleMaxSeconds = "first_visible_max_seconds"
	RequestSeconds         = "request_seconds"
	RequestP50Seconds      = "request_p50_seconds"
	RequestMaxSeconds      = "request_max_seconds"
	TPOTSeconds            = "tpot_seconds"
	TPOTP50Seconds         = "tpot_p50_seconds"
	TPOTMaxSeconds         = "tpot_max_seconds"
	FrameGapSeconds        = "frame_gap_seconds"
	FrameGapP50Seconds     = "frame_gap_p50_seconds"
	FrameGapP99Seconds     = "frame_gap_p99_seconds"
	FrameGapMaxSeconds     = "frame_gap_max_seconds"
	Stalls                 = "stalls"

	DecodeTokensPerSecond         = "decode_tokens_per_second"
	DecodeUnbiasedTokensPerSecond = "decode_unbiased_tokens_per_second"
	AggregateTokensPerSecond      = "aggregate_tokens_per_second"
	GroupSeconds                  = "group_seconds"
	BarrierSkewSeconds            = "barrier_skew_seconds"
	LagMaxSeconds                 = "lag_max_seconds"
	StreamsMean                   = "streams_mean"
	StreamsMax                    = "streams_max"

	PromptMeasuredTokens = "prompt_measured_tokens"
	PromptUsedTokens     = "prompt_used_tokens"
	OutputTokens         = "output_tokens"
	CachedTokens         = "cached_tokens"
	CachedFraction       = "cached_fraction"
	CacheHitFraction     = "cache_hit_fraction"

	SpeculationRounds = "speculation_rounds"
	ProposedTokens    = "proposed_tokens"
	AcceptedTokens    = "accepted_tokens"
	AcceptedPerRound  = "accepted_tokens_per_round"
	AcceptedFraction  = "accepted_fraction"
	AcceptanceLength  = "acceptance_length_tokens"

	LongTTFTSeconds          = "long_ttft_seconds"
	ShortGapBeforeP50Seconds = "short_gap_before_p50_seconds"
	ShortGapDuringP50Seconds = "short_gap_during_p50_seconds"
	ShortGapDuringMaxSeconds = "short_gap_during_max_seconds"
	ShortGapAfterP50Seconds  = "short_gap_after_p50_seconds"

	EnergyPerOutputToken = "energy_per_output_token_joules"

	GoodFraction          = "good_fraction"
	GoodRequestsPerSecond = "good_requests_per_second"
	LimitsMet             = "limits_met"
)

// ServingMetrics lists the metrics of the llm workload in the order of the documentation. Percentiles are nearest-rank,
// and a 99th is told of 100 values or more.
func ServingMetrics() []Metric {
	const (
		s, tok, rate = "seconds", "tokens", "tokens per second"
		mixed        = "; mixed case only"
	)
	return append([]Metric{
		{TTFTSeconds, s, Lower, "TTFT (ms)", milli, "time to the first reasoning, answer or tool-call text, from just before the request was written; mean over the streams"},
		{TTFTP50Seconds, s, Lower, "TTFT p50 (ms)", milli, "the same, median over the streams"},
		{TTFTP90Seconds, s, Lower, "TTFT p90 (ms)", milli, "the same, 90th percentile over the streams"},
		{TTFTP99Seconds, s, Lower, "TTFT p99 (ms)", milli, "the same, 99th percentile over the streams"},
		{TTFTMaxSeconds, s, Lower, "TTFT max (ms)", milli, "the same, largest of the streams"},
		{FirstVisibleSeconds, s, Lower, "first visible (ms)", milli, "time to the first text of the answer itself, after any reasoning; mean over the streams that have one"},
		{FirstVisibleP50Seconds, s, Lower, "first visible p50 (ms)", milli, "the same, median over the streams"},
		{FirstVisibleMaxSeconds, s, Lower, "first visible max (ms)", milli, "the same, largest of the streams"},
		{RequestSeconds, s, Lower, "request (s)", 1, "time of a request until the end of its stream; mean over the streams"},
		{RequestP50Seconds, s, Lower, "request p50 (s)", 1, "the same, median over the streams"},
		{RequestMaxSeconds, s, Lower, "request max (s)", 1, "the same, largest of the streams"},
		{TPOTSeconds, s, Lower, "TPOT (ms)", milli, "(last text - first text) / (tokens - 1) by the server's count; mean over the streams"},
		{TPOTP50Seconds, s, Lower, "TPOT p50 (ms)", milli, "the same, median over the streams"},
		{TPOTMaxSeconds, s, Lower, "TPOT max (ms)", milli, "the same, largest of the streams"},
		{FrameGapSeconds, s, Lower, "frame gap (ms)", milli, "time between frames with text that came in different reads, which may hold several tokens; mean over all gaps"},
		{FrameGapP50Seconds, s, Lower, "frame gap p50 (ms)", milli, "the same, median over all gaps"},
		{FrameGapP99Seconds, s, Lower, "frame gap p99 (ms)", milli, "the same, 99th percentile over all gaps"},
		{FrameGapMaxSeconds, s, Lower, "frame gap max (ms)", milli, "the same, longest of all gaps"},
		{Stalls, "1", Lower, "stalls", 1, "gaps above five times the median gap of their stream, over all streams"},

		{DecodeTokensPerSecond, rate, Higher, "decode (tok/s)", 1, "tokens by the server's count / (last text - first text); mean over the streams"},
		{DecodeUnbiasedTokensPerSecond, rate, Higher, "decode unbiased (tok/s)", 1, "the same without the tokens of the first frame with text; needs the usage in every frame"},
		{AggregateTokensPerSecond, rate, Higher, "aggregate (tok/s)", 1, "tokens of all successful streams / group_seconds: prefill and staggered arrivals included, so it is no sum of decode rates"},
		{GroupSeconds, s, Lower, "group (s)", 1, "from the first start of a request to the end of the last stream"},
		{BarrierSkewSeconds, s, Lower, "barrier skew (ms)", milli, "between the first and the last start of a request behind the barrier"},
		{LagMaxSeconds, s, Lower, "lag max (ms)", milli, "latest start of a request after its intended one"},
		{StreamsMean, "1", Either, "streams open", 1, "streams that were open, mean over group_seconds: the concurrency that was reached"},
		{StreamsMax, "1", Either, "streams open max", 1, "most streams that were open at one instant"},

		{PromptMeasuredTokens, tok, Either, "prompt measured (tok)", 1, "tokens of a whole chat prompt as counted by the server's tokenizer; mean over the streams"},
		{PromptUsedTokens, tok, Either, "prompt used (tok)", 1, "tokens of a prompt by the usage of its answer; mean over the streams"},
		{OutputTokens, tok, Either, "output (tok)", 1, "tokens that the successful streams delivered, by the server's count; sum over the streams"},
		{CachedTokens, tok, Either, "cached (tok)", 1, "tokens of a prompt that came from the prefix cache, by the usage of its answer; mean over the streams"},
		{CachedFraction, "1", Either, "cached (%)", 0.01, "cached_tokens over prompt_used_tokens, of all streams together"},
		{CacheHitFraction, "1", Either, "cache hits (%)", 0.01, "hits over queries of the prefix cache by the server's counters, where answers do not tell cached tokens"},

		{SpeculationRounds, "1", Either, "rounds", 1, "rounds of speculative decoding during the group, by the server's counters"},
		{ProposedTokens, tok, Either, "proposed (tok)", 1, "draft tokens proposed during the group"},
		{AcceptedTokens, tok, Either, "accepted (tok)", 1, "draft tokens accepted during the group, without bonus tokens"},
		{AcceptedPerRound, tok, Higher, "accepted / round", 1, "accepted_tokens over speculation_rounds: no bonus token is added"},
		{AcceptedFraction, "1", Higher, "accepted / proposed (%)", 0.01, "accepted_tokens over proposed_tokens"},
		{AcceptanceLength, tok, Higher, "acceptance length (tok)", 1, "1 + accepted_tokens_per_round: with the token that every round gives anyway"},

		{LongTTFTSeconds, s, Lower, "long TTFT (ms)", milli, "ttft_seconds of the long request alone" + mixed},
		{ShortGapBeforeP50Seconds, s, Lower, "gap before (ms)", milli, "median gap of the short streams before the long request came; mean over the two" + mixed},
		{ShortGapDuringP50Seconds, s, Lower, "gap during (ms)", milli, "the same, from then to the first text of the long request" + mixed},
		{ShortGapDuringMaxSeconds, s, Lower, "gap during max (ms)", milli, "longest gap of the short streams from then to the first text of the long request" + mixed},
		{ShortGapAfterP50Seconds, s, Lower, "gap after (ms)", milli, "median gap of the short streams after the first text of the long request; mean over the two" + mixed},

		gpuEnergy,
		{EnergyPerOutputToken, "joules per token", Lower, "energy / token (J)", 1, "energy of the server's GPUs over the group, prefill included, over output_tokens"},

		{GoodFraction, "1", Higher, "goodput (%)", 0.01, "share of all requests that succeeded within the limits of workload.goodput on TTFT, counted from the intended start, and on TPOT"},
		{GoodRequestsPerSecond, "requests per second", Higher, "goodput (req/s)", 1, "the same requests over group_seconds"},
		{LimitsMet, "1", Higher, "limits met", 1, "1 if the 99th percentile of TTFT and that of TPOT over all requests are within the limits, 0 if not; below 100 requests the largest value decides"},
		gpuMemory,
	}, gpuState...)
}
