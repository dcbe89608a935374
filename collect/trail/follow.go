package trail

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"cpbench/worker/result"
)

// The rhythm of following. Logs are polled, because shared file systems tell nobody of changes; the scheduler is asked
// only when the logs have been silent for a while, as every look costs it two requests.
const (
	pollPause = time.Second
	silence   = time.Minute
)

// Fate is what the scheduler says about the task of an execution that has left no result yet.
type Fate struct {
	Over  bool   // nothing more will come
	Words string // what became of the task, or what it waits for; empty: nothing to tell
}

// Follow prints what comes until the execution has a result of the newest attempt, or its task has ended without one or
// will never start: then it returns why. fate asks the scheduler; say tells the person who waits what the task waits for
// or has come to, when that changes. The error is that of ctx when somebody has stopped the wait.
func (t *Trail) Follow(ctx context.Context, fate func(context.Context) Fate, say func(words string)) (why string, err error) {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	var heard time.Time // the scheduler is asked at first, and after each silence
	told := ""
	for {
		now := t.look()
		over := t.measured(now) // before the print, so that what came before the result is printed
		if !over && t.gone(now) {
			over, why = true, "its process on this machine is gone, and it has left no result"
		}
		any, err := t.print(now, over)
		if err != nil || over {
			return why, err
		}
		if any && !heard.IsZero() {
			heard = time.Now()
		}
		if time.Since(heard) > silence {
			heard = time.Now()
			switch f := fate(ctx); {
			case f.Over && t.Measured():
				continue // it has come meanwhile
			case f.Over:
				_, err := t.print(t.look(), true)
				return f.Words, err
			case f.Words != "" && f.Words != told:
				told = f.Words
				say(told)
			case told == "" && now.dir == "":
				told = "waiting for the task to start"
				say(told)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// Measured reports whether the newest attempt has left a result of the execution.
func (t *Trail) Measured() bool { return t.measured(t.look()) }

// measured lists the shard's folder anew: that a name does not exist is something that a shared file system remembers.
func (t *Trail) measured(now place) bool {
	if now.dir == "" {
		return false
	}
	entries, err := os.ReadDir(filepath.Join(t.run.ResultsDir(), t.of.ID[:2]))
	if err != nil {
		return false
	}
	want := result.Name(t.of.ID, t.of.Repeat, now.attempt, now.restart) + result.Ext
	for _, e := range entries {
		if e.Name() == want {
			return true
		}
	}
	return false
}

// gone reports whether the task ran on this machine, without Slurm, and its process is no more.
func (t *Trail) gone(now place) bool {
	alive, known := now.start.Alive()
	return known && !alive && !t.measured(now)
}
