// Package worker runs one task of a plan: it opens the workload, carries out the task's (point, repeat) pairs in
// order, and leaves a result for every ending. It owns the clock, the signals and the files; what an execution does
// is the workload's.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// The reasons for which a session's context ends.
var (
	// ErrSignal is a TERM, USR2 or INT from outside.
	ErrSignal = errors.New("stopped by a signal")
	// ErrTaskTime is the end of resources.time.
	ErrTaskTime = errors.New("the task's time was used up")
)

// Config says which task to run.
type Config struct {
	Run      *folder.Run
	Digest   string // that the script was written for
	Array    int
	Index    int
	Attempt  int
	Again    []string // outcomes to run again although they are done
	Alloc    Allocation
	Workload Workload
	Version  string // of this cpbench
	Setup    string // LINE:RC of a set-up line that failed; empty if none did
}

// Run carries out the task. ctx ends when the worker is told to stop, with ErrSignal as its cause. The error is not
// nil when the task could not be begun or a result could not be written; what a program did is in the results.
func Run(ctx context.Context, cfg Config) error {
	w, err := open(cfg)
	if err != nil {
		return err
	}
	defer w.events.Close() // each line is written at once
	todo, err := w.todo()
	if err != nil {
		return err
	}
	w.log.Info("todo", "pairs", len(todo), "of", len(w.task.Pairs))
	if cfg.Setup != "" {
		return w.setupFailed(todo, cfg.Setup)
	}
	if len(todo) == 0 {
		return nil
	}
	return w.carryOut(ctx, todo)
}

// worker is one task under way.
type worker struct {
	cfg    Config
	task   plan.Task
	began  time.Time
	logDir string
	events *os.File
	log    *slog.Logger
	facts  map[string]string // provenance, the same for all results of the task

	bracket *result.MaxFit // of the search in this task, if it has run
}

// open checks that the task is the one that the script was written for and that results can be written, before
// anything is started.
func open(cfg Config) (*worker, error) {
	if cfg.Digest != cfg.Run.Plan.Digest {
		return nil, fmt.Errorf("the script was written for plan %s, but %s is plan %s; submit the script of this run",
			cfg.Digest, cfg.Run.PlanFile(), cfg.Run.Plan.Digest)
	}
	task, err := cfg.Run.Task(cfg.Array, cfg.Index)
	if err != nil {
		return nil, err
	}
	w := &worker{cfg: cfg, task: task, began: time.Now()}
	w.logDir = cfg.Run.LogDir(cfg.Array, cfg.Index, cfg.Attempt, cfg.Alloc.Restart)
	if err := os.MkdirAll(w.logDir, 0o755); err != nil {
		return nil, fmt.Errorf("the run folder cannot be written here: %w", err)
	}
	w.events, err = os.OpenFile(filepath.Join(w.logDir, folder.EventsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the run folder cannot be written here: %w", err)
	}
	host, _ := os.Hostname() // an empty name is honest
	w.log = slog.New(slog.NewJSONHandler(w.events, nil))
	w.log.Info("start", "job", cfg.Alloc.Job, "node", host, "pid", os.Getpid(), "array", cfg.Array, "task", cfg.Index,
		"attempt", cfg.Attempt, "restart", cfg.Alloc.Restart)
	w.facts = provenance(cfg)
	return w, nil
}

// carryOut opens the workload and runs the pairs until all are done or the time is up.
func (w *worker) carryOut(ctx context.Context, todo []plan.Pair) error {
	deadline := w.began.Add(time.Duration(w.task.Seconds) * time.Second)
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, ErrTaskTime)
	defer cancel()
	session, err := w.cfg.Workload(ctx, Job{Run: w.cfg.Run, Task: w.task, LogDir: w.logDir, Log: w.log, Deadline: deadline})
	if err != nil {
		return w.openFailed(todo, err)
	}
	var failed error
	for _, pair := range todo {
		if ctx.Err() != nil {
			w.log.Info("not reached", "point", pair.ID, "repeat", pair.Repeat, "cause", context.Cause(ctx).Error())
			break
		}
		if failed = w.one(ctx, session, pair); failed != nil {
			break
		}
	}
	return errors.Join(failed, session.Close())
}

