package preflight

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/stream"
)

// Trial says with which settings the sweep will generate.
type Trial struct {
	Server   *dialect.Server
	Metrics  *scrape.Source
	Template dialect.Template
	Sampling map[string]any
	Priority *int
	// FrameUsage: the sweep asks for the usage in every frame.
	FrameUsage bool
	Timeouts   stream.Timeouts
	Thinks     bool // the sweep asks for reasoning
	Warm       bool // the sweep has warm groups
}

// tries is how many tokens a trial asks for: enough to see the field of the reasoning.
const tries = 8

// trialKey is a prompt that no group has, so that nothing is warmed for one.
func trialKey() prompt.Key {
	salt := make([]byte, 8)
	rand.Read(salt) // crypto/rand never fails
	return prompt.Key{Case: "preflight " + hex.EncodeToString(salt)}
}

// Try sends the same prompt up to three times, once with a salt, then with another and with the first again, and
// compares what comes with what the sweep relies on. It generates at most 24 tokens and starts no group: call it on a
// server that others do not use.
func Try(ctx context.Context, t Trial) Findings {
	var f Findings
	size, counts := t.size(ctx, &f)
	if size == nil {
		return f
	}
	first := t.ask(ctx, &f, size, "cpbench-preflight-a-"+size.SHA256[:8])
	if first == nil {
		return f
	}
	n := first.Record.Numbers
	switch {
	case n.CountSource != account.ServerUsage:
		f.add(Usage, Bad, "delivered tokens are counted by the server alone: it has to support stream_options.include_usage", "the answer has no usage")
	default:
		f.add(Usage, OK, "", "the answer counts its tokens")
	}
	if counts {
		f.parity(size.Tokens, n.PromptTokens)
	}
	f.reasoning(t, first)
	if t.Server.Kind.Traits().Salt {
		f.salts(ctx, t, size)
	} else {
		f.add(Salt, OK, "", "%s has no salts: cold groups have a text of their own each", t.Server.Kind)
	}
	return f
}

// size makes the prompt of the trial: longer than four blocks of the cache if the server can count, so that a hit can
// show. counts reports whether the count is the server's.
func (t *Trial) size(ctx context.Context, f *Findings) (p *prompt.Prompt, counts bool) {
	src, err := prompt.Open(prompt.Synth, prompt.Files{})
	if err != nil {
		f.add(Tokenizer, Bad, "", "%v", err)
		return nil, false
	}
	z := prompt.Sizer{Count: t.Server.Counter(t.Template), Identity: t.Server.Identity(t.Template)}
	target := 0
	if z.Count != nil {
		block := group.DefaultBlock
		if shot, err := t.Metrics.Fetch(ctx); err == nil {
			if size := shot.BlockSize(); size != nil {
				block = *size
			}
		}
		target = 4*block + 256
		if l := t.Server.ContextLimit; l != nil {
			target = min(target, *l-tries-prompt.Slack)
		}
	}
	size, err := z.Size(ctx, src, trialKey(), max(target, 0))
	if errors.Is(err, prompt.ErrNoCounter) {
		z.Count = nil
		size, err = z.Size(ctx, src, trialKey(), 0)
	}
	if err != nil {
		f.add(Tokenizer, Bad, "the sweep would meet the same", "%v", err)
		return nil, false
	}
	if z.Count == nil {
		f.add(Tokenizer, Warn, "only ctx 0 is possible", "%s has no endpoint that counts the tokens of a chat", t.Server.Kind)
	} else {
		f.add(Tokenizer, OK, "", "a prompt of %d tokens took %d counts", *size.Tokens, size.Probes)
	}
	return &size, z.Count != nil
}

// trial is one answer.
type trial struct {
	Record account.Record
	Cached *float64 // by the answer itself, else by the counters around it
}

