// Package dialect knows what LLM servers have in common and in what they differ: which one answers, which model it
// serves and up to which length, how it counts tokens, what a generation request has to say, and how its cache is
// emptied. Use Detect once for each server, then the methods of the Server; the measured requests themselves are sent
// by whoever measures, with the body that Body makes.
package dialect

import "time"

// Kind is the software that serves.
type Kind string

// The closed list of kinds.
const (
	VLLM     Kind = "vllm"
	SGLang   Kind = "sglang"
	LlamaCPP Kind = "llama.cpp"
	TGI      Kind = "tgi"
	TRTLLM   Kind = "trtllm" // trtllm-serve
	None     Kind = "none"   // speaks the chat endpoint and no more is known
)

// Order says which of two priorities is served first.
type Order string

// The closed list of orders.
const (
	LowerFirst  Order = "lower first"
	HigherFirst Order = "higher first" // SGLang unless it was started with --schedule-low-priority-values-first
	NoPriority  Order = ""
)

// Speculation says how a server tells of its speculative decoding.
type Speculation string

// The closed list of ways.
const (
	BySums      Speculation = "counters" // differences around a group mean something
	ByLifetime  Speculation = "lifetime" // averages since its start only
	NoneOfThese Speculation = ""
)

// Traits are what is known of a kind of server beside its endpoints.
type Traits struct {
	Reasoning    []string // names of the field of a frame with reasoning text, newest first
	Salt         bool     // cache_salt makes a prompt cold; an old version may ignore it, so cold has to be verified
	FreshFlag    bool     // cache_prompt: false makes a prompt cold, without a salt
	Template     bool     // takes arguments of the chat template
	Priority     Order
	AlwaysDone   bool   // every complete stream ends with [DONE], so that one without it was cut
	FrameUsage   bool   // can put the usage so far into every frame
	Metrics      string // path of the Prometheus text; empty: it has none
	Speculation  Speculation
	GaugeRefresh time.Duration // an idle server renews its gauges only this often; 0: at once
	budget       string        // name of the field with the largest number of tokens to generate
}

// Traits are the traits of a kind; sources: parts 2.1 to 2.4 of the reference and the servers' public code.
func (k Kind) Traits() Traits {
	both := []string{"reasoning", "reasoning_content"}
	switch k {
	case VLLM:
		return Traits{
			Reasoning: both, Salt: true, Template: true, Priority: LowerFirst, AlwaysDone: true, FrameUsage: true,
			Metrics: "/metrics", Speculation: BySums, budget: "max_completion_tokens",
		}
	case SGLang:
		return Traits{
			Reasoning: []string{"reasoning_content"}, Salt: true, Template: true, Priority: HigherFirst, FrameUsage: true,
			Metrics: "/metrics", Speculation: ByLifetime, GaugeRefresh: 30 * time.Second, budget: "max_completion_tokens",
		}
	case LlamaCPP:
		// Its older versions know max_tokens alone, and generate without an end for the newer name.
		return Traits{
			Reasoning: []string{"reasoning_content"}, FreshFlag: true, Template: true,
			Metrics: "/metrics", Speculation: BySums, budget: "max_tokens",
		}
	case TGI:
		return Traits{Metrics: "/metrics", budget: "max_tokens"}
	case TRTLLM:
		// Its /metrics is JSON, and each read takes from it what it tells.
		return Traits{Reasoning: []string{"reasoning_content"}, Template: true, Metrics: "/prometheus/metrics", budget: "max_completion_tokens"}
	case None:
	}
	return Traits{Reasoning: both, Template: true, budget: "max_tokens"}
}
