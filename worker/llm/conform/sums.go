package conform

import (
	"context"
	"time"

	"cpbench/worker/llm/scrape"
)

// settleTime is how long the counters may take to be those of the answers.
const settleTime = 5 * time.Second

// counters waits until the counters have moved by the sums of the answers.
func (b *battery) counters(ctx context.Context, m *scrape.Source, before scrape.Snapshot) error {
	own := b.own()
	begun := time.Now()
	for {
		after, err := m.Fetch(ctx)
		if err != nil {
			return err
		}
		b.delta, b.load = scrape.Between(before, after), after.Load()
		b.audit = scrape.Check(b.delta, own)
		took := time.Since(begun)
		if b.audit.Verdict != scrape.Contaminated {
			b.settled = took
			return nil
		}
		if took > settleTime+b.server.Kind.Traits().GaugeRefresh || !wait(ctx, tick) {
			return nil
		}
	}
}

// own are the sums of the answers so far by their own usage.
func (b *battery) own() scrape.Own {
	var finished, prompts, outputs int64
	own := scrape.Own{Finished: &finished, PromptTokens: &prompts, OutputTokens: &outputs}
	for _, a := range append([]*answer{b.plain, b.again, b.other, b.stopped, b.each, b.glyphs}, b.wide...) {
		if a == nil || a.refused != nil || a.facts.Status >= 400 {
			continue
		}
		if a.facts.Finish != "" {
			finished++
		}
		if n := a.numbers.PromptTokens; n != nil && own.PromptTokens != nil {
			prompts += *n
		} else {
			own.PromptTokens = nil
		}
		if n := a.numbers.CompletionTokens; n != nil && own.OutputTokens != nil {
			outputs += *n
		} else {
			own.OutputTokens = nil
		}
	}
	return own
}

// tick is the time between two looks at the metrics.
const tick = 100 * time.Millisecond

// wait waits, and is false if ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
