package submit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/ledger"
)

// Options say how wants are submitted.
type Options struct {
	Exclude []string // nodes to leave out beside those of the spec
	GoOn    []string // options of the `cpbench submit` by which the job that collects goes on with the run; nil: it only collects
	// Later is when the job that collects looks again where nothing could be submitted now; 0: never.
	Later time.Duration

	lost int // how many jobs of this submission the controller has lost so far
}

// Refusal is an array, or the job that collects, that sbatch did not take. What was submitted before it stays.
type Refusal struct {
	Name string
	Job  *slurm.Job // nil: the job that collects
	In   []string   // what this call has submitted, as `NAME is job ID`
	Err  error      // with sbatch's words
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s was not submitted: %v", r.Name, r.Err) }

// Unwrap returns the error with sbatch's words.
func (r *Refusal) Unwrap() error { return r.Err }

// errNotKept marks a job that is in although the ledger does not say so; the next Look finds it by its name.
var errNotKept = errors.New("not written down")

// lostLimit is how often an array whose id was given to another job is submitted again.
const lostLimit = 3

// Submit makes one call of sbatch for each want, in which the throttle of the spec is shared out, and one for the job
// that collects them together with what is in the queue already. It stops at the first array that is refused, with a
// *Refusal; those before it are collected all the same. With nothing to submit and a job that collects in the queue, or
// no task there, it does nothing but what Options.Later asks for. Once ctx ends no further call is made.
func (s *Session) Submit(ctx context.Context, wants []Want, opt Options) error {
	spec := s.Run.Plan.Spec.Slurm
	throttles := share(spec.Parallel, wants)
	if n := len(wants); spec.Parallel > 0 && n > spec.Parallel {
		s.say("slurm.parallel is %d, but each of the %d arrays runs one task at a time at least", spec.Parallel, n)
	}
	exclude := excluded(spec.Exclude, opt.Exclude)
	var in []string
	ids := map[string]int{} // of this call: what they were given for
	var failure error
	for todo := indices(len(wants)); len(todo) > 0; todo = todo[1:] {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i := todo[0]
		job, err := s.prepare(wants[i])
		if err != nil {
			return err
		}
		id, err := s.call(ctx, job.Name(), job.Run.Script(job.Array, job.Attempt), &job, options(wants[i], throttles[i], exclude))
		if err != nil {
			failure = refusal(err, job.Name(), &job, in)
			break
		}
		in = append(in, fmt.Sprintf("%s is job %s", job.Name(), id))
		s.say("job %s: array %d, attempt %d, tasks %s", id, job.Array, job.Attempt, slurm.IndexList(wants[i].Tasks))
		if before, again := ids[id]; again && opt.lost < lostLimit {
			opt.lost++
			if err := s.forget(id, job.Name()); err != nil {
				return err
			}
			todo = append(todo, before)
		}
		ids[id] = i
	}
	if ctx.Err() != nil {
		return errors.Join(failure, ctx.Err())
	}
	if failure != nil && len(in) == 0 {
		return failure
	}
	return errors.Join(failure, s.collectAfter(ctx, wants, ids, in, opt))
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func refusal(err error, name string, job *slurm.Job, in []string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, slurm.ErrNoAnswer) || errors.Is(err, errNotKept) {
		return err
	}
	return &Refusal{Name: name, Job: job, In: in, Err: err}
}

// forget writes down that the job which had an id before name is gone: a controller that crashed loses what it took
// last, and gives its id to the next job.
func (s *Session) forget(id, name string) error {
	s.logs = nil // some of its tasks may have begun before the crash
	for _, old := range s.Jobs() {
		if old.ID != id || old.Name == name || old.Event != ledger.Submitted {
			continue
		}
		s.say("job id %s was that of %s: the controller has lost that job, it is submitted again", id, old.Name)
		err := s.ledger.Append(ledger.Line{
			Event: ledger.Absent, Name: old.Name, Array: arrayOf(old), Attempt: old.Attempt, Reason: "its id was given to " + name,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare finds the script for a want: the last one of its array if nobody has used it and it does what is wanted, else
// a new one under a new attempt.
func (s *Session) prepare(w Want) (slurm.Job, error) {
	job := slurm.Job{Run: s.Run, Array: w.Array, Attempt: s.Run.Attempts(w.Array), Tasks: w.Tasks, Again: w.Again}
	if job.Attempt > 0 && !s.used(job) {
		if job.Attempt == 1 && len(w.Again) == 0 { // it holds all tasks, of which sbatch's --array picks
			return job, nil
		}
		want, err := slurm.Script(job)
		if err != nil {
			return job, err
		}
		if have, err := os.ReadFile(s.Run.Script(job.Array, job.Attempt)); err == nil && bytes.Equal(want, have) {
			return job, nil
		}
	}
	_, attempt, err := s.Run.AddScript(w.Array, func(attempt int) ([]byte, error) {
		job.Attempt = attempt
		return slurm.Script(job)
	})
	job.Attempt = attempt
	return job, err
}

// used reports whether an attempt may have run or be in the queue.
func (s *Session) used(job slurm.Job) bool {
	name := job.Name()
	if j := ledger.Find(s.Jobs(), name); j != nil && (j.In() || j.Open()) {
		return true
	}
	if s.snap != nil && s.snap.Known(name) {
		return true
	}
	for at := range s.withLogs() {
		if at[0] == job.Array && at[2] == job.Attempt {
			return true
		}
	}
	return false
}

// call submits one script and keeps the ledger. An answer that was lost is looked for, and where there is no such job
// the call is made once more.
func (s *Session) call(ctx context.Context, name, script string, job *slurm.Job, opts []string) (string, error) {
	for again := false; ; again = true {
		id, err := s.callOnce(ctx, name, script, job, opts)
		if !errors.Is(err, slurm.ErrNoAnswer) {
			return id, err
		}
		// Whoever stopped us still gets to know what is in.
		entry := ledger.Find(s.Jobs(), name)
		if ctx.Err() != nil {
			return "", errors.Join(ctx.Err(), err)
		}
		id, lookErr := s.clear(ctx, *entry)
		switch {
		case lookErr != nil:
			return "", errors.Join(err, lookErr)
		case id != "":
			s.say("job %s is in as %s, although sbatch gave no answer", name, id)
			return id, nil
		case again:
			return "", err
		}
		s.say("job %s is not in: it is submitted once more", name)
	}
}

func (s *Session) callOnce(ctx context.Context, name, script string, job *slurm.Job, opts []string) (string, error) {
	line := ledger.Line{Event: ledger.Submitting, Name: name, Argv: slurm.SubmitArgs(script, opts...)}
	if job != nil {
		line.Array, line.Attempt, line.Tasks = &job.Array, job.Attempt, slurm.IndexList(job.Tasks)
	} else {
		line.Attempt = s.attemptOf(script)
	}
	if err := s.ledger.Append(line); err != nil {
		return "", err
	}
	id, answer := s.slurm.SubmitFile(ctx, script, opts...)
	after := ledger.Line{Event: ledger.Submitted, Name: name, Array: line.Array, Attempt: line.Attempt, ID: id}
	switch {
	case errors.Is(answer, slurm.ErrNoAnswer):
		after.Event, after.Reason = ledger.Unknown, answer.Error()
	case answer != nil:
		after.Event, after.Reason = ledger.Refused, answer.Error()
	}
	err := s.ledger.Append(after)
	if err != nil && answer == nil {
		err = fmt.Errorf("%s is in as job %s, but that is %w: %w", name, id, errNotKept, err)
	}
	return id, errors.Join(answer, err)
}

// attemptOf is the number of a script that collects.
func (s *Session) attemptOf(script string) int {
	for n := 1; ; n++ {
		if s.Run.CollectScript(n) == script {
			return n
		}
	}
}

// collectAfter submits the job that collects: behind the arrays of this call and those that are in the queue already.
// The ids of this call say for which of the wants they were given.
func (s *Session) collectAfter(ctx context.Context, wants []Want, ids map[string]int, in []string, opt Options) error {
	deps, waiting := s.live()
	for id := range ids {
		deps = append(deps, id)
	}
	if len(deps) == 0 && opt.Later == 0 || len(ids) == 0 && waiting {
		return nil
	}
	slices.Sort(deps)
	deps = slices.Compact(deps)
	when, told := dependency(deps), "makes the table when they have ended"
	if len(deps) == 0 {
		when, told = begin(opt.Later), fmt.Sprintf("looks again in %v", opt.Later)
	}
	attempt, err := s.collectAttempt()
	if err != nil {
		return err
	}
	job := slurm.CollectJob{Run: s.Run, Attempt: attempt, GoOn: opt.GoOn}
	text, err := slurm.CollectScript(job)
	if err != nil {
		return err
	}
	script := s.Run.CollectScript(attempt)
	if err := folder.WriteScript(script, text); err != nil {
		return err
	}
	id, err := s.call(ctx, job.Name(), script, nil, when)
	if err != nil {
		return refusal(err, job.Name(), nil, in)
	}
	s.say("job %s: %s", id, told)
	if i, again := ids[id]; again && opt.lost < lostLimit { // it waits for the others alone, and another one for what was lost
		opt.lost++
		if err := s.forget(id, job.Name()); err != nil {
			return err
		}
		return s.Submit(ctx, wants[i:i+1], opt)
	}
	return nil
}

// live lists the ids of the run's arrays that have tasks in the queue, and tells whether a job that collects waits
// there.
func (s *Session) live() (ids []string, waiting bool) {
	if s.snap == nil {
		return nil, false
	}
	for _, n := range names(s.Run, s.Jobs()) {
		for _, t := range s.snap.Tasks(n.key) {
			switch {
			case !alive(t):
			case n.array != ledger.Collect:
				ids = append(ids, t.Array)
			case t.Waits():
				waiting = true
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), waiting
}
