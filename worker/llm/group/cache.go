package group

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/scrape"
)

// DefaultBlock is the number of tokens in a block of the prefix cache where the server does not tell it.
const DefaultBlock = 16

// templatePrefix is how many tokens of every prompt come from the template alone and may be found again without a
// salt. It is a choice.
const templatePrefix = 64

// CacheCheck compares the label of a group with what the server says it took from its prefix cache.
type CacheCheck struct {
	Label    Label    `json:"cache_label"`
	Verified bool     `json:"verified"`
	Source   string   `json:"source,omitempty"` // usage, timings or counters
	Cached   *float64 `json:"cached_tokens"`    // of all streams
	Share    *float64 `json:"cached_share"`     // of their prompt tokens
	Block    int      `json:"block_tokens"`
	// Violation says how the label is not true; Doubt why it could not be verified.
	Violation string `json:"violation,omitempty"`
	Doubt     string `json:"doubt,omitempty"`
}

// part is what one prompt, or all together, took from the cache.
type part struct{ cached, prompt float64 }

// checkCache verifies the label. Cold with a fresh salt is exactly 0; without a salt, at most what the template has and
// one block. Warm is all of a prompt but two blocks: the last one is never whole, and the last token is computed anew.
func checkCache(label Label, lines []Line, d scrape.Delta, block int) CacheCheck {
	c := CacheCheck{Label: label, Block: block}
	parts, salted := c.parts(lines, d)
	if parts == nil {
		c.Doubt = "the server does not tell what it took from its cache: start vLLM with --enable-prompt-tokens-details, SGLang with --enable-cache-report"
		return c
	}
	streams := float64(len(lines)) / float64(len(parts)) // that one part stands for
	var all part
	for _, p := range parts {
		all.cached, all.prompt = all.cached+p.cached, all.prompt+p.prompt
		switch least := p.prompt - 2*float64(block)*streams; {
		case label == Cold && salted && p.cached > 0:
			c.Violation = fmt.Sprintf("labelled cold, and %v of %v prompt tokens came from the cache in spite of a fresh salt: this server ignores cache_salt, or something else sent the same", p.cached, p.prompt)
		case label == Cold && !salted && p.cached > streams*float64(templatePrefix+block):
			c.Violation = fmt.Sprintf("labelled cold, and %v of %v prompt tokens came from the cache", p.cached, p.prompt)
		case label == Warm && least <= 0:
			c.Doubt = fmt.Sprintf("a prompt of %v tokens is no longer than two blocks of the cache (%d tokens each), so nothing shows whether it was warm", p.prompt/streams, block)
		case label == Warm && p.cached < least:
			c.Label = Evicted
			c.Violation = fmt.Sprintf("labelled warm, and only %v of %v prompt tokens came from the cache: it was evicted, or the server has no prefix cache", p.cached, p.prompt)
		}
	}
	c.Cached = &all.cached
	if all.prompt > 0 {
		share := all.cached / all.prompt
		c.Share = &share
	}
	c.Verified = c.Violation == "" && c.Doubt == ""
	return c
}

// parts are the prompts one by one where every answer tells of them, else all together by the counters; nil if neither
// does. salted reports whether every request had a salt.
func (c *CacheCheck) parts(lines []Line, d scrape.Delta) (parts []part, salted bool) {
	salted = len(lines) > 0
	for _, line := range lines {
		salted = salted && line.Request.Salt != ""
		n, source := cachedOf(line.Record)
		if n == nil || line.Record.Numbers.PromptTokens == nil {
			continue
		}
		c.Source = source
		parts = append(parts, part{*n, float64(*line.Record.Numbers.PromptTokens)})
	}
	switch {
	case len(lines) > 0 && len(parts) == len(lines):
		return parts, salted
	case d.CacheHits != nil && d.CacheQueries != nil && *d.CacheQueries > 0:
		c.Source = "counters"
		return []part{{*d.CacheHits, *d.CacheQueries}}, salted
	}
	c.Source = ""
	return nil, salted
}

// cachedOf is what an answer says of its own prompt.
func cachedOf(r account.Record) (*float64, string) {
	if n := r.Numbers.CachedTokens; n != nil {
		v := float64(*n)
		return &v, "usage"
	}
	if v, ok := r.Facts.Server["cache_n"]; ok {
		return &v, "timings" // of llama.cpp
	}
	return nil, ""
}

// count counts the text of channels with the server's tokenizer where the server itself does not say how many tokens
// each had: after the group, so that nothing of it is measured.
func (l *Load) count(ctx context.Context, r *Report) {
	for i := range r.Lines {
		line := &r.Lines[i]
		if line.Texts.Reasoning == "" && line.Texts.Tool == "" || line.Record.Facts.ReasoningTokens() != nil {
			continue // the whole is the answer, or the server says how much of it is not
		}
		if !l.countLine(ctx, line) {
			return
		}
	}
}

// countLine counts the channels of one stream. A channel that cannot be counted is left without, which its null says. It
// is false if the server does not answer: to ask it for every channel of every stream would take hours.
func (l *Load) countLine(ctx context.Context, line *Line) (answers bool) {
	var counted account.Retokenized
	for _, c := range []struct {
		text string
		into **int64
	}{{line.Texts.Reasoning, &counted.Reasoning}, {line.Texts.Content, &counted.Content}, {line.Texts.Tool, &counted.Tool}} {
		if c.text == "" {
			continue
		}
		n, err := l.Server.CountText(ctx, c.text)
		var refused *dialect.StatusError
		switch {
		case err == nil:
			v := int64(n)
			*c.into, line.Record.Facts.Retokenized = &v, &counted
		case !errors.As(err, &refused) || refused.Code >= http.StatusInternalServerError:
			return false
		}
	}
	return true
}
