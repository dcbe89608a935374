package prompt

import (
	"context"
	"errors"
	"fmt"
)

// Slack is how many tokens a prompt may be short of its target; it is never above it.
const Slack = 16

// maxProbes bounds the counts of one prompt. Halving a text of 4 MB takes 22, and every second step halves.
const maxProbes = 64

// bytesPerToken is the first guess. It is constant on purpose: a guess that learned from earlier prompts would make a
// prompt depend on what was sized before it. It is low for legal English, so that the first count stays below the
// target.
const bytesPerToken = 4

// Sizer cuts prompts to size.
type Sizer struct {
	// Count is nil for a server that cannot count; then only target 0 is possible, and prompts have no count.
	Count Counter
	// Identity names everything the count depends on: server, model, template arguments.
	Identity string
	// Dir keeps what was measured, so that repeats and resumed tasks cost nothing. Empty: nothing is kept.
	Dir string
}

// Size makes the prompt of a source for a key. Its whole chat prompt has at most target tokens and at most Slack fewer;
// target 0 is the instruction alone, or a user's prompt as it is. It is an error if the source cannot fill the target
// (ErrCorpusTooSmall), if the instruction alone is above it, or if the tokenizer jumps over the range at every cut.
func (z *Sizer) Size(ctx context.Context, src *Source, k Key, target int) (Prompt, error) {
	p := Prompt{Target: target, Source: src.Name, Builder: src.Builder, Corpus: src.Corpus}
	switch {
	case target < 0:
		return p, fmt.Errorf("ctx %d is negative", target)
	case target > 0 && src.Fixed():
		return p, fmt.Errorf("ctx %d: the prompts of %q are sent as they are; use ctx 0 with them", target, src.Name)
	case target > 0 && z.Count == nil:
		return p, fmt.Errorf("ctx %d: %w; only ctx 0 is possible", target, ErrNoCounter)
	case src.Fixed():
		messages, err := src.prompt(k)
		if err != nil {
			return p, err
		}
		return z.asItIs(ctx, p, k, messages)
	case target == 0:
		p.Instruction = alone
		return z.asItIs(ctx, p, k, frame(alone, k, ""))
	}
	p.Instruction = record
	doc := src.document(k)
	if m, ok := z.load(&p, k); ok {
		if err := doc.reach(m.Bytes + 1); err != nil {
			return p, err
		}
		p.Messages = frame(record, k, string(doc.text[:doc.boundary(m.Bytes)]))
		if p.SHA256 = Hash(p.Messages); p.SHA256 == m.SHA256 {
			p.Tokens = &m.Tokens
			return p, nil
		}
	}
	c := cut{sizer: z, doc: doc, key: k, target: target}
	if err := c.search(ctx); err != nil {
		return p, fmt.Errorf("%s prompt of %d tokens: %w", src.Name, target, err)
	}
	p.Messages = frame(record, k, string(doc.text[:c.lo]))
	p.SHA256, p.Tokens, p.Probes = Hash(p.Messages), &c.atLo, c.probes
	return p, z.save(&p, k, c.lo)
}

// asItIs counts a prompt that is not cut.
func (z *Sizer) asItIs(ctx context.Context, p Prompt, k Key, messages []Message) (Prompt, error) {
	p.Messages, p.SHA256 = messages, Hash(messages)
	if z.Count == nil {
		return p, nil
	}
	if m, ok := z.load(&p, k); ok && m.SHA256 == p.SHA256 {
		p.Tokens = &m.Tokens
		return p, nil
	}
	n, err := z.Count(ctx, messages)
	if errors.Is(err, ErrNoCounter) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("counting the tokens of a prompt: %w", err)
	}
	p.Tokens, p.Probes = &n, 1
	return p, z.save(&p, k, 0)
}

// cut is the search for the place to cut one document. Whatever the tokenizer does, the prompt cut at lo is not above
// the target and the one cut at hi is; so a count that is not monotone costs probes and no correctness.
type cut struct {
	sizer  *Sizer
	doc    *document
	key    Key
	target int

	lo, hi       int // bytes; hi is 0 until a cut above the target is known
	base         int // tokens without a document
	atLo, atHi   int // tokens
	probes, even int // even: steps since the range was last halved
}

// search ends with lo at a good cut.
func (c *cut) search(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	for c.target-c.atLo > Slack {
		if c.probes == maxProbes {
			return fmt.Errorf("no size after %d counts", c.probes)
		}
		n, err := c.pick()
		if err != nil {
			return err
		}
		tokens, err := c.count(ctx, n)
		if err != nil {
			return err
		}
		width := c.hi - c.lo
		if tokens <= c.target {
			c.lo, c.atLo = n, tokens
		} else {
			c.hi, c.atHi = n, tokens
		}
		if c.even++; width > 0 && c.hi-c.lo <= width/2 {
			c.even = 0
		}
	}
	return nil
}

// begin counts the prompt without a document.
func (c *cut) begin(ctx context.Context) error {
	n, err := c.count(ctx, 0)
	if err != nil {
		return err
	}
	if n > c.target {
		return fmt.Errorf("the instruction and the template alone have %d tokens", n)
	}
	c.base, c.atLo = n, n
	return nil
}

// count counts the prompt with the document cut at n.
func (c *cut) count(ctx context.Context, n int) (int, error) {
	c.probes++
	tokens, err := c.sizer.Count(ctx, frame(record, c.key, string(c.doc.text[:n])))
	if err != nil {
		return 0, fmt.Errorf("counting its tokens: %w", err)
	}
	return tokens, nil
}

// pick is the next place to try, in the range and at a character boundary.
func (c *cut) pick() (int, error) {
	n := c.guess()
	if err := c.doc.reach(n + 1); err != nil { // one more byte shows where a character ends
		return 0, err
	}
	if n = c.doc.boundary(n); n <= c.lo {
		n = c.doc.after(c.lo)
	}
	switch {
	case c.hi == 0 && n <= c.lo:
		return 0, fmt.Errorf("%w: all of its text that may be used makes %d tokens", ErrCorpusTooSmall, c.atLo)
	case c.hi > 0 && n >= c.hi:
		return 0, fmt.Errorf("no cut comes within %d tokens: one more character takes it from %d to %d", Slack, c.atLo, c.atHi)
	}
	return n, nil
}

// guess is where the middle of the allowed range should be by what is known.
func (c *cut) guess() int {
	aim := c.target - Slack/2
	switch {
	case c.lo == 0 && c.hi == 0:
		return (aim - c.base) * bytesPerToken
	case c.hi == 0 && c.atLo > c.base:
		return max(c.lo+1, min(8*c.lo, c.lo+(aim-c.atLo)*c.lo/(c.atLo-c.base))) // one token may be all that the text had
	case c.hi == 0:
		return 2*c.lo + bytesPerToken
	case c.even >= 2: // the lines between the known counts do not help
		return c.lo + (c.hi-c.lo)/2
	}
	return c.lo + max(1, (aim-c.atLo)*(c.hi-c.lo)/(c.atHi-c.atLo))
}
