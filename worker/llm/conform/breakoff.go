package conform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/stream"
	"cpbench/worker/llm/stream/chat"
)

// abort is what became of an answer that the client did not wait for.
type abort struct {
	tried bool
	ended bool          // the answer had ended before it could be broken off
	idle  bool          // the gauges came back to 0
	took  time.Duration // until then, or until nobody waited any longer
	err   error
}

// errEnough ends the stream that is broken off.
var errEnough = errors.New("broken off on purpose")

// breakOff leaves an answer in the middle of its text, and waits until the server has noticed.
func (b *battery) breakOff(ctx context.Context, m *scrape.Source) {
	body, err := b.server.Body(dialect.Request{Messages: []prompt.Message{{Role: "user", Content: "Count from 1 to 1000."}}, MaxTokens: abortTokens, Sampling: b.sampling(true)})
	if err != nil {
		b.abort.err = err
		return
	}
	b.sent++
	b.abort.tried = true
	late, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := stream.NewWatch(chat.HasText)
	burst := b.client.Ready(late, stream.Request{Path: dialect.ChatPath, Body: body, Watch: w})
	burst.Release()
	select {
	case <-w.Text():
	case <-w.Ended():
	}
	cancel(errEnough)
	x := burst.Wait()[0]
	b.abort.ended = !errors.Is(x.Err, errEnough)
	begun := time.Now()
	patience := settleTime + b.server.Kind.Traits().GaugeRefresh
	for {
		shot, err := m.Fetch(ctx)
		b.abort.took = time.Since(begun)
		if err != nil {
			b.abort.err = err
			return
		}
		load := shot.Load()
		if load.Running != nil && load.Waiting != nil && *load.Running == 0 && *load.Waiting == 0 {
			b.abort.idle = true
			return
		}
		if b.abort.took > patience || !wait(ctx, tick) {
			return
		}
	}
}

// longest is the largest context limit for which a prompt that is too long is made: one of some 8 MB.
const longest = 1 << 20

// refusals are the requests that a server has to refuse.
func (b *battery) refusals(ctx context.Context) {
	if limit := b.server.ContextLimit; limit != nil && *limit <= longest {
		var text strings.Builder
		for i := range *limit + 64 { // every number is a token at least
			fmt.Fprintf(&text, "%d ", i)
		}
		b.long = b.ask(ctx, dialect.Request{Messages: []prompt.Message{{Role: "user", Content: text.String()}}, MaxTokens: 1, Sampling: b.sampling(false)})
	}
	other := *b.server
	other.Model = dialect.Card{ID: "cpbench-no-such-model"}
	if body, err := other.Body(dialect.Request{Messages: []prompt.Message{{Role: "user", Content: "x"}}, MaxTokens: 1, Sampling: b.sampling(false)}); err == nil {
		b.unknownModel = b.post(ctx, body, 1)
	}
	b.noJSON = b.post(ctx, []byte(`{"model": "x", "messages": [`), 0)
}
