package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultGrace is how long processes have between TERM and KILL.
const DefaultGrace = 5 * time.Second

// lastWait bounds the time between the first KILL and giving up. A process that lasts longer hangs in the kernel,
// as a driver may make it, and no signal will help.
const lastWait = 4 * time.Second

// poll is the time between two looks at the tree.
const poll = 20 * time.Millisecond

// ErrSurvivors says that some processes are still there after KILL; Report.Survivors names them.
var ErrSurvivors = errors.New("processes survived KILL")

// Report says what Kill did.
type Report struct {
	Told      int           // processes that were sent TERM
	Killed    int           // ... KILL, because they were still there after the grace
	Reaped    int           // orphans whose exit status was taken
	Duration  time.Duration // until the tree was empty, or until Kill gave up
	Survivors []int         // process ids that are still there; empty unless ErrSurvivors is returned
}

// Kill ends all descendants of this process: TERM to each, and KILL to those that are left after the grace, over
// and over until a look at /proc finds none, so that processes forked meanwhile are caught. It returns as soon as
// the tree is empty and at most 4 seconds after the grace. The end of ctx cuts the grace short, not the KILL.
//
// Only one Kill may be under way, and no child may be started meanwhile.
func Kill(ctx context.Context, grace time.Duration) (Report, error) {
	root := os.Getpid()
	return end(ctx, grace, func() ([]process, error) { return scan(root, children.spares) })
}

// end ends the processes that list finds.
func end(ctx context.Context, grace time.Duration, list func() ([]process, error)) (Report, error) {
	s := sweep{root: os.Getpid(), list: list, told: map[key]bool{}, killed: map[key]bool{}}
	began := time.Now()
	err := s.until(ctx, grace)
	s.report.Told, s.report.Killed, s.report.Duration = len(s.told), len(s.killed), time.Since(began)
	return s.report, err
}

// sweep is one Kill.
type sweep struct {
	root         int
	list         func() ([]process, error) // the processes to be ended, dead ones included
	told, killed map[key]bool
	report       Report
	refused      error // why a signal could not be sent
}

// until looks at the tree and signals until it is empty.
func (s *sweep) until(ctx context.Context, grace time.Duration) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	patience := time.NewTimer(grace)
	defer patience.Stop()
	force, empty := grace <= 0, 0
	var deadline time.Time // of the KILLs
	for {
		if force && deadline.IsZero() {
			deadline = time.Now().Add(lastWait)
		}
		alive, news, err := s.look(force)
		if err != nil {
			return err
		}
		// One look may miss a process that changes its parent in that moment.
		if empty++; len(alive) > 0 {
			empty = 0
		}
		if empty == 2 {
			return nil
		}
		if force && time.Now().After(deadline) && len(alive) > 0 {
			s.report.Survivors = alive
			return errors.Join(fmt.Errorf("%w: %d", ErrSurvivors, alive), s.refused)
		}
		if empty > 0 || force && news {
			continue // do not give a process that forks the time to fork again
		}
		select {
		case <-ticker.C:
		case <-patience.C:
			force = true
		case <-done(ctx, force):
			force = true
		}
	}
}

// done is the end of ctx, which matters only during the grace.
func done(ctx context.Context, force bool) <-chan struct{} {
	if force {
		return nil
	}
	return ctx.Done()
}

// look takes one look at the tree: it reaps orphans, and sends TERM, or with force KILL, to every process that
// has not had it. It returns the processes that are alive, and whether one of them was new.
func (s *sweep) look(force bool) (alive []int, news bool, err error) {
	found, err := s.list()
	if err != nil {
		return nil, false, err
	}
	sent, signal := s.told, unix.SIGTERM
	if force {
		sent, signal = s.killed, unix.SIGKILL
	}
	for _, p := range found {
		if p.dead() {
			if p.parent == s.root && children.reap(p.pid) {
				s.report.Reaped++
			}
			continue
		}
		alive = append(alive, p.pid)
		if !sent[p.key()] && s.send(p, signal) {
			sent[p.key()] = true
			news = true
		}
		if p.stopped() && !force {
			s.send(p, unix.SIGCONT)
		}
	}
	return alive, news, nil
}

// send signals exactly the process that was read, or none: the descriptor pins the process, and if the start time
// is still the one that was read, it is the right one. It reports whether the signal was sent.
func (s *sweep) send(p process, signal unix.Signal) bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		return s.sendByID(p, signal)
	}
	err = unix.ESRCH
	if now, ok, readErr := readProcess(p.pid); readErr == nil && ok && now.start == p.start {
		err = unix.PidfdSendSignal(fd, signal, nil, 0)
	}
	return s.sent(p, errors.Join(err, unix.Close(fd)))
}

// sendByID is send where the kernel or a container's filter has no process descriptors. Between the check and
// the signal the id could be used again only if this process had reaped it, or its parent had in that instant.
func (s *sweep) sendByID(p process, signal unix.Signal) bool {
	if now, ok, err := readProcess(p.pid); err != nil || !ok || now.start != p.start {
		return false
	}
	return s.sent(p, unix.Kill(p.pid, signal))
}

// sent judges the answer to a signal and keeps a refusal for the report.
func (s *sweep) sent(p process, err error) bool {
	if err != nil && !errors.Is(err, unix.ESRCH) {
		s.refused = fmt.Errorf("signal process %d: %w", p.pid, err)
	}
	return err == nil
}
