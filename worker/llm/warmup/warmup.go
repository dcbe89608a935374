// Package warmup sends requests to a server before the first group that is measured on it: a server compiles, captures
// graphs and grows its pools when it is used for the first time, and would give that time to the first group. Use Run
// once for each server that answers. What it sends has texts and salts of its own, so that no group finds anything of it
// in the prefix cache.
package warmup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/stream"
)

// Budget is the largest number of tokens that one request of a warm-up generates.
const Budget = 16

// Plan says how a server is warmed up: Bursts times, Streams requests that start together.
type Plan struct {
	Server          *dialect.Server
	Bursts, Streams int
	MaxTokens       int // of the sweep; no request asks for more, nor for more than Budget
	Template        dialect.Template
	Sampling        map[string]any
	Priority        *int
	Timeouts        stream.Timeouts
}

// Report is what was sent and what became of it. No number of a sweep includes it.
type Report struct {
	Begun     time.Time `json:"begun"`
	Seconds   float64   `json:"seconds"`
	Salt      string    `json:"cache_salt,omitempty"` // how all salts begin; empty: the server has none
	MaxTokens int       `json:"max_tokens"`           // of each request
	Bursts    []Burst   `json:"bursts"`
}

// Burst is one burst: the first one beside the last one tells what first use costs.
type Burst struct {
	Streams int      `json:"streams"`
	Failed  int      `json:"failed"`
	Why     string   `json:"why,omitempty"` // the first failure
	Seconds float64  `json:"seconds"`
	TTFT    *float64 `json:"ttft_s"` // mean of those that had text; null: none had
}

// Failed is how many requests were no success, of how many, and why the first of them was none.
func (r *Report) Failed() (failed, of int, why string) {
	for _, b := range r.Bursts {
		if failed, of = failed+b.Failed, of+b.Streams; why == "" {
			why = b.Why
		}
	}
	return failed, of, why
}

// Run warms the server up. What a request comes to is in the report; the error says that nothing could be sent, or is
// the cause of ctx.
func Run(ctx context.Context, p Plan) (*Report, error) {
	r := &Report{Begun: time.Now(), MaxTokens: max(1, min(Budget, p.MaxTokens))}
	id := make([]byte, 8)
	rand.Read(id) // crypto/rand never fails
	name := "cpbench-warmup-" + hex.EncodeToString(id)
	if p.Server.Kind.Traits().Salt {
		r.Salt = name
	}
	for i := range p.Bursts {
		requests, err := p.requests(ctx, r, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return r, err
		}
		began := time.Now()
		lines, err := group.Burst(ctx, group.Load{Server: p.Server, Streams: requests, Timeouts: p.Timeouts})
		r.Bursts = append(r.Bursts, burst(lines, time.Since(began)))
		if err != nil {
			return r, err
		}
	}
	r.Seconds = time.Since(r.Begun).Seconds()
	return r, nil
}

// requests are those of one burst. Their texts are short, so that nobody has to count them.
func (p *Plan) requests(ctx context.Context, r *Report, name string) ([]group.Request, error) {
	src, err := prompt.Open(prompt.Synth, prompt.Files{})
	if err != nil {
		return nil, err
	}
	requests := make([]group.Request, p.Streams)
	for i := range requests {
		text, err := (&prompt.Sizer{}).Size(ctx, src, prompt.Key{Case: name, Stream: i}, 0)
		if err != nil {
			return nil, err
		}
		ask := dialect.Request{
			Messages: text.Messages, MaxTokens: r.MaxTokens, Template: p.Template, Sampling: group.Unmeasured(p.Sampling), Priority: p.Priority, Fresh: true,
		}
		if r.Salt != "" {
			ask.Salt = fmt.Sprintf("%s-%d", name, i)
		}
		body, err := p.Server.Body(ask)
		if err != nil {
			return nil, err
		}
		requests[i] = group.Request{Prompt: text, Salt: ask.Salt, Body: body, MaxTokens: ask.MaxTokens}
	}
	return requests, nil
}

func burst(lines []group.Line, took time.Duration) Burst {
	b := Burst{Streams: len(lines), Seconds: took.Seconds()}
	var first []float64
	for _, line := range lines {
		n := line.Record.Numbers
		if n.TTFT != nil {
			first = append(first, *n.TTFT)
		}
		if n.Outcome == account.Success {
			continue
		}
		if b.Failed++; b.Why == "" {
			b.Why = string(n.Reason) + ": " + line.Failure()
		}
	}
	if len(first) > 0 {
		b.TTFT = account.NewStat(first).Mean
	}
	return b
}
