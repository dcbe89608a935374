package peer

import "cpbench/worker/llm/account"

// The definitions of `vllm bench serve`, as in vLLM 0.32.0: async_request_openai_chat_completions in
// vllm/benchmarks/lib/endpoint_request_func.py for one request, calculate_metrics in vllm/benchmarks/serve.py for all.

const (
	swallows    = "a frame was no JSON, and this client then fails or swallows what follows, as the packets fall"
	noTokenizer = "usage did not stand in a frame without choices, so this tool counts the text with its own tokenizer, and texts are not in the log"
	lessThan100 = "it interpolates, from one value on; cpbench tells a 99th percentile from 100 values on"
)

var wordsVLLM = map[Name]words{
	Requests: {"Successful requests", "status 200 and one frame with choices are a success, whatever follows: an error in a frame, no finish reason, no [DONE]; of a broken connection it is a failure"},
	TTFT:     {"Mean TTFT", "it ends at the first frame with choices, text or not: the role frame counts"},
	TTFTP50:  {"Median TTFT", "it ends at the first frame with choices, text or not: the role frame counts; and it interpolates between two values"},
	TTFTP99:  {"P99 TTFT", lessThan100},
	Visible:  {"", "it has no time to the first text of the answer"},
	TPOT:     {"Mean TPOT", "(last frame with choices - first one) / (tokens - 1): from the role frame to the finish frame; cpbench's is from the first text to the last"},
	Gap:      {"Mean ITL", "every frame with choices ends a gap, the first text after the role frame and the finish frame too, and frames of one read have gaps of 0; cpbench takes frames with text that came in different reads"},
	GapP50:   {"Median ITL", "every frame with choices ends a gap, the first text after the role frame and the finish frame too, and frames of one read have gaps of 0; cpbench takes frames with text that came in different reads; and it interpolates between two values"},
	GapMax:   {"P100 ITL", "every frame with choices ends a gap, the first text after the role frame and the finish frame too; cpbench takes frames with text that came in different reads"},
	Latency:  {"Mean E2EL", "it ends at the last frame with choices; cpbench's ends at [DONE]"},
	Tokens:   {"Total generated tokens", "completion tokens of usage in a frame without choices"},
	Rate:     {"Output token throughput", "tokens / time until the last body has ended; cpbench's ends at the last [DONE]"},
}

// judgeVLLM reads a request as async_request_openai_chat_completions does. Its clock begins where ours does, before the
// request is given to the pool.
func judgeVLLM(f *account.Facts) request {
	q := request{unknown: unknowable(f, false), started: f.StartNS, ended: f.StartNS + f.EndNS}
	frames := f.Frames()
	var choices []int64
	for i, x := range frames {
		if x.Choice() {
			choices = append(choices, x.At)
		}
		// Of a last frame without its blank line it waits for the rest, which never comes.
		if x.Kind == account.KindBroken && (!f.Unterminated || i < len(frames)-1) {
			q.unknown = swallows
		}
	}
	q.counted = f.Status == 200 && f.Failure == nil && len(choices) > 0
	if !q.counted {
		return q
	}
	first, last := choices[0], choices[len(choices)-1]
	q.ttft, q.latency = since(0, first), since(0, last)
	for i := 1; i < len(choices); i++ {
		q.gaps = append(q.gaps, *since(choices[i-1], choices[i]))
	}
	if q.tokens = usageAlone(f, frames); q.tokens == nil {
		q.lacks = noTokenizer
	} else if *q.tokens > 1 {
		q.tpot = number(float64(last-first) / 1e9 / float64(*q.tokens-1))
	}
	return q
}

// usageAlone is the last count that stood in a frame without choices; nil if there is none, or if it is 0, which this
// tool takes for none.
func usageAlone(f *account.Facts, frames []account.Frame) *int64 {
	for i := min(len(f.UsageFrames), len(f.UsageTokens)) - 1; i >= 0; i-- {
		if k := f.UsageFrames[i]; k < len(frames) && frames[k].Kind == account.KindUsage {
			if n := f.UsageTokens[i]; n > 0 {
				return &n
			}
			return nil
		}
	}
	return nil
}
