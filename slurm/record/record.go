// Package record is what Slurm says about the tasks of some jobs: the queue's word and the accounting's, from one call
// each. Use Ask to learn how tasks stand, ByName to find jobs whose ids were lost, and Explain to put a reason for
// waiting into words.
package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cpbench/slurm"
)

// Task is one task of an array, or a job that is no array, as Slurm tells of it. Empty texts and zero times are unknown.
type Task struct {
	Array     string        // job id of the array; it can be used again after a crash of the controller, so look at Name as well
	Index     int           // in the array; -1: a job that is no array, or a row of accounting that names no index
	Raw       string        // the task's own job id
	Name      string        // the job's name
	State     slurm.State   // as printed; accounting says who cancelled: "CANCELLED by 1000"
	Reason    string        // why it waits, or ended, in Slurm's word; see Explain
	Exit      string        // exit code and signal as Slurm writes them, such as 0:9; of a task that ended
	Node      string        // where it runs or ran, in Slurm's compact form
	Partition string        // the partition, or those that it may go to
	Memory    string        // of the whole job, as it was granted or, before that, asked for
	Submit    time.Time     // when it was submitted
	Start     time.Time     // of its last start; zero: it has not started
	End       time.Time     // zero: it has not ended
	Restarts  int           // how often Slurm has run it again; -1: unknown, as accounting has no word for it
	Limit     time.Duration // the time limit; 0: none, or unknown
	Live      bool          // the controller has it in its memory; false: accounting alone tells of it
}

// Ended reports whether the task will not run again by itself.
func (t Task) Ended() bool { return t.State.Ended() }

// Waits reports whether the task has yet to start, or to start again.
func (t Task) Waits() bool {
	return slices.Contains(waits, t.State)
}

// waits are the states of a task that has yet to start.
var waits = []slurm.State{slurm.Pending, "EXPEDITING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}

// Query says which jobs are asked for. Where both Names and IDs are given a job has to match one of each.
type Query struct {
	Names []string  // names of jobs
	IDs   []string  // ids of arrays, or of jobs that are none
	Since time.Time // accounting is asked from here on; take a day before the submission, as clocks differ
	User  string    // whose jobs; empty: everybody's, as far as the site shows them
}

// ErrNotAsked says that neither the queue nor accounting gave an answer.
var ErrNotAsked = errors.New("slurm does not answer")

// Ask calls sacct and then squeue, once each, whatever the number of jobs. Where one of them fails, the other's word
// stands alone, and Notes say so. It fails with ErrNotAsked where nothing answers. The order matters: what accounting
// takes for alive and the controller, asked later, does not know, is not alive. A site without accounting is no doubt and
// no note, but Snapshot.NoAccounting: the queue's answer has all that the controller still knows.
func Ask(ctx context.Context, s *slurm.Slurm, q Query) (*Snapshot, error) {
	snap := &Snapshot{Taken: time.Now()}
	if len(q.Names) == 0 && len(q.IDs) == 0 {
		return snap, nil
	}
	booked, booksErr := askAccounting(ctx, s, q, snap)
	queued, queueErr := askQueue(ctx, s, q, snap)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	snap.Accounting, snap.Queue = booksErr == nil, queueErr == nil
	snap.NoAccounting = said(booksErr, accountingOff...)
	switch {
	case booksErr != nil && queueErr != nil && snap.NoAccounting:
		return nil, fmt.Errorf("%w: %w", ErrNotAsked, queueErr)
	case booksErr != nil && queueErr != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotAsked, errors.Join(queueErr, booksErr))
	case booksErr != nil && !snap.NoAccounting:
		snap.note("accounting gave no answer, the queue's word stands alone: %s", lastWords(booksErr))
	case queueErr != nil:
		snap.note("the queue gave no answer, accounting's word stands alone and may be some seconds old: %s", lastWords(queueErr))
	}
	snap.merge(queued, booked)
	return snap, nil
}

// accountingOff are the words of sacct where the site keeps no accounting: those of 22.05, and of versions before.
var accountingOff = []string{"accounting storage is disabled", "not running a supported accounting_storage plugin"}

// said reports whether a command of Slurm failed with one of the texts: there are no finer exit codes.
func said(err error, texts ...string) bool {
	words := slurm.Words(err)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(words, text) })
}

// lastWords is what a command said last: the call itself may name a hundred jobs, and of several lines the first ones tell
// of what it tried.
func lastWords(err error) string {
	words := slurm.Words(err)
	if i := strings.LastIndex(words, "; "); i >= 0 {
		words = words[i+2:]
	}
	if words == "" {
		return err.Error()
	}
	return words
}

func askQueue(ctx context.Context, s *slurm.Slurm, q Query, snap *Snapshot) ([]row, error) {
	args := []string{"--noheader", "--all", "--array", "--states=all", "--Format=" + queueFormat}
	out, err := s.Query(ctx, "squeue", append(args, q.filter("--jobs=")...)...)
	if said(err, "Invalid job id specified") {
		return nil, nil // the controller has forgotten the only id that was asked for
	}
	if err != nil {
		return nil, err
	}
	return snap.rows("squeue", string(out), q, parseQueueRow), nil
}

func askAccounting(ctx context.Context, s *slurm.Slurm, q Query, snap *Snapshot) ([]row, error) {
	args := []string{"--noheader", "--allocations", "--parsable2", "--format=" + accountingFormat}
	if q.User == "" {
		args = append(args, "--allusers")
	}
	if !q.Since.IsZero() {
		args = append(args, "--starttime="+q.Since.UTC().Format(timeForm))
	}
	out, err := s.Query(ctx, "sacct", append(args, q.filter("--jobs=")...)...)
	if err != nil {
		return nil, err
	}
	return snap.rows("sacct", string(out), q, parseAccountingRow), nil
}

// filter are the options that both commands know.
func (q Query) filter(jobs string) []string {
	var args []string
	if q.User != "" {
		args = append(args, "--user="+q.User)
	}
	if len(q.Names) > 0 {
		args = append(args, "--name="+strings.Join(q.Names, ","))
	}
	if len(q.IDs) > 0 {
		args = append(args, jobs+strings.Join(q.IDs, ","))
	}
	return args
}

// wants reports whether a row is of a job that was asked for: the commands cut names at commas.
func (q Query) wants(t Task) bool {
	return (len(q.Names) == 0 || slices.Contains(q.Names, t.Name)) &&
		(len(q.IDs) == 0 || slices.Contains(q.IDs, t.Array) || slices.Contains(q.IDs, t.Raw))
}

// ByName returns the ids of the jobs that carry each name, sorted by age, in the queue or in accounting, for a
// submission whose answer was lost. It fails unless both could be asked, or the site keeps no accounting: who takes an
// unknown job for one that does not exist submits it twice.
func ByName(ctx context.Context, s *slurm.Slurm, names []string, since time.Time) (map[string][]string, error) {
	snap, err := Ask(ctx, s, Query{Names: names, Since: since})
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", nameList(names), err)
	}
	if len(names) > 0 && (!snap.Queue || !snap.Accounting && !snap.NoAccounting) {
		return nil, fmt.Errorf("look for %s: %w", nameList(names), errors.New(strings.Join(snap.Notes, "; ")))
	}
	ids := map[string][]string{}
	for _, name := range names {
		if found := snap.IDs(name); found != nil {
			ids[name] = found
		}
	}
	return ids, nil
}

// nameList names the first of some jobs.
func nameList(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
