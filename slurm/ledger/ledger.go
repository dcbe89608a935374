// Package ledger is the file jobs.jsonl of a run folder: what was given to sbatch, and what sbatch said. A line is
// written before each call and one after it, so that a submission that was cut off shows. Use Open to write, which
// keeps other writers out until Close, and Read to look. Workers never write it.
package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Event is what a line tells of a job.
type Event string

// The events. A job is known by its last one.
const (
	Submitting Event = "submitting" // sbatch is about to be called
	Submitted  Event = "submitted"  // the job is in, under ID
	Refused    Event = "refused"    // sbatch did not take it; Reason has its words
	Unknown    Event = "unknown"    // sbatch gave no answer, or was cut off
	Absent     Event = "absent"     // the answer was lost, and a later look found no such job
	Cancelled  Event = "cancelled"  // scancel was told to end it
)

// Line is one line of the file.
type Line struct {
	Time    time.Time `json:"time"`
	Event   Event     `json:"event"`
	Name    string    `json:"name"`             // of the job; unique in the run
	Array   *int      `json:"array"`            // null: the collect job
	Attempt int       `json:"attempt"`          // the number of its script
	Tasks   string    `json:"tasks,omitempty"`  // indices as ranges, such as 0-4,7; on the line before the call
	Argv    []string  `json:"argv,omitempty"`   // the call, on the line before it
	ID      string    `json:"id,omitempty"`     // counts only together with Name: a crashed controller gives ids anew
	Reason  string    `json:"reason,omitempty"` // of a refusal or of doubt
}

// Ledger is the file, open for writing. Only one process has it at a time.
type Ledger struct {
	path string
	lock *flock.Flock
	file *os.File
	jobs []Job
	torn bool // the last line lacks its end
}

// retry is how often a lock that somebody else holds is tried again.
const retry = 100 * time.Millisecond

// Open locks the ledger at path, made if missing, and reads it. While another process has it, waiting is called once
// and Open waits until ctx ends.
func Open(ctx context.Context, path string, waiting func()) (*Ledger, error) {
	told := sync.OnceFunc(waiting)
	for {
		lock, err := acquire(ctx, path, told)
		if err != nil {
			return nil, fmt.Errorf("lock the ledger %s: %w", path, err)
		}
		if !current(lock, path) { // whoever had it has written nothing and removed it
			if err := lock.Close(); err != nil {
				return nil, err
			}
			continue
		}
		l := &Ledger{path: path, lock: lock}
		if err := l.load(); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		return l, nil
	}
}

// Lock makes the file at path, if it is missing, and keeps other processes that lock it out until release is called. It
// is for a step of which no ledger can tell yet, because its run is made in it. While another process is there, waiting
// is called once and Lock waits until ctx ends.
func Lock(ctx context.Context, path string, waiting func()) (release func() error, err error) {
	lock, err := acquire(ctx, path, waiting)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return lock.Close, nil
}

func acquire(ctx context.Context, path string, waiting func()) (*flock.Flock, error) {
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o644))
	free, err := lock.TryLock()
	if err == nil && !free {
		waiting()
		_, err = lock.TryLockContext(ctx, retry)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// current reports whether the locked file still is the one under its name.
func current(lock *flock.Flock, path string) bool {
	locked, errLocked := lock.Stat()
	named, errNamed := os.Stat(path)
	return errLocked == nil && errNamed == nil && os.SameFile(locked, named)
}

func (l *Ledger) load() error {
	data, err := os.ReadFile(l.path)
	if err != nil {
		return err
	}
	if l.jobs, err = parse(l.path, data); err != nil {
		return err
	}
	if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	last := data[bytes.LastIndexByte(data, '\n')+1:]
	l.torn = len(last) > 0 && json.Valid(last)
	if len(last) > 0 && !l.torn { // a writer was killed within its last line, which tells nothing
		return l.file.Truncate(int64(len(data) - len(last)))
	}
	return nil
}

// Append writes a line, with the present as its time, and syncs it: what follows must not happen before it is kept.
func (l *Ledger) Append(line Line) error {
	line.Time = time.Now().UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if l.torn {
		data = append([]byte("\n"), data...)
	}
	if n, err := l.file.Write(append(data, '\n')); err != nil {
		if n > 0 { // a full disk takes the beginning of a line, which would spoil the next one
			err = errors.Join(err, l.cut(int64(n)))
		}
		return fmt.Errorf("ledger %s: %w", l.path, err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("ledger %s: %w", l.path, err)
	}
	l.torn = false
	l.jobs = apply(l.jobs, line)
	return nil
}

// cut takes n bytes off the end of the file.
func (l *Ledger) cut(n int64) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	return l.file.Truncate(info.Size() - n)
}

// Jobs lists what the ledger knows, in the order of the submissions.
func (l *Ledger) Jobs() []Job { return l.jobs }

// Close gives the ledger free. One that nothing was ever written to is removed: it would look like a submission.
func (l *Ledger) Close() error {
	var gone error
	if info, err := l.file.Stat(); err == nil && info.Size() == 0 {
		gone = os.Remove(l.path)
	}
	return errors.Join(gone, l.file.Close(), l.lock.Close())
}

// Read lists the jobs of the ledger at path without locking it. No file is no job.
func Read(path string) ([]Job, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// parse reads all lines. A line that was cut off tells nothing; one that cannot be read elsewhere is an error, because
// what it says may be running.
func parse(path string, data []byte) ([]Job, error) {
	var jobs []Job
	n := 0
	for text := range bytes.Lines(data) {
		n++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var line Line
		if err := json.Unmarshal(text, &line); err != nil {
			if !bytes.HasSuffix(text, []byte("\n")) {
				break // the last one, whose writer was killed or is at it
			}
			return nil, fmt.Errorf("ledger %s line %d: %w; mend or remove that line", path, n, err)
		}
		if line.Name == "" {
			return nil, fmt.Errorf("ledger %s line %d names no job; mend or remove that line", path, n)
		}
		jobs = apply(jobs, line)
	}
	return jobs, nil
}
