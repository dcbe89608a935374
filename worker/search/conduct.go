package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// Conduct carries out the search that a sweep describes and fills the result of its case point. It begins with the known
// trials, calls try for every further one, and has the time of f for them, or that of ctx if it is less. Where the time
// is used up or ctx ends, the result is what the trials show so far.
func (rep *Report) Conduct(ctx context.Context, f *plan.MaxFit, known []Trial, r *result.Result, try func(context.Context, Step) (Trial, error)) {
	budget := time.Duration(f.Time)
	ctx, cancel := context.WithTimeoutCause(ctx, budget, timeUp{Limit: budget})
	defer cancel()
	if end, ok := ctx.Deadline(); ok { // the task may end earlier, and an answer by then is better than none
		budget = time.Until(end)
	}
	cfg := Config{
		From: f.From, To: f.To, Step: f.Step, Tolerance: float64(f.Tolerance), Confirm: f.Confirm, Verify: f.Verify,
		Hint: rep.Hint, Budget: max(budget.Seconds(), noTime),
	}
	for _, t := range known { // the budget is this attempt's
		cfg.Budget += t.Seconds
	}
	answer, trials, err := Run(ctx, cfg, known, try)
	if err != nil {
		answer = soFar(cfg, trials)
	}
	rep.fill(r, answer)
	if err != nil {
		cut(ctx, r, err)
	}
}

// noTime is the smallest budget in seconds: 0 would set no limit.
const noTime = 1e-9

// timeUp is the cause with which the context of a search ends when the search has used up its own time.
type timeUp struct{ Limit time.Duration }

func (e timeUp) Error() string {
	return fmt.Sprintf("the search took longer than workload.max_fit.time (%v)", e.Limit)
}

// soFar is what the trials of an unfinished search show: the answer of one whose time is used up.
func soFar(cfg Config, known []Trial) Answer {
	cfg.Budget = noTime
	step, err := Next(cfg, known)
	if err != nil || step.Answer == nil { // wrong configuration, or nothing was tried
		return Answer{Ended: Aborted, Confirms: cfg.Confirm}
	}
	return *step.Answer
}

// cut tells in a result that fill has filled why the search could not be finished: err is what ended it, and ctx its
// context. The bracket stays what the trials show.
func cut(ctx context.Context, r *result.Result, err error) {
	if ctx.Err() == nil {
		r.Outcome, r.Reason, r.Evidence = catalogue.Error, "the search cannot be carried out", err.Error()
		return
	}
	r.Warn(catalogue.Interrupted, "the search was cut short: its bracket is what the trials show so far", "")
	cause := context.Cause(ctx)
	var limit timeUp
	if !errors.As(cause, &limit) {
		r.MaxFit.Ended = string(Aborted)
		r.Outcome, r.Reason = catalogue.Cancelled, cause.Error()
		return
	}
	r.Reason = limit.Error()
	if r.MaxFit.Ended == string(Aborted) { // within the first trial
		r.MaxFit.Ended = string(TimeLimit)
	}
	if r.MaxFit.Fits == nil {
		r.Outcome = catalogue.Timeout
	}
}
