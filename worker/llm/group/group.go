// Package group conducts one group of an LLM benchmark: it waits until the server is idle, reads its counters, sends
// all streams from one barrier, waits for counters that are published late, reads them again, and tells what was
// measured and whether it may be believed. Use Run; everything that costs time or tokens (prompts, their sizes) is done
// before it.
package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/health"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/stream"
)

// Label is what a group claims of the server's prefix cache.
type Label string

// The labels. Evicted is what a warm repeat becomes whose prompt was no longer in the cache.
const (
	Cold    Label = "cold"
	Warm    Label = "warm_repeat"
	Evicted Label = "evicted"
)

// Request is one stream, ready to be sent.
type Request struct {
	Prompt    prompt.Prompt
	Salt      string // empty: the server has no salts
	Body      []byte
	MaxTokens int  // reserved for the output
	Fixed     bool // the answer is to have all of them: one that is shorter is told of
}

// Load is a group: Streams start together. If there is a Long one, it is sent when all Streams have brought text and
// Delay has passed since the last of them did: the mixed case.
type Load struct {
	Server   *dialect.Server
	Metrics  *scrape.Source
	Streams  []Request
	Long     *Request
	Delay    time.Duration
	Cache    Label // Cold or Warm
	Settle   time.Duration
	Patience time.Duration // how long an idle server is waited for
	Timeouts stream.Timeouts
	// During, if there is one, calls the function that sends the streams and returns after the last of them has ended; it
	// may take readings before and after.
	During func(send func())
}

// Line is what is known of one stream.
type Line struct {
	Request Request
	Role    string // stream, short or long
	Record  account.Record
	Texts   account.Texts
}

// Report is what a group has measured.
type Report struct {
	Begun       time.Time // of the barrier, by the wall clock
	Lines       []Line    // those of Streams in their order, then the long one
	Group       account.Group
	Before      scrape.Snapshot
	Delta       *scrape.Delta // nil: the counters could not be read after the group
	Speculation scrape.Speculation
	Audit       scrape.Audit
	Cache       CacheCheck
	Overlap     *account.Overlap // of the mixed case
	Health      health.Health
	Client      []string // what about the surroundings of the client may spoil the numbers
	Elapsed     float64  // seconds from the barrier until everything was read and counted, which no rate includes
	// Invalid are the reasons why the numbers must not be used, although the program ran.
	Invalid []Reason
}

// Reason is why a group is not valid: a word of a closed list, and the evidence.
type Reason struct {
	Word string `json:"reason"`
	Text string `json:"text"`
}

// The reasons for which a group is not valid.
const (
	NotIdle      = "not_idle"
	NoOverlap    = "no_overlap"
	CounterReset = "counter_reset"
	CacheLabel   = "cache_label"
	Contaminated = "contaminated"
	BadIdentity  = "speculation_identity"
)

func (r *Report) invalid(word, format string, args ...any) {
	r.Invalid = append(r.Invalid, Reason{word, fmt.Sprintf(format, args...)})
}

// Run carries out a group. An error says that it could not be carried out or that a metrics endpoint did not answer;
// what the streams did is in the report, which is whole as far as it goes in every case. The end of ctx ends all
// streams.
func Run(ctx context.Context, l Load) (*Report, error) {
	r := &Report{Cache: CacheCheck{Label: l.Cache}} // until it is checked
	n := len(l.Streams)
	if l.Long != nil {
		n++
	}
	client, err := stream.New(l.Server.URL, stream.Options{Concurrency: n, Timeouts: l.Timeouts, Key: stream.NewSecret(l.Server.Key().Reveal())})
	if err != nil {
		return r, err
	}
	defer client.Close()
	r.Client = client.Warnings()
	if r.Before, err = l.Metrics.WaitIdle(ctx, l.Patience); err != nil {
		var busy *scrape.NotIdle
		if errors.As(err, &busy) {
			r.invalid(NotIdle, "%v", busy)
			return r, nil
		}
		return r, err
	}
	var exchanges []*stream.Exchange
	var roles []string
	l.during(func() { exchanges, roles = l.send(ctx, client, r) })
	requests := append(append([]Request{}, l.Streams...), deref(l.Long)...)
	for i, x := range exchanges {
		r.Lines = append(r.Lines, observe(x, client, l.Server, requests[i], roles[i]))
	}
	if r.Sum(); ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	r.overlap()
	after, err := l.settled(ctx)
	l.count(ctx, r)
	r.Sum()
	r.Elapsed = time.Since(r.Begun).Seconds()
	if err != nil {
		r.invalid(CounterReset, "the counters were gone after the group: %v", err)
		return r, nil
	}
	l.judge(r, after)
	return r, nil
}

func (l *Load) during(send func()) {
	if l.During == nil {
		send()
		return
	}
	l.During(send)
}

func deref(long *Request) []Request {
	if long == nil {
		return nil
	}
	return []Request{*long}
}

// settled waits for counters that are published periodically and reads them. Foreign traffic meanwhile shows as well.
func (l *Load) settled(ctx context.Context) (scrape.Snapshot, error) {
	if l.Settle > 0 {
		timer := time.NewTimer(l.Settle)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return scrape.Snapshot{}, context.Cause(ctx)
		}
	}
	return l.Metrics.Fetch(ctx)
}

// Sum makes the numbers out of the facts, again if more has become known.
func (r *Report) Sum() {
	records := make([]account.Record, len(r.Lines))
	for i := range r.Lines {
		r.Lines[i].Record.Numbers = account.Judge(r.Lines[i].Record.Facts)
		records[i] = r.Lines[i].Record
	}
	r.Group = account.Sum(records)
}

// judge compares the counters with what the streams say of themselves.
func (l *Load) judge(r *Report, after scrape.Snapshot) {
	d := scrape.Between(r.Before, after)
	r.Delta = &d
	r.Speculation = scrape.Speculate(d, after)
	r.Audit = scrape.Check(d, r.own())
	if len(d.Resets) > 0 {
		r.invalid(CounterReset, "the server's counters began anew during the group: %s", d.Resets[0])
		return
	}
	for _, broken := range r.Speculation.Broken {
		r.invalid(BadIdentity, "%s", broken)
	}
	if r.Audit.Verdict == scrape.Contaminated && r.Group.Valid {
		x := r.Audit.Differences[0]
		r.invalid(Contaminated, "the server counts %v %s and the answers %v: something else used it, or it began anew", x.Server, x.What, x.Own)
	}
	block := DefaultBlock
	if size := after.BlockSize(); size != nil {
		block = *size
	}
	r.Cache = checkCache(l.Cache, r.Lines, d, block)
	if r.Cache.Violation != "" && r.Group.Valid {
		r.invalid(CacheLabel, "%s", r.Cache.Violation)
	}
}

// own are the sums of the group by its own answers.
func (r *Report) own() scrape.Own {
	var finished int64
	for _, line := range r.Lines {
		if line.Record.Facts.Finish != "" {
			finished++
		}
	}
	return scrape.Own{Finished: &finished, PromptTokens: r.Group.PromptTokens, OutputTokens: r.Group.CompletionSum}
}
