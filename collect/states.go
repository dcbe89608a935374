package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cpbench/plan/folder"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// Ending is the final state of one attempt at a task, as the scheduler told it.
type Ending struct {
	Job     string    `json:"job"`   // in the form 121_3
	Word    string    `json:"state"` // the scheduler's own word
	Exit    string    `json:"exit,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Node    string    `json:"node,omitempty"`
	Memory  string    `json:"memory,omitempty"`
	Start   time.Time `json:"start,omitzero"` // zero: it never started
	End     time.Time `json:"end,omitzero"`
	Restart int       `json:"restart"` // -1: unknown
}

// Attempt names one attempt at a task of a run.
type Attempt struct{ Array, Task, Attempt int }

func (a Attempt) key() string { return fmt.Sprintf("%d-%d-a%d", a.Array, a.Task, a.Attempt) }

// Endings are the final states that the scheduler has told so far, kept in states.json of a run. A scheduler forgets:
// without them a result that a task never wrote would have no explanation a month later.
type Endings struct {
	path  string
	tasks map[string]Ending
	fresh map[string]Ending // not in the file yet
	bad   error             // the file cannot be read, so it is left alone
}

// statesSchema is the version of states.json.
const statesSchema = 1

// statesFile is states.json.
type statesFile struct {
	Schema int               `json:"schema"`
	Tasks  map[string]Ending `json:"tasks"` // by array, task and attempt, such as 0-3-a1
}

// ReadEndings reads what a run keeps; no file is nothing kept. With an error, for a file that is damaged or of a newer
// format, the endings are empty and usable, and Save will leave the file alone.
func ReadEndings(run *folder.Run) (*Endings, error) {
	e := &Endings{path: run.StatesFile(), fresh: map[string]Ending{}}
	e.tasks, e.bad = readStates(e.path)
	return e, e.bad
}

func readStates(path string) (map[string]Ending, error) {
	none := map[string]Ending{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	var f statesFile
	if err := json.Unmarshal(data, &f); err != nil {
		return none, fmt.Errorf("%s is damaged: %w; remove it, and what the scheduler still knows is kept anew", path, err)
	}
	if f.Schema > statesSchema {
		return none, fmt.Errorf("%s has format %d, newer than this cpbench reads (%d)", path, f.Schema, statesSchema)
	}
	if f.Tasks == nil {
		return none, nil
	}
	return f.Tasks, nil
}

// Of returns what is kept about an attempt.
func (e *Endings) Of(a Attempt) (Ending, bool) {
	ending, ok := e.tasks[a.key()]
	return ending, ok
}

// Add takes in a final state. One that is kept already stays, unless the attempt has ended again later: the first word
// is the controller's, and accounting cuts exit codes.
func (e *Endings) Add(a Attempt, ending Ending) {
	if keep(e.tasks, a.key(), ending) {
		e.fresh[a.key()] = ending
	}
}

// keep puts an ending among the others, and reports whether it says anything new.
func keep(tasks map[string]Ending, key string, ending Ending) bool {
	if old, ok := tasks[key]; ok && !ending.End.After(old.End) {
		return false
	}
	tasks[key] = ending
	return true
}

// lockPatience bounds the wait for another process that keeps states of the same run.
const lockPatience = 10 * time.Second

// Save puts what was added into the run, beside what others have kept meanwhile. It does nothing when nothing was added.
func (e *Endings) Save(ctx context.Context) (err error) {
	if len(e.fresh) == 0 {
		return nil
	}
	if e.bad != nil {
		return e.bad
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	// A file of its own, because states.json is replaced and not written.
	lock := flock.New(filepath.Join(filepath.Dir(e.path), ".states.lock"), flock.SetPermissions(0o644))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s: %w", e.path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	kept, err := readStates(e.path)
	if err != nil {
		return err
	}
	for key, ending := range e.fresh {
		keep(kept, key, ending)
	}
	data, err := json.Marshal(statesFile{Schema: statesSchema, Tasks: kept})
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(e.path, append(data, '\n'), 0o644); err != nil {
		return err
	}
	e.tasks, e.fresh = kept, map[string]Ending{}
	return nil
}
