package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/gpu"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
	"cpbench/worker/tree"
)

// run is one run of the program, from its start until nothing of it is left.
type run struct {
	dir     string
	fresh   bool // dir is this run's alone
	log     string
	before  map[string]stamp // files that were there before, by path
	seconds float64          // until the program had ended, without what it left behind
	whole   bool             // it did its work, so that its seconds count, be it too slowly
	span    telemetry.Span   // what happened to the GPUs meanwhile
	end     ending
}

// lateGrace is how long a run that failed waits for a signal to the worker that may have ended the program a moment
// before it.
const lateGrace = time.Second

// run runs the program once, in a tree of its own. The title names its log and its folder.
func (s *session) run(ctx context.Context, setting plan.Setting, title string, pace gpu.Pace, r *result.Result) run {
	if s.runs[title]++; s.runs[title] > 1 {
		title = fmt.Sprintf("%s.%d", title, s.runs[title])
	}
	x := run{log: filepath.Join(s.job.LogDir, title+".log")}
	x.dir, x.fresh = s.folder(title)
	if x.fresh {
		if err := os.MkdirAll(x.dir, 0o755); err != nil {
			x.end = infra("no folder for the program", err)
			return x
		}
	}
	if x.end = s.ready(ctx, setting, r); x.end.Outcome != "" {
		return x
	}
	x.before = s.watched(x.dir, setting.Artifact)
	s.job.Log.Info("run", "what", title, "command", strings.Join(setting.Command, " "), "dir", x.dir)
	limited, cancel := s.timeout(ctx)
	defer cancel()
	limited, enough := s.budget(limited)
	defer enough()
	began := time.Now()
	var state *os.ProcessState
	var end ending
	x.span = s.gpus.During(limited, telemetry.Work{Nodes: setting.Resources.Nodes, Pace: pace}, func() {
		state, end = s.await(limited, s.command(setting, x.dir), &x, r)
	})
	s.nodes.CleanUp(context.Background(), setting.Resources.Nodes, s.mark) // what a job step of the program has left
	s.job.Log.Info("ended", "what", title, "exit", exitText(state), "seconds", time.Since(began).Seconds())
	if end.Outcome == catalogue.Error || end.Outcome == catalogue.Infra {
		x.end = end // it never ran
		return x
	}
	f := finish{state: state, stopped: end, missing: x.missing(setting.Artifact), text: tail(x.log, tailBytes), patterns: s.patterns}
	f.kills = s.nodes.Kills(context.WithoutCancel(ctx), setting.Resources.Nodes)
	x.end = f.judge()
	if p := s.gpus.Spoilt(ctx, setting.Resources.Nodes, x.end.Outcome); p != nil {
		x.end = ending{Outcome: p.Outcome, Reason: p.Reason, Evidence: p.Evidence}
	}
	if f.mayBeOurs(x.end) && waits(ctx) {
		x.end = stopped(ctx)
	}
	if x.whole = x.end.Outcome == ""; x.whole {
		f.doubts(r)
		x.end = s.overBudget(x.seconds)
	}
	return x
}

// command is the program before its start.
func (s *session) command(setting plan.Setting, dir string) *exec.Cmd {
	cmd := s.program(setting.Command, setting, dir)
	cmd.Env = append(cmd.Env, s.mark)
	return cmd
}

// await starts the program and waits until it has ended or ctx has; then it ends all that is left of it. The ending
// is that of ctx, or why the program could not be started.
func (s *session) await(ctx context.Context, cmd *exec.Cmd, x *run, r *result.Result) (*os.ProcessState, ending) {
	log, err := os.Create(x.log)
	if err != nil {
		return nil, infra("no log for the program", err)
	}
	defer log.Close() // the program has its own descriptor
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	child, err := tree.Start(cmd)
	if err != nil {
		return nil, startFailed(cmd, err)
	}
	gone := make(chan time.Time, 1)
	go func() {
		child.Wait() //nolint:errcheck // the state says it all
		gone <- time.Now()
	}()
	var end ending
	var ended time.Time
	select {
	case ended = <-gone:
	case <-ctx.Done():
		end = stopped(ctx)
	}
	rep, err := tree.Kill(context.Background(), tree.DefaultGrace) // also when ctx has ended
	if err != nil {
		r.Warn(catalogue.LateKill, err.Error(), "look for processes in an uninterruptible state")
		if ended.IsZero() { // waiting for it could take for ever
			return nil, end
		}
	}
	if ended.IsZero() {
		ended = <-gone
	}
	x.seconds = ended.Sub(began).Seconds()
	if rep.Killed > 0 {
		r.Warn(catalogue.LateKill, fmt.Sprintf("%d processes ignored TERM and had to be killed", rep.Killed), "")
	}
	if end.Outcome == "" && rep.Told > 0 {
		s.job.Log.Warn("the program left processes behind, which were ended", "processes", rep.Told)
	}
	return cmd.ProcessState, end
}

// drop removes the folder of a good run, which would otherwise fill the disk with copies of the same.
func (s *session) drop(x run) {
	if !x.fresh {
		return
	}
	if err := os.RemoveAll(x.dir); err != nil {
		s.job.Log.Warn("the folder of a run stays", "error", err.Error())
	}
}

func startFailed(cmd *exec.Cmd, err error) ending {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) {
		return infra("the program could not be started", err)
	}
	if _, err := os.Stat(cmd.Dir); err != nil { // the error of the start would blame the program
		return ending{Outcome: catalogue.Error, Reason: "the program could not be started in workload.workdir", Evidence: err.Error()}
	}
	return ending{Outcome: catalogue.Error, Reason: "the program could not be started", Evidence: fmt.Sprintf("%s: %v", cmd.Args[0], err)}
}

func infra(what string, err error) ending {
	return ending{Outcome: catalogue.Infra, Reason: what, Evidence: err.Error()}
}

// stopped is the ending of a run whose context has ended.
func stopped(ctx context.Context) ending {
	cause := context.Cause(ctx)
	var slow errSlow
	if errors.As(cause, &slow) {
		return ending{Outcome: catalogue.Slow, Reason: slow.Error()}
	}
	var limit errTimeout
	if errors.As(cause, &limit) {
		return ending{Outcome: catalogue.Timeout, Reason: limit.Error()}
	}
	return ending{Outcome: catalogue.Cancelled, Reason: cause.Error()}
}

// waits reports whether ctx ends within the grace.
func waits(ctx context.Context) bool {
	timer := time.NewTimer(lateGrace)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-timer.C:
		return false
	}
}
