// Package worker runs one task of a plan: it opens the workload, carries out the task's (point, repeat) pairs in
// order, and leaves a result for every ending. It owns the clock, the signals and the files; what an execution does
// is the workload's.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/worker/provenance"
	"cpbench/worker/result"
)

// The reasons for which a session's context ends.
var (
	// ErrSignal is a TERM or INT from outside.
	ErrSignal = errors.New("stopped by a signal")
	// ErrWarned is a USR2 from outside, which Slurm sends some time before a job's time limit. It is an ErrSignal.
	ErrWarned = fmt.Errorf("%w", ErrSignal)
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

// Run carries out the task. ctx ends when the worker is told to stop, with ErrSignal or ErrWarned as its cause. The error is not
// nil when the task could not be begun or a result could not be written; what a program did is in the results.
func Run(ctx context.Context, cfg Config) error {
	w, err := open(cfg)
	if err != nil {
		return err
	}
	defer w.events.Close() // each line is written at once, without a buffer
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
	if retry := cfg.Run.Plan.Spec.Retry; retry.Requeues() && cfg.Alloc.Restart > retry.Max {
		return w.givenUp(todo, retry.Max)
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
	record *provenance.Record // the conditions of the measurement

	brackets map[string]*result.MaxFit // what searches have found, by the id of their point
}

// open checks that the task is the one that the script was written for and that results can be written, before
// anything is started.
func open(cfg Config) (*worker, error) {
	if cfg.Digest != cfg.Run.Plan.Digest {
		return nil, fmt.Errorf("the script was written for plan %s, but %s is plan %s; submit the script of this run",
			cfg.Digest, cfg.Run.PlanFile(), cfg.Run.Plan.Digest)
	}
	if cfg.Workload == nil {
		return nil, fmt.Errorf("this cpbench does not know workload.kind %q", cfg.Run.Plan.Spec.Workload.Kind)
	}
	if cfg.Attempt < 1 {
		return nil, fmt.Errorf("attempt %d: attempts count from 1; submit the script of this run", cfg.Attempt)
	}
	if err := cfg.Run.CheckFiles(); err != nil {
		return nil, err
	}
	task, err := cfg.Run.Task(cfg.Array, cfg.Index)
	if err != nil {
		return nil, err
	}
	w := &worker{cfg: cfg, task: task, began: time.Now(), brackets: map[string]*result.MaxFit{}}
	w.logDir = cfg.Run.LogDir(cfg.Array, cfg.Index, cfg.Attempt, cfg.Alloc.Restart)
	if err := w.openLog(); err != nil {
		return nil, fmt.Errorf("the run folder cannot be written here: %w", err)
	}
	host, _ := os.Hostname() // an empty name is honest
	w.log = slog.New(slog.NewJSONHandler(w.events, nil))
	w.log.Info("start", "job", cfg.Alloc.Job, "node", host, "pid", os.Getpid(), "array", cfg.Array, "task", cfg.Index,
		"attempt", cfg.Attempt, "restart", cfg.Alloc.Restart, "name", cfg.Alloc.Name)
	w.record = w.gather()
	return w, nil
}

// openLog makes the folder of the logs. It tries the results folder first: hours of work must not end with a result
// that has no place.
func (w *worker) openLog() error {
	probe, err := os.CreateTemp(w.cfg.Run.ResultsDir(), ".probe-*")
	if err != nil {
		return err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return err
	}
	if err := os.MkdirAll(w.logDir, 0o755); err != nil {
		return err
	}
	w.events, err = os.OpenFile(filepath.Join(w.logDir, folder.EventsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return err
}

// carryOut opens the workload and runs the pairs until all are done or the time is up.
func (w *worker) carryOut(ctx context.Context, todo []plan.Pair) (err error) {
	limit := time.Duration(w.task.Seconds) * time.Second
	ctx, cancel := context.WithDeadlineCause(ctx, w.began.Add(limit), ErrTaskTime)
	defer cancel()
	var session Session
	var failure error
	w.watch(ctx, todo, func() {
		session, failure = w.cfg.Workload(ctx, Job{Run: w.cfg.Run, Task: w.task, Hosts: w.cfg.Alloc.Hosts, LogDir: w.logDir, Log: w.log})
	})
	if failure != nil {
		return w.openFailed(ctx, todo, failure)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for _, pair := range todo {
		if ctx.Err() != nil {
			w.log.Info("not reached", "point", pair.ID, "repeat", pair.Repeat, "cause", context.Cause(ctx).Error())
			return nil
		}
		if err := w.one(ctx, session, pair); err != nil {
			return err
		}
	}
	return nil
}

// one carries out one pair and writes its result.
func (w *worker) one(ctx context.Context, session Session, pair plan.Pair) error {
	r := w.blank(pair)
	if w.aboveBracket(pair, r) {
		return w.write(r, nil)
	}
	w.log.Info("begin", "point", pair.ID, "repeat", pair.Repeat, "case", pair.Case)
	var samples []result.Sample
	w.watch(ctx, []plan.Pair{pair}, func() { samples = session.Run(ctx, pair, r) })
	r.Ended = time.Now().UTC()
	if ctx.Err() != nil && !stands(r.Outcome) {
		w.interrupted(r, context.Cause(ctx))
	}
	if pair.Case != "" && r.MaxFit != nil {
		w.brackets[pair.ID] = r.MaxFit
	}
	return w.write(r, samples)
}

// watch calls work and returns after it. When ctx ends meanwhile, it first leaves a result for each of the pairs that
// the work is for: whoever told us to stop does not wait until a program has ended. The result that the work leads
// to replaces it.
func (w *worker) watch(ctx context.Context, pairs []plan.Pair, work func()) {
	began := time.Now().UTC()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	w.log.Info("told to stop", "cause", context.Cause(ctx).Error())
	for _, pair := range pairs {
		r := w.blank(pair) // the work has the other one in its hands
		r.Started = began
		w.interrupted(r, context.Cause(ctx))
		if err := w.write(r, nil); err != nil {
			w.log.Error("no early result", "error", err.Error()) // the last one will meet the same
		}
	}
	<-done
}
