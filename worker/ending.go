package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"

	"golang.org/x/sys/unix"
)

// blank is the result of a pair before anything is known about it.
func (w *worker) blank(pair plan.Pair) *result.Result {
	p := w.cfg.Run.Plan
	key := p.Key
	if pair.Case != "" {
		key = p.CaseKey
	}
	now := time.Now().UTC()
	r := &result.Result{
		Schema: result.Schema, Plan: p.Digest, Key: key, Run: w.cfg.Run.Name(),
		Point: pair.ID, Case: pair.Case, Repeat: pair.Repeat, Start: pair.Start, Attempt: w.cfg.Attempt, Restart: w.cfg.Alloc.Restart,
		Array: w.cfg.Array, Task: w.cfg.Index, Metrics: map[string]*float64{}, Warnings: []result.Warning{},
		Provenance: w.record.New(pair), Started: now, Ended: now,
	}
	for _, param := range p.Params(pair.Point) {
		r.Params = append(r.Params, result.Param(param))
	}
	w.doubts(r)
	return r
}

// answers are the outcomes that count although the work was told to stop meanwhile. TERM reaches the programs at the
// same moment as the worker, so any other end is its doing: a crash, a broken collective, a missing file.
var answers = []catalogue.Outcome{
	catalogue.OK, catalogue.OOMDevice, catalogue.OOMComm, catalogue.OOMHost, catalogue.TooBig, catalogue.Slow,
	catalogue.Timeout, catalogue.WrongOutput, catalogue.Skipped, catalogue.Invalid,
}

func stands(o catalogue.Outcome) bool { return slices.Contains(answers, o) }

// interrupted is the outcome of a pair that was stopped from outside. Near the end of the time it is a time-out; a
// signal earlier than that only says that somebody wanted it to stop.
func (w *worker) interrupted(r *result.Result, cause error) {
	r.Ended = time.Now().UTC()
	r.Outcome, r.Reason = catalogue.Cancelled, cause.Error()
	switch {
	case errors.Is(cause, ErrTaskTime):
		limit := time.Duration(w.task.Seconds) * time.Second
		r.Outcome, r.Reason = catalogue.Timeout, fmt.Sprintf("the task's time of %v was used up", limit)
	case !w.cfg.Alloc.End.IsZero() && time.Until(w.cfg.Alloc.End) < w.notice(cause):
		r.Outcome, r.Reason = catalogue.Timeout, cause.Error()+" near the job's time limit"
	}
}

// notice is how long before the end of a job the time limit can be the cause of a signal. Slurm sends its warning up to
// a minute earlier than it was asked to; TERM it sends at the limit itself, and at any other time for another reason,
// such as a node failure. The clocks of two machines may differ a little.
func (w *worker) notice(cause error) time.Duration {
	const clocks = 10 * time.Second
	if errors.Is(cause, ErrWarned) {
		return time.Duration(w.cfg.Run.Plan.Spec.Slurm.SignalBefore) + time.Minute + clocks
	}
	return clocks
}

// openFailed leaves a result for every pair: the workload could not be opened for any.
func (w *worker) openFailed(ctx context.Context, todo []plan.Pair, cause error) error {
	for _, pair := range todo {
		r := w.blank(pair)
		r.Started = w.began.UTC()
		r.Outcome, r.Reason, r.Evidence = catalogue.Error, "the workload could not be opened", cause.Error()
		if ctx.Err() != nil {
			w.interrupted(r, context.Cause(ctx))
		}
		if err := w.write(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// setupFailed leaves a result for every pair after a set-up line has failed: a failed set-up is an ending too.
// where is LINE:RC, as the script gives it.
func (w *worker) setupFailed(todo []plan.Pair, where string) error {
	line, code, ok := strings.Cut(where, ":")
	n, errLine := strconv.Atoi(line)
	rc, errCode := strconv.Atoi(code)
	if !ok || errLine != nil || errCode != nil {
		return fmt.Errorf("--setup-failed %q is not LINE:RC", where)
	}
	text := ""
	if setup := w.cfg.Run.Plan.Spec.Setup; n >= 1 && n <= len(setup) {
		text = setup[n-1]
	}
	signals := []int{128 + int(unix.SIGTERM), 128 + int(unix.SIGUSR2), 128 + int(unix.SIGINT)} // as a shell tells them
	for _, pair := range todo {
		r := w.blank(pair)
		r.Outcome = catalogue.Error
		r.Reason = fmt.Sprintf("set-up line %d ended with exit code %d", n, rc)
		r.Evidence = text
		if slices.Contains(signals, rc) {
			cause := ErrSignal
			if rc == 128+int(unix.SIGUSR2) {
				cause = ErrWarned
			}
			w.interrupted(r, fmt.Errorf("%w in set-up line %d", cause, n))
		}
		if err := w.write(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// StartedAgain begins the reason of a result that givenUp left, which says nothing about the node where it was written.
const StartedAgain = "started again"

// givenUp leaves a result for every pair of a task that the scheduler has started again more often than the spec allows:
// it would go on doing so for as long as the nodes fail.
func (w *worker) givenUp(todo []plan.Pair, limit int) error {
	for _, pair := range todo {
		r := w.blank(pair)
		r.Outcome = catalogue.Infra
		r.Reason = fmt.Sprintf(StartedAgain+" %d times after a node failure or a preemption; retry.max is %d", w.cfg.Alloc.Restart, limit)
		if err := w.write(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// write puts a result into the run folder, then its samples: the result must not wait for them.
func (w *worker) write(r *result.Result, samples []result.Sample) error {
	dir := w.cfg.Run.ResultsDir()
	if err := w.record.Settle(r); err != nil {
		w.log.Error("the provenance is not whole", "error", err.Error()) // the result is worth more
	}
	err := result.Write(dir, r)
	if errors.Is(err, fs.ErrExist) {
		w.log.Warn("a good result of this attempt is there already", "point", r.Point, "repeat", r.Repeat, "outcome", r.Outcome)
		return nil
	}
	if err != nil {
		return fmt.Errorf("result of point %s (%s): %w", r.Point, r.Outcome, err)
	}
	w.log.Info("result", "point", r.Point, "repeat", r.Repeat, "outcome", r.Outcome, "reason", r.Reason)
	if len(samples) > 0 {
		if err := result.WriteSamples(dir, r, samples); err != nil {
			return fmt.Errorf("samples of point %s: %w", r.Point, err)
		}
	}
	return nil
}
