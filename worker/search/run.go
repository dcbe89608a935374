package search

import (
	"context"
	"fmt"
)

// Run carries a search out: it asks Next and hands every step to try until there is an answer. It starts with
// the trials that are known already, without those at their end that say nothing because the machine failed or
// the work was cancelled, and returns all trials in order, also when it fails. An error of try, or one of ctx
// between two trials, ends it without an answer; a trial that failed is no error but has an outcome.
func Run(ctx context.Context, cfg Config, known []Trial, try func(context.Context, Step) (Trial, error)) (Answer, []Trial, error) {
	for len(known) > 0 && !known[len(known)-1].Outcome.Done() {
		known = known[:len(known)-1]
	}
	trials := append([]Trial(nil), known...)
	for {
		step, err := Next(cfg, trials)
		if err != nil {
			return Answer{}, trials, err
		}
		if step.Answer != nil {
			return *step.Answer, trials, nil
		}
		if err := ctx.Err(); err != nil {
			return Answer{}, trials, err
		}
		// What ran before this call left no process behind.
		if len(trials) == len(known) {
			step.Fresh = true
		}
		t, err := try(ctx, step)
		if err != nil {
			return Answer{}, trials, fmt.Errorf("size %d: %w", step.N, err)
		}
		t.N, t.Confirm, t.Verify, t.Fresh = step.N, step.Confirm, step.Verify, t.Fresh || step.Fresh
		trials = append(trials, t)
	}
}
