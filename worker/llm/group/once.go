package group

import (
	"context"
	"fmt"
	"maps"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/stream"
)

// Once sends one request that is no part of a group, as a preflight does, and tells what it took from the cache: by its
// own answer, else by the counters around it; nil if neither says. Counters that cannot be read are no error.
func Once(ctx context.Context, s *dialect.Server, m *scrape.Source, r Request, t stream.Timeouts) (Line, *float64, error) {
	client, err := stream.New(s.URL, stream.Options{Concurrency: 1, Timeouts: t, Key: stream.NewSecret(s.Key().Reveal())})
	if err != nil {
		return Line{}, nil, err
	}
	defer client.Close()
	before, errBefore := m.Fetch(ctx)
	x := client.Do(ctx, r.request(nil, 1))
	line := observe(x, client, s, r, roleStream)
	if ctx.Err() != nil {
		return line, nil, context.Cause(ctx)
	}
	if n, _ := cachedOf(line.Record); n != nil {
		return line, n, nil
	}
	if after, err := m.Fetch(ctx); err == nil && errBefore == nil {
		return line, scrape.Between(before, after).CacheHits, nil
	}
	return line, nil, nil
}

// Burst sends the streams of a load once from one barrier, unmeasured, and returns what became of them. The error is the
// cause of ctx, or that nothing could be sent.
func Burst(ctx context.Context, l Load) ([]Line, error) {
	client, err := stream.New(l.Server.URL, stream.Options{Concurrency: len(l.Streams), Timeouts: l.Timeouts, Key: stream.NewSecret(l.Server.Key().Reveal())})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	requests := make([]stream.Request, len(l.Streams))
	for i := range l.Streams {
		requests[i] = l.Streams[i].request(nil, len(requests))
	}
	lines := make([]Line, len(requests))
	for i, x := range client.Ready(ctx, requests...).Wait() {
		lines[i] = observe(x, client, l.Server, l.Streams[i], roleStream)
	}
	return lines, context.Cause(ctx)
}

// Prime is Burst so that a warm repeat finds its prompts in the cache. It returns how many requests were no success.
func Prime(ctx context.Context, l Load) (failed int, err error) {
	lines, err := Burst(ctx, l)
	for _, line := range lines {
		if line.Record.Numbers.Outcome != account.Success {
			failed++
		}
	}
	return failed, err
}

// Unmeasured are sampling settings for a request with a budget smaller than the sweep's: without a least number of tokens,
// which a server refuses above the budget.
func Unmeasured(sampling map[string]any) map[string]any {
	own := maps.Clone(sampling)
	delete(own, "min_tokens")
	return own
}

// Failure is what a server says of a request that was no success.
func (l *Line) Failure() string {
	f := l.Record.Facts
	for _, x := range []*account.Failure{f.InBand, f.Failure} {
		if x != nil {
			return x.Text
		}
	}
	return fmt.Sprintf("status %d, finish reason %q", f.Status, f.Finish)
}

// observe makes a line of an exchange.
func observe(x *stream.Exchange, client *stream.Client, s *dialect.Server, r Request, role string) Line {
	rules := account.Rules{NeedDone: s.Kind.Traits().AlwaysDone}
	if r.Fixed {
		rules.Target = int64(r.MaxTokens)
	}
	facts, texts := account.Observe(x, client.Epoch(), rules)
	return Line{Request: r, Role: role, Record: account.Record{Facts: facts, Numbers: account.Judge(facts)}, Texts: texts}
}
