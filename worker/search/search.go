// Package search finds the largest size N that fits. Use it wherever a size is tried until the memory is full:
// Next is a pure function of the configuration and of the trials made so far, so a search is resumed by handing
// it the trials that are already known, and replaying a history always gives the same decisions.
//
// The search fits a + bN + cN² to the measured peaks and tries the size that the fit says is the last to fit. The
// fit only says where to look, and so does a hint: the answer is a bracket between a size that ran and one that ran
// out of memory, and plain bisection takes over as soon as the fit has been wrong. Without peaks it doubles and bisects.
package search

import (
	"fmt"
	"math"

	"cpbench/plan/catalogue"
)

// Config describes a search.
type Config struct {
	From      int64   // smallest size to try; rounded up to the grid
	To        int64   // ceiling; rounded down to the grid
	Step      int64   // the grid: only multiples of it are tried
	Tolerance float64 // the bracket is closed when it is this narrow, as a share of its lower end; never below Step
	Confirm   int     // fresh processes in which the answer has to fit again
	Verify    int     // sizes below the answer that are tried after it
	Hint      int64   // size to look at first, such as an earlier answer; 0 or less: none
	Budget    float64 // seconds that all trials together may take; 0 sets no limit
}

// Trial is one size that was tried.
type Trial struct {
	N             int64
	Outcome       catalogue.Outcome
	PeakBytes     *float64 // allocated peak, maximum over ranks; nil: unknown
	CapacityBytes *float64 // memory that a rank may use; nil: unknown
	Seconds       float64  // wall time, with the launch if the process was fresh
	Fresh         bool     // ran in a new process
	Confirm       bool     // ran to confirm the answer, in a new process
	Verify        bool     // ran to verify a size below the answer
}

// Step is what to do next: try the size N, or stop with the Answer.
type Step struct {
	N       int64
	Fresh   bool    // start a new process; otherwise the one of the last trial may be used again
	First   bool    // the very first trial: nothing has been compiled or cached by an earlier one
	Confirm bool    // a trial of the answer so far in a new process
	Verify  bool    // a trial of a size below the answer so far
	Expect  float64 // seconds that the trial may take by what the others took; 0: they do not tell
	Why     string  // for people: why this size
	Answer  *Answer // not nil: the search is over and N is not to be tried
}

// Ended says what ended a search, which decides how the answer is to be printed.
type Ended string

// The endings.
const (
	Closed      Ended = "closed"       // the bracket [Fits, OOM) is as narrow as was asked for
	Ceiling     Ended = "ceiling"      // the largest size of the grid fits: at least Fits
	Floor       Ended = "floor"        // the smallest size of the grid does not fit: less than OOM
	TimeLimit   Ended = "time_limit"   // the time was used up, or the next size is over its wall budget: at least Fits
	LimitOther  Ended = "limit_other"  // a limit that is not memory stands above Fits
	Unstable    Ended = "unstable"     // Fits failed at least one of its confirmations
	NonMonotone Ended = "non_monotone" // the bracket is closed, but a size above it fitted too
	Aborted     Ended = "aborted"      // a failure that says nothing about memory; the bracket is what was seen until then
)

// Answer is what the trials show, and never more.
type Answer struct {
	Fits          *int64 // largest size that fits and has no out-of-memory below it; nil: none
	OOM           *int64 // smallest size above Fits that ran out of memory; nil: none was seen
	Limit         *int64 // smallest size that met a limit other than memory; nil: none was seen
	Ended         Ended
	Cause         catalogue.Outcome // outcome that ended the search when it was not the bracket; else empty
	Confirmed     int               // new processes in which Fits ran again
	Confirms      int               // ... of so many that were asked for
	PeakBytes     *float64          // peak at Fits; nil: unknown
	CapacityBytes *float64          // memory that a rank may use, as last told at Fits; nil: unknown
	NonMonotone   bool              // OOM did not fit although the larger Above did
	Above         *int64            // with NonMonotone: the largest size that fitted
	Verified      int               // sizes below the answer that fitted when they were verified
	Verifies      int               // ... of so many that were tried for it
	Doubtful      []Trial           // trials that were to verify a size and ended without a word about memory
	Reserve       *int64            // largest size, at most Fits, whose fitted peak leaves a twentieth of the capacity free; nil: unknown
	Reason        string            // for people; empty when Ended says all
}

// Next decides what to do after the given trials, which stand in the order in which they were made. It fails
// only on a configuration that no search can follow.
func Next(cfg Config, trials []Trial) (Step, error) {
	g, err := cfg.grid()
	if err != nil {
		return Step{}, err
	}
	h := replay(cfg, g, trials)
	step := Step{First: len(trials) == 0}
	step.Fresh = step.First || !trials[len(trials)-1].Outcome.Fits()
	switch {
	case h.ended != "":
	case h.retry != 0:
		step.N, step.Fresh, step.Why = h.retry, true, "once more in a new process: "+h.doubt
		step.Confirm, step.Verify = h.retryConfirm, h.retryVerify
	default:
		step.N, step.Why = h.choose()
	}
	switch {
	case step.N == 0 || step.Confirm && !h.affordable(step):
		step = h.conclude(Step{First: step.First, Fresh: step.First || !trials[len(trials)-1].Outcome.Fits()})
	case !h.affordable(step):
		step = h.outOfTime(step)
	}
	if step.Answer == nil {
		step.Expect = h.expect(step)
	}
	return step, nil
}

// grid is the configuration in multiples of the step.
type grid struct {
	step, from, to int64
}

// grid checks the configuration and rounds its ends inwards.
func (c Config) grid() (grid, error) {
	switch {
	case c.Step < 1:
		return grid{}, fmt.Errorf("step %d: needs at least 1", c.Step)
	case c.From < 1:
		return grid{}, fmt.Errorf("from %d: needs at least 1", c.From)
	case c.From > c.To:
		return grid{}, fmt.Errorf("from %d is above to %d", c.From, c.To)
	case c.To > math.MaxInt64/8:
		return grid{}, fmt.Errorf("to %d: too large", c.To)
	case !(c.Tolerance >= 0 && c.Tolerance < 1): // also refuses NaN
		return grid{}, fmt.Errorf("tolerance %v: needs a share from 0 to below 1", c.Tolerance)
	case c.Confirm < 0:
		return grid{}, fmt.Errorf("confirm %d: needs at least 0", c.Confirm)
	case c.Verify < 0:
		return grid{}, fmt.Errorf("verify %d: needs at least 0", c.Verify)
	case !(c.Budget >= 0):
		return grid{}, fmt.Errorf("budget %v seconds: needs at least 0", c.Budget)
	}
	g := grid{step: c.Step, to: c.To / c.Step * c.Step}
	if g.from = c.From / c.Step * c.Step; g.from < c.From {
		g.from += c.Step // cannot overflow: From is at most MaxInt64/8
	}
	if g.from > g.to {
		return grid{}, fmt.Errorf("no multiple of step %d lies between from %d and to %d", c.Step, c.From, c.To)
	}
	return g, nil
}

// down rounds n down to the grid.
func (g grid) down(n float64) int64 {
	if !(n < float64(g.to)) {
		return g.to
	}
	return int64(math.Max(n, 0)) / g.step * g.step
}