// ask sends one request; nil if it failed, which is a finding.
func (t *Trial) ask(ctx context.Context, f *Findings, p *prompt.Prompt, salt string) *trial {
	r := dialect.Request{Messages: p.Messages, MaxTokens: tries, Template: t.Template, Sampling: group.Unmeasured(t.Sampling), Priority: t.Priority, Fresh: true, FrameUsage: t.FrameUsage}
	if t.Server.Kind.Traits().Salt {
		r.Salt = salt
	}
	body, err := t.Server.Body(r)
	if err != nil {
		check := Request
		if errors.Is(err, dialect.ErrUnsupported) && strings.HasPrefix(err.Error(), "priority") {
			check = Priority
		}
		f.add(check, Bad, "take the key out of the spec", "%v", err)
		return nil
	}
	line, hits, err := group.Once(ctx, t.Server, t.Metrics, group.Request{Prompt: *p, Salt: r.Salt, Body: body, MaxTokens: tries}, t.Timeouts)
	if err != nil {
		f.add(Request, Bad, "", "%v", err)
		return nil
	}
	if n := line.Record.Numbers; n.Outcome != account.Success {
		check, advice := Request, "the sweep would meet the same"
		text := line.Failure()
		if t.Priority != nil && strings.Contains(strings.ToLower(text), "priority") {
			check, advice = Priority, "start vLLM with --scheduling-policy priority, or leave workload.priority out"
		}
		f.add(check, Bad, advice, "a request with the sweep's settings: %s: %s", n.Reason, text)
		return nil
	}
	return &trial{line.Record, hits}
}

func (f *Findings) parity(measured *int, used *int64) {
	if used == nil {
		return
	}
	if checked, err := prompt.CheckParity(measured, used); err != nil {
		grade := Bad
		if far := *used - int64(*measured); far >= -prompt.Slack && far <= prompt.Slack {
			grade = Warn // within what a size may be off anyway
		}
		f.add(Parity, grade, "put every argument of the template into workload.template_kwargs, so that both endpoints see it", "%v", err)
	} else if checked {
		f.add(Parity, OK, "", "tokenizer and answer count the same %d tokens", *used)
	}
}

func (f *Findings) reasoning(t Trial, first *trial) {
	name := first.Record.Facts.ReasoningName
	switch {
	case name != "":
		f.add(Reasoning, OK, "", "reasoning comes in the field %q", name)
	case t.Thinks:
		f.add(Reasoning, Warn, "start the server with a parser (vLLM: --reasoning-parser), else the time to the first visible text is that of the thinking", "the sweep asks for thinking, and no reasoning came")
	default:
		f.add(Reasoning, OK, "", "no reasoning came, and none was asked for")
	}
}

// salts checks that another salt makes the prompt cold, and that the same one finds it again.
func (f *Findings) salts(ctx context.Context, t Trial, p *prompt.Prompt) {
	other := t.ask(ctx, f, p, "cpbench-preflight-b-"+p.SHA256[:8])
	if other == nil {
		return
	}
	switch {
	case other.Cached == nil:
		f.add(Salt, Warn, "start vLLM with --enable-prompt-tokens-details, SGLang with --enable-cache-report", "the server does not tell what it takes from its cache, so no label can be verified")
		return
	case *other.Cached > 0:
		f.add(Salt, Bad, "take a server that knows cache_salt (vLLM since April 2025), or switch its prefix cache off", "the same text with another salt found %v tokens in the cache: salts are ignored", *other.Cached)
		return
	}
	f.add(Salt, OK, "", "another salt makes the same text cold")
	again := t.ask(ctx, f, p, "cpbench-preflight-a-"+p.SHA256[:8])
	switch {
	case again == nil || again.Cached == nil:
	case *again.Cached > 0:
		f.add(Cache, OK, "", "the same salt finds %v tokens again", *again.Cached)
	case t.Warm:
		f.add(Cache, Bad, "switch the prefix cache on, or give `cache: cold`", "the same text with the same salt found nothing in the cache, and the sweep has warm groups")
	default:
		f.add(Cache, OK, "", "the server has no prefix cache, or it is off")
	}
}