// one carries out one pair and writes its result.
func (w *worker) one(ctx context.Context, session Session, pair plan.Pair) error {
	r := w.blank(pair)
	if w.aboveBracket(pair, r) {
		return w.write(r, nil)
	}
	w.log.Info("begin", "point", pair.ID, "repeat", pair.Repeat, "case", pair.Case)
	type report struct{ samples []result.Sample }
	done := make(chan report, 1)
	go func() { done <- report{session.Run(ctx, pair, r)} }()
	var rep report
	select {
	case rep = <-done:
	case <-ctx.Done():
		// The result first: whoever told us to stop may not wait until the program has ended.
		early := w.blank(pair)
		w.interrupted(ctx, early)
		if err := w.write(early, nil); err != nil {
			return err
		}
		rep = <-done
	}
	r.Ended = time.Now().UTC()
	if ctx.Err() != nil && !r.Outcome.Fits() && !r.Outcome.OutOfMemory() && r.Outcome != catalogue.Timeout {
		w.interrupted(ctx, r)
	}
	if pair.Case == plan.CaseMaxFit && r.MaxFit != nil {
		w.bracket = r.MaxFit
	}
	return w.write(r, rep.samples)
}

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
		Point: pair.ID, Case: pair.Case, Repeat: pair.Repeat, Attempt: w.cfg.Attempt, Restart: w.cfg.Alloc.Restart,
		Array: w.cfg.Array, Task: w.cfg.Index, Metrics: map[string]*float64{}, Warnings: []result.Warning{},
		Provenance: map[string]string{}, Started: now, Ended: now,
	}
	for _, param := range p.Params(pair.Point) {
		r.Params = append(r.Params, result.Param(param))
	}
	for k, v := range w.facts {
		r.Provenance[k] = v
	}
	w.doubts(r)
	return r
}

// interrupted is the outcome of a pair that was stopped from outside. Near the end of the time it is a time-out; a
// signal earlier than that only says that somebody wanted it to stop.
func (w *worker) interrupted(ctx context.Context, r *result.Result) {
	cause := context.Cause(ctx)
	r.Outcome, r.Reason = catalogue.Cancelled, cause.Error()
	switch {
	case errors.Is(cause, ErrTaskTime):
		r.Outcome, r.Reason = catalogue.Timeout, fmt.Sprintf("the task's time of %v was used up", time.Duration(w.task.Seconds)*time.Second)
	case !w.cfg.Alloc.End.IsZero() && time.Until(w.cfg.Alloc.End) < w.notice():
		r.Outcome, r.Reason = catalogue.Timeout, "the job's time limit was near"
	}
	r.Ended = time.Now().UTC()
}

// notice is how long before the end of a job its signal may come: Slurm sends it up to a minute early.
func (w *worker) notice() time.Duration {
	return time.Duration(w.cfg.Run.Plan.Spec.Slurm.SignalBefore) + 65*time.Second
}

func (w *worker) write(r *result.Result, samples []result.Sample) error {
	w.log.Info("result", "point", r.Point, "repeat", r.Repeat, "outcome", r.Outcome, "reason", r.Reason)
	dir := w.cfg.Run.ResultsDir()
	if len(samples) > 0 {
		if err := result.WriteSamples(dir, r, samples); err != nil {
			return fmt.Errorf("samples of point %s: %w", r.Point, err)
		}
	}
	err := result.Write(dir, r)
	if errors.Is(err, fs.ErrExist) {
		w.log.Warn("a good result of this attempt is there already", "point", r.Point, "repeat", r.Repeat)
		return nil
	}
	if err != nil {
		return fmt.Errorf("result of point %s (%s): %w", r.Point, r.Outcome, err)
	}
	return nil
}

// openFailed leaves a result for every pair: the workload could not be opened for any.
func (w *worker) openFailed(todo []plan.Pair, cause error) error {
	for _, pair := range todo {
		r := w.blank(pair)
		r.Outcome, r.Reason, r.Evidence = catalogue.Error, "the workload could not be opened", cause.Error()
		if err := w.write(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// todo lists the pairs of the task that need an attempt: without a result, with one that is not done, or with an
// outcome that is to be run again and is older than this attempt.
func (w *worker) todo() ([]plan.Pair, error) {
	var todo []plan.Pair
	for _, pair := range w.task.Pairs {
		last, err := Last(w.cfg.Run, pair)
		if err != nil {
			return nil, err
		}
		if last != nil && pair.Case == plan.CaseMaxFit {
			w.bracket = last.MaxFit
		}
		again := last != nil && last.Attempt < w.cfg.Attempt && Again(last.Outcome, w.cfg.Again)
		if last == nil || !last.Outcome.Done() || again {
			todo = append(todo, pair)
		}
	}
	return todo, nil
}

// Again reports whether a done outcome is among those to run again: by name, or as "failed".
func Again(o catalogue.Outcome, again []string) bool {
	return slices.Contains(again, string(o)) || slices.Contains(again, "failed") && o.Failed()
}

// Last reads the result that counts for a pair: the newest ok one, else the newest. A file that cannot be read
// counts as none. The result is nil when there is none.
func Last(run *folder.Run, pair plan.Pair) (*result.Result, error) {
	shard := filepath.Join(run.ResultsDir(), pair.ID[:2])
	entries, err := os.ReadDir(shard)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var best *result.Result
	for _, e := range entries {
		point, repeat, _, _, ok := result.ParseName(e.Name())
		if !ok || point != pair.ID || repeat != pair.Repeat || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		r, err := result.Read(filepath.Join(shard, e.Name()))
		if err != nil || r.Plan != run.Plan.Digest {
			continue
		}
		switch {
		case best == nil, r.Outcome.Fits() && !best.Outcome.Fits():
			best = r
		case r.Outcome.Fits() == best.Outcome.Fits() && r.Newer(best):
			best = r
		}
	}
	return best, nil
}
