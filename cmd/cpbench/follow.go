package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cpbench/plan/folder"
	"cpbench/worker/result"

	"golang.org/x/sys/unix"
)

// The rhythm of following. Logs are polled, because shared file systems tell nobody of changes; Slurm is asked only when
// the logs have been silent for a while, as every look costs it two requests.
const (
	pollPause = time.Second
	silence   = time.Minute
)

// follow prints what comes until the point has a result of the newest attempt, or its task has ended without one.
func (t *trail) follow(ctx context.Context, v voice) error {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	waiting := false
	heard := time.Now()
	for {
		over := t.written() // before the look, so that what came before the result is printed
		why := ""
		if !over && time.Since(heard) > silence {
			heard = time.Now()
			over, why = t.dead(ctx)
		} else if !over && t.gone() {
			over, why = true, "its process on this machine is gone, and it has left no result"
		}
		any, err := t.print(over)
		if err != nil {
			return err
		}
		switch {
		case over && why != "":
			v.sayf("%s", why)
			return errIncomplete
		case over:
			return nil
		case any:
			heard = time.Now()
		case !waiting && t.last == "":
			waiting = true
			v.sayf("waiting for the task to start")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errInterrupted
		}
	}
}

// written reports whether the point has a result of the newest attempt. The shard's folder is listed anew: that a name
// does not exist is something that a shared file system remembers.
func (t *trail) written() bool {
	_, attempt, restart, _ := t.attempt()
	if attempt == 0 {
		return false
	}
	entries, err := os.ReadDir(filepath.Join(t.run.ResultsDir(), t.of.ID[:2]))
	if err != nil {
		return false
	}
	want := result.Name(t.of.ID, t.of.Repeat, attempt, restart) + result.Ext
	for _, e := range entries {
		if e.Name() == want {
			return true
		}
	}
	return false
}

// gone reports whether the task ran on this machine, without Slurm, and its process is no more.
func (t *trail) gone() bool {
	_, _, _, start := t.attempt()
	host, err := os.Hostname()
	if err != nil || start.PID == 0 || start.Job != "" || start.Node != host {
		return false
	}
	return errors.Is(unix.Kill(start.PID, 0), unix.ESRCH) && !t.written()
}

// dead asks Slurm whether the task has ended or will never start.
func (t *trail) dead(ctx context.Context) (over bool, why string) {
	asked := askSlurm(ctx, []*folder.Run{t.run})
	if asked.snap == nil {
		return false, ""
	}
	for _, sub := range asked.runs[t.run].arrays[t.of.array] {
		task, ok := asked.snap.Find(sub.name, t.of.task)
		switch {
		case !ok:
			continue
		case task.Ended() && time.Since(task.End) > grace:
			return true, fmt.Sprintf("the task has ended as %s %s and left no result", task.State, task.Exit)
		case task.Waits():
			if reason, wontStart := asked.explain(task); wontStart {
				return true, willNotStart + reason
			}
		}
		return false, ""
	}
	return false, ""
}
