package conform

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/stream"
)

// The tokens that each part of the battery asks for.
const (
	plainTokens = 16
	saltTokens  = 8
	stopTokens  = 32
	eachTokens  = 8
	wideStreams = 4
	wideTokens  = 16
	glyphTokens = 48
	abortTokens = 128
)

// MaxRequests and MaxTokens are what the battery costs at most.
const (
	MaxRequests = 5 + wideStreams + 1 + 3 + 1
	MaxTokens   = 2*plainTokens + saltTokens + stopTokens + eachTokens + wideStreams*wideTokens + glyphTokens + 2 + abortTokens
)

// timeouts bound every request of the battery.
var timeouts = stream.Timeouts{Connect: 10 * time.Second, FirstByte: 2 * time.Minute, Idle: time.Minute, Total: 5 * time.Minute}

// evidence is what the battery has seen. An answer that was not asked for is nil.
type evidence struct {
	server *dialect.Server
	sent   int
	block  int // tokens in a block of the prefix cache

	plain, again, other *answer // the same prompt: with a fresh salt, with the same again, with another
	sized               *int    // tokens of that prompt by the tokenizer; nil: it counts no chats
	sizedErr            error
	stopped             *answer // with a text at which to stop
	stop                string
	each                *answer // with usage in every frame, and an argument for the template
	thinking            bool    // the argument
	eachSized           *int    // tokens of that prompt by the tokenizer
	wide                []*answer
	glyphs              *answer // asks for characters of several bytes

	metrics error // why the metrics cannot be read
	delta   scrape.Delta
	load    scrape.Load
	audit   scrape.Audit
	settled time.Duration // until the counters were those of the answers; 0: they never were, or nothing was compared

	abort                      abort
	long, unknownModel, noJSON *answer
}

// gather sends the battery.
func gather(ctx context.Context, s *dialect.Server, m *scrape.Source, dial dialer) (*evidence, error) {
	e := &evidence{server: s, block: group.DefaultBlock}
	client, err := stream.New(s.URL, stream.Options{Concurrency: wideStreams, Timeouts: timeouts, Key: stream.NewSecret(s.Key().Reveal()), Dial: dial})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	b := &battery{evidence: e, client: client}
	before, err := m.WaitIdle(ctx, s.Kind.Traits().GaugeRefresh+5*time.Second)
	if busy := new(scrape.NotIdle); errors.As(err, &busy) && tells(before) {
		return nil, busy
	}
	e.metrics = err
	if n := before.BlockSize(); n != nil {
		e.block = *n
	}
	if b.answers(ctx); e.plain.ok() {
		if e.metrics == nil {
			e.metrics = b.counters(ctx, m, before)
		}
		b.refusals(ctx)
		if e.metrics == nil {
			b.breakOff(ctx, m)
		}
	}
	return e, context.Cause(ctx)
}

// tells reports whether a server has all that shows whether it is idle.
func tells(shot scrape.Snapshot) bool {
	load := shot.Load()
	return load.Running != nil && load.Waiting != nil && scrape.Between(shot, shot).GenerationTokens != nil
}

// battery sends requests and notes what came.
type battery struct {
	*evidence
	client *stream.Client
}

// answers are the requests that shall succeed, and whose sums the counters must tell.
func (b *battery) answers(ctx context.Context) {
	messages := b.prompt(ctx)
	salts := b.server.Kind.Traits().Salt
	saltA, saltB := "", ""
	if salts {
		saltA, saltB = fresh(), fresh()
	}
	plain := dialect.Request{Messages: messages, MaxTokens: plainTokens, Sampling: b.sampling(true), Salt: saltA, Fresh: true}
	if b.plain = b.ask(ctx, plain); !b.plain.ok() {
		return
	}
	plain.Fresh = false
	b.again = b.ask(ctx, plain)
	if salts {
		plain.Salt, plain.MaxTokens = saltB, saltTokens
		b.other = b.ask(ctx, plain)
	}
	if b.stop = middle(b.plain.texts.Content); b.stop != "" {
		sampling := b.sampling(false)
		sampling["stop"] = []string{b.stop}
		b.stopped = b.ask(ctx, dialect.Request{Messages: messages, MaxTokens: stopTokens, Sampling: sampling, Salt: saltA})
	}
	each := dialect.Request{Messages: messages, MaxTokens: eachTokens, Sampling: b.sampling(true), Salt: saltA, FrameUsage: b.server.Kind.Traits().FrameUsage}
	each.Template = b.template(ctx, messages)
	b.each = b.ask(ctx, each)
	b.together(ctx, messages)
	glyphs := []prompt.Message{{Role: "user", Content: "Write these characters ten times over, and nothing else: \U0001f642\U0001f680\u00e9\u6f22\U0001f469\u200d\U0001f680"}}
	b.glyphs = b.ask(ctx, dialect.Request{Messages: glyphs, MaxTokens: glyphTokens, Sampling: b.sampling(true)})
}

