package group

import (
	"context"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/stream"
)

// Once sends one request that is no part of a group, as a preflight does, and tells what it took from the cache: by its
// own answer, else by the counters around it; nil if neither says. Counters that cannot be read are no error.
func Once(ctx context.Context, s *dialect.Server, m *scrape.Source, r Request, t stream.Timeouts) (Line, *float64, error) {
	client, err := stream.New(s.URL, stream.Options{Concurrency: 1, Timeouts: t, Key: secret(s.Key())})
	if err != nil {
		return Line{}, nil, err
	}
	defer client.Close()
	before, errBefore := m.Fetch(ctx)
	x := client.Do(ctx, r.request(nil))
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

// Prime sends the streams of a load once, unmeasured, so that a warm repeat finds their prompts in the cache. It returns
// how many were no success.
func Prime(ctx context.Context, l Load) (failed int, err error) {
	client, err := stream.New(l.Server.URL, stream.Options{Concurrency: len(l.Streams), Timeouts: l.Timeouts, Key: secret(l.Server.Key())})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	requests := make([]stream.Request, len(l.Streams))
	for i := range l.Streams {
		requests[i] = l.Streams[i].request(nil)
	}
	for i, x := range client.Ready(ctx, requests...).Wait() {
		if line := observe(x, client, l.Server, l.Streams[i], roleStream); line.Record.Numbers.Outcome != account.Success {
			failed++
		}
	}
	return failed, context.Cause(ctx)
}

// observe makes a line of an exchange.
func observe(x *stream.Exchange, client *stream.Client, s *dialect.Server, r Request, role string) Line {
	facts, texts := account.Observe(x, client.Epoch(), account.Rules{NeedDone: s.Kind.Traits().AlwaysDone})
	return Line{Request: r, Role: role, Record: account.Record{Facts: facts, Numbers: account.Judge(facts)}, Texts: texts}
}
