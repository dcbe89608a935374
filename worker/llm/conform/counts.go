package conform

import (
	"fmt"
	"strings"

	"cpbench/worker/llm/prompt"
)

// countChecks look at what the server counts.
var countChecks = []check{
	{Check{"budget", "sglang#38868, vllm#10847", "a test of fixed length needs answers of that length, and rates need a count that is right"}, func(e *evidence) (Verdict, string) {
		n := e.plain.numbers.CompletionTokens
		switch forced := ignoresEnd[e.server.Kind]; {
		case n == nil:
			return NotOffered, "no count"
		case *n > int64(e.plain.asked):
			return Fail, fmt.Sprintf("%d tokens, and %d were asked for", *n, e.plain.asked)
		case *n < int64(e.plain.asked) && forced:
			return Warn, fmt.Sprintf("%d tokens, and %d were asked for with ignore_eos", *n, e.plain.asked)
		case !forced:
			return NotOffered, fmt.Sprintf("%d of %d tokens: this server cannot be asked to ignore the end of the text", *n, e.plain.asked)
		}
		return Pass, fmt.Sprintf("%d tokens, as many as were asked for", *n)
	}},
	{Check{"tokens per frame", "inference-perf#364, vllm#50677, llama-benchy#11", "a client that counts frames for tokens is wrong by this factor"}, func(e *evidence) (Verdict, string) {
		a := e.longer()
		n, tokens := a.numbers, a.numbers.CompletionTokens
		if tokens == nil || n.Frames == 0 {
			return NotOffered, "no count, or no text"
		}
		return Pass, fmt.Sprintf("%.3g: %d tokens in %d frames with text", float64(*tokens)/float64(n.Frames), *tokens, n.Frames)
	}},
	{Check{"coalescing", "aiperf#1279", "frames of one read have no gap between them; if all text comes in one, no rate can be had"}, coalescing},
	{Check{"usage in every frame", "vLLM's stream_options.continuous_usage_stats", "with it the tokens of every frame are known, and the rate without those of the first"}, func(e *evidence) (Verdict, string) {
		switch a := e.each; {
		case !e.server.Kind.Traits().FrameUsage:
			return NotOffered, "not known of " + kindOf(e.server)
		case !a.ok():
			return Fail, a.failure()
		case a.numbers.UnbiasedTPS == nil && a.numbers.DecodeTPS != nil:
			return Warn, "it was asked for and did not come: it is in " + strings.Join(a.usageAt(), ", in ")
		}
		return Pass, "in " + strings.Join(e.each.usageAt(), ", in ")
	}},
	{Check{"tokenizer", "vllm#10847, sglang#15732", "prompts are cut to their size by this count"}, func(e *evidence) (Verdict, string) {
		if e.sizedErr != nil {
			return Warn, e.sizedErr.Error()
		}
		return parity(e.plain, e.sized)
	}},
	{Check{"template arguments", "vllm#43401", "a tokenizer that does not see them counts another prompt than the one that is sent"}, func(e *evidence) (Verdict, string) {
		if !e.server.Kind.Traits().Template {
			return NotOffered, "not known of " + kindOf(e.server)
		}
		v, seen := parity(e.each, e.eachSized)
		if v == Pass && e.sized != nil && *e.sized == *e.eachSized {
			seen += ", as many as without it: this template does not look at it"
		}
		return v, fmt.Sprintf("with enable_thinking %v: %s", e.thinking, seen)
	}},
	{Check{"cold", "vllm#54227, vllm#17045", "a fresh salt has to make a prompt cold; old servers ignore it without a word, and TTFT is that of a warm cache"}, func(e *evidence) (Verdict, string) {
		if !e.server.Kind.Traits().Salt {
			return NotOffered, kindOf(e.server) + " has no salts"
		}
		first, other := e.plain.numbers.CachedTokens, (*int64)(nil)
		if e.other.ok() {
			other = e.other.numbers.CachedTokens
		}
		switch {
		case !e.other.ok():
			return Fail, e.other.failure()
		case first == nil || other == nil:
			return NotOffered, "the answers do not tell cached_tokens: start vLLM with --enable-prompt-tokens-details, SGLang with --enable-cache-report"
		case *first > 0 || *other > 0:
			return Fail, fmt.Sprintf("%d tokens of a new prompt, and %d of the same with another salt, came from the cache", *first, *other)
		}
		return Pass, "another salt finds nothing of the same prompt in the cache"
	}},
	{Check{"warm", "vllm#52884, vllm#53920", "a warm repeat is one only if its prompt is still in the cache"}, warm},
}

// longer is the longest answer, in which there is the most to see of how frames come.
func (e *evidence) longer() *answer {
	if e.glyphs.ok() && e.glyphs.numbers.Frames > 0 {
		return e.glyphs
	}
	return e.plain
}

// coalescing tells how many frames came together.
func coalescing(e *evidence) (Verdict, string) {
	n := e.longer().numbers
	switch {
	case n.Frames < 2:
		return NotOffered, fmt.Sprintf("%d frames with text", n.Frames)
	case n.FrameGap.N == 0:
		return Warn, fmt.Sprintf("all %d frames with text came in one read: something between holds them back, or the answer is too short to tell", n.Frames)
	}
	seen := fmt.Sprintf("%d of %d frames with text came in one read with the one before", n.Together, n.Frames)
	for _, w := range n.Warnings {
		if w.Code == "coalesced" {
			return Warn, seen + "; " + w.Text
		}
	}
	return Pass, seen
}

// parity compares the tokenizer's count with that of the answer.
func parity(a *answer, counted *int) (Verdict, string) {
	switch {
	case !a.ok():
		return Fail, a.failure()
	case counted == nil:
		return NotOffered, "the server has no endpoint that counts the tokens of a chat"
	}
	checked, err := prompt.CheckParity(counted, a.numbers.PromptTokens)
	switch {
	case err != nil:
		return Fail, err.Error()
	case !checked:
		return NotOffered, "the answer does not tell prompt_tokens"
	}
	return Pass, fmt.Sprintf("tokenizer and answer count %d", *counted)
}

// warm looks at the repeat of a prompt with its own salt.
func warm(e *evidence) (Verdict, string) {
	a := e.again
	if !a.ok() {
		return Fail, a.failure()
	}
	cached, used := a.numbers.CachedTokens, a.numbers.PromptTokens
	if v, ok := a.facts.Server["cache_n"]; ok && cached == nil { // of llama.cpp
		n := int64(v)
		cached = &n
	}
	switch {
	case cached == nil || used == nil:
		return NotOffered, "the answers do not tell what came from the cache"
	case *used <= 2*int64(e.block):
		return NotOffered, fmt.Sprintf("a prompt of %d tokens is no longer than two blocks of the cache", *used)
	case *cached == 0:
		return Warn, "nothing of the same prompt was found again: the prefix cache is off, and `cache: warm` cannot be measured"
	case *cached < *used-2*int64(e.block):
		return Warn, fmt.Sprintf("only %d of %d tokens were found again", *cached, *used)
	default:
		return Pass, fmt.Sprintf("%d of %d tokens were found again", *cached, *used)
	}
}