// template is an argument of the chat template that changes the size of the prompt, if one does.
func (b *battery) template(ctx context.Context, messages []prompt.Message) dialect.Template {
	if !b.server.Kind.Traits().Template {
		return dialect.Template{}
	}
	for _, thinks := range []bool{true, false} {
		t := dialect.Template{Thinking: &thinks}
		b.thinking = thinks
		if count := b.server.Counter(t); count != nil {
			if n, err := count(ctx, messages); err == nil {
				b.eachSized = &n
			}
		}
		if b.eachSized == nil || b.sized == nil || *b.eachSized != *b.sized {
			break
		}
	}
	return dialect.Template{Thinking: &b.thinking}
}

// together sends several streams from one barrier, each with a salt of its own.
func (b *battery) together(ctx context.Context, messages []prompt.Message) {
	var requests []stream.Request
	for range wideStreams {
		r := dialect.Request{Messages: messages, MaxTokens: wideTokens, Sampling: b.sampling(true), Fresh: true}
		if b.server.Kind.Traits().Salt {
			r.Salt = fresh()
		}
		body, err := b.server.Body(r)
		if err != nil {
			return
		}
		requests = append(requests, stream.Request{Path: dialect.ChatPath, Body: body})
	}
	burst := b.client.Ready(ctx, requests...)
	_ = b.client.Dial(ctx, len(requests)) // a stream without a connection opens its own, and says why it could not
	for _, x := range burst.Wait() {
		b.sent++
		b.wide = append(b.wide, observe(x, b.client, wideTokens))
	}
}

// ask sends one request.
func (b *battery) ask(ctx context.Context, r dialect.Request) *answer {
	body, err := b.server.Body(r)
	if err != nil {
		return &answer{asked: r.MaxTokens, refused: err}
	}
	return b.post(ctx, body, r.MaxTokens)
}

func (b *battery) post(ctx context.Context, body []byte, asked int) *answer {
	b.sent++
	return observe(b.client.Do(ctx, stream.Request{Path: dialect.ChatPath, Body: body}), b.client, asked)
}

// prompt is a text that nothing has cached, several blocks long where the server can count.
func (b *battery) prompt(ctx context.Context) []prompt.Message {
	src, err := prompt.Open(prompt.Synth, prompt.Files{})
	if err != nil {
		b.sizedErr = err
		return []prompt.Message{{Role: "user", Content: "Tell a story."}}
	}
	z := prompt.Sizer{Count: b.server.Counter(dialect.Template{}), Identity: b.server.Identity(dialect.Template{})}
	key, target := prompt.Key{Case: "conform " + fresh()}, 0
	if z.Count != nil {
		target = 4*b.block + 256
		if limit := b.server.ContextLimit; limit != nil {
			target = max(min(target, *limit-stopTokens-prompt.Slack), 0)
		}
	}
	p, err := z.Size(ctx, src, key, target)
	if err != nil { // a tokenizer that fails is a finding and stops nothing
		b.sizedErr = err
		z.Count = nil
		if p, err = z.Size(ctx, src, key, 0); err != nil {
			return []prompt.Message{{Role: "user", Content: "Tell a story."}}
		}
	}
	b.sized = p.Tokens
	return p.Messages
}

// sampling asks for the most likely tokens, and for a full budget where the server can be asked for it.
func (b *battery) sampling(full bool) map[string]any {
	s := map[string]any{"temperature": 0}
	if full && ignoresEnd[b.server.Kind] {
		s["ignore_eos"] = true
	}
	return s
}

// ignoresEnd are the servers that generate to the end of the budget when they are asked to.
var ignoresEnd = map[dialect.Kind]bool{dialect.VLLM: true, dialect.SGLang: true, dialect.LlamaCPP: true}

// fresh is a word that nobody has used.
func fresh() string {
	word := make([]byte, 8)
	rand.Read(word) // crypto/rand never fails
	return "cpbench-conform-" + hex.EncodeToString(word)
}

// middle is a piece out of the middle of a text, which the same prompt should bring again.
func middle(text string) string {
	runes := []rune(strings.TrimSpace(text))
	if len(runes) < 4 {
		return ""
	}
	at := len(runes) / 2
	return strings.TrimSpace(string(runes[at:min(at+4, len(runes))]))
}
