// Package submit gives the arrays of a run to Slurm, each once, and after them the job that collects. What was said to
// sbatch and what it answered stands in the run's ledger, so that a submission can be cut off anywhere and gone on
// with. Use Open, then Session.Look for a run that may have jobs already, then Session.Submit or Session.Cancel.
package submit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/ledger"
	"cpbench/slurm/record"
)

// settle is how long after its call a job may still turn up whose answer was lost: sbatch is gone by then, and its
// request waits for a busy controller at most.
const settle = time.Minute

// Session is a run whose ledger nobody else writes meanwhile.
type Session struct {
	Run *folder.Run

	slurm  *slurm.Slurm
	ledger *ledger.Ledger   // nil of a Peek
	peeked []ledger.Job     // of a Peek
	snap   *record.Snapshot // nil before Look
	jobs   []named          // that the run may have, once somebody has asked
	logs   map[[3]int]bool  // array, task and attempt of every log folder, once somebody has asked
	say    func(format string, args ...any)
	settle time.Duration
}

// Open locks the ledger of a run; while another submission or a cancel has it, Open says so and waits until ctx ends.
// say tells a person what happens. Close gives the run free.
func Open(ctx context.Context, s *slurm.Slurm, run *folder.Run, say func(format string, args ...any)) (*Session, error) {
	l, err := ledger.Open(ctx, run.JobsFile(), func() { say("waiting for another cpbench that submits or cancels run %s", run.Name()) })
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("run %s belongs to somebody else, who alone can submit and cancel its jobs: %w", run.Name(), err)
	}
	if err != nil {
		return nil, err
	}
	return &Session{Run: run, slurm: s, ledger: l, say: say, settle: settle}, nil
}

// Peek looks at a run without locking or writing anything; the session can do nothing but tell. What became of jobs
// whose answer was lost is left open.
func Peek(ctx context.Context, s *slurm.Slurm, run *folder.Run) (*Session, error) {
	jobs, err := ledger.Read(run.JobsFile())
	if err != nil {
		return nil, err
	}
	snap, err := Ask(ctx, s, run, jobs)
	return &Session{Run: run, slurm: s, peeked: jobs, snap: snap}, err
}

// Close gives the run free.
func (s *Session) Close() error {
	if s.ledger == nil {
		return nil
	}
	return s.ledger.Close()
}

// Look asks Slurm for the jobs of the run, by name, and first clears up what became of those whose answer was lost.
func (s *Session) Look(ctx context.Context) error {
	for _, job := range s.Jobs() {
		if !job.Open() {
			continue
		}
		id, err := s.clear(ctx, job)
		if err != nil {
			return err
		}
		if id != "" {
			s.say("job %s is in as %s: the answer to its submission had been lost", job.Name, id)
		}
	}
	snap, err := Ask(ctx, s.slurm, s.Run, s.Jobs())
	s.snap, s.jobs = snap, nil
	return err
}

// Ask asks Slurm for every job that the run may have, by name: an id alone could be another job's. It fails unless the
// queue answers: accounting knows seconds later what has been submitted, and who takes that for gone submits it twice.
func Ask(ctx context.Context, s *slurm.Slurm, run *folder.Run, jobs []ledger.Job) (*record.Snapshot, error) {
	q := record.Query{Since: since(run, jobs)}
	for _, n := range names(run, jobs) {
		q.Names = append(q.Names, n.name)
	}
	snap, err := record.Ask(ctx, s, q)
	if err == nil && len(q.Names) > 0 && !snap.Queue {
		err = errors.New(strings.Join(snap.Notes, "; "))
	}
	if err != nil {
		return nil, fmt.Errorf("jobs of run %s: %w", run.Name(), err)
	}
	return snap, nil
}

// clear finds out whether a job whose answer was lost is in, and writes that down. It waits while the job may still
// turn up. The id is empty if there is no such job.
func (s *Session) clear(ctx context.Context, job ledger.Job) (id string, err error) {
	tick := time.NewTicker(max(s.settle/20, time.Millisecond))
	defer tick.Stop()
	left := max(0, min(s.settle-time.Since(job.Asked), s.settle)) // the clock of another node may be ahead
	settled := time.Now().Add(left)
	for told := false; ; {
		found, err := record.ByName(ctx, s.slurm, []string{job.Name}, job.Asked.Add(-24*time.Hour))
		if err != nil {
			return "", fmt.Errorf("the answer to the submission of %s was lost, and it cannot be looked for: %w", job.Name, err)
		}
		line := ledger.Line{Event: ledger.Absent, Name: job.Name, Array: arrayOf(job), Attempt: job.Attempt}
		if ids := found[job.Name]; len(ids) > 0 {
			line.Event, line.ID = ledger.Submitted, ids[len(ids)-1]
			return line.ID, s.ledger.Append(line)
		}
		if !time.Now().Before(settled) {
			return "", s.ledger.Append(line)
		}
		if !told {
			told = true
			s.say("the answer to the submission of %s was lost and Slurm does not know it: looking for it until it can no longer turn up, %v", job.Name, left.Round(time.Second))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// Snapshot is what Look has found; nil before it.
func (s *Session) Snapshot() *record.Snapshot { return s.snap }

// Jobs are the jobs of the ledger.
func (s *Session) Jobs() []ledger.Job {
	if s.ledger == nil {
		return s.peeked
	}
	return s.ledger.Jobs()
}

// Busy reports whether a task waits or runs under any attempt. A task that accounting alone takes for alive is not: the
// controller would know it.
func (s *Session) Busy(array, task int) bool {
	if s.snap == nil {
		return false
	}
	for _, n := range s.named() {
		if n.array != array {
			continue
		}
		if t, ok := s.snap.Find(n.key, task); ok && alive(t) {
			return true
		}
	}
	return false
}

// named lists the jobs that the run may have, as they were when it was looked at.
func (s *Session) named() []named {
	if s.jobs == nil {
		s.jobs = names(s.Run, s.Jobs())
	}
	return s.jobs
}

func alive(t record.Task) bool { return !t.Ended() && t.Live }

// Queued counts the user's tasks and jobs in the queue, whatever they are, with one call of squeue.
func Queued(ctx context.Context, s *slurm.Slurm) (int, error) {
	out, err := s.Query(ctx, "squeue", "--noheader", "--all", "--array", "--user="+fmt.Sprint(os.Getuid()), "--Format=JobID:|")
	if err != nil {
		return 0, fmt.Errorf("count the jobs in your queue: %w", err)
	}
	return strings.Count(string(out), "|"), nil
}

// collectAttempt is the first number that no job that collects has had.
func (s *Session) collectAttempt() (int, error) {
	for n := 1; ; n++ {
		_, err := os.Stat(s.Run.CollectScript(n))
		if errors.Is(err, fs.ErrNotExist) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
