package reference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"cpbench/worker/model/reference/tile"
)

// suffer lets the faults of this rank happen that are due at a place.
func (r *rank) suffer(ctx context.Context, place string, first bool) error {
	for _, f := range r.opts.faults {
		if !f.happens(r.opts.rank, place, first) {
			continue
		}
		if err := r.inflict(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// inflict lets one fault happen.
func (r *rank) inflict(ctx context.Context, f fault) error {
	switch f.kind {
	case oomRank:
		return r.pretendOOM()
	case nonMonotone:
		if f.lo <= r.tokens && r.tokens <= f.hi {
			return r.pretendOOM()
		}
	case hangRank:
		<-ctx.Done()
		return ctx.Err()
	case crashRank:
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		<-ctx.Done() // the signal is on its way
	case errorRank:
		return errors.New("fault error-rank")
	case exitCode:
		return quit(f.code)
	case nanOutput:
		r.poisoned = true
	case garbage:
		_, err := io.WriteString(r.conn.NetConn(), "garbage: {\"type\":\x00\xff\n")
		return err
	case grandchild:
		return r.spawn()
	case slowStep:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.delay):
		}
	case ignoreTerm:
		signal.Ignore(syscall.SIGTERM)
	}
	return nil
}

// pretendOOM returns what a tile too many returns.
func (r *rank) pretendOOM() error {
	return fmt.Errorf("fault: %w", &tile.OutOfMemory{Requested: r.mem.Budget(), InUse: r.mem.InUse(), Budget: r.mem.Budget()})
}

// spawn starts a process that the rank's own process group and SIGTERM do not reach. It ends by itself after five
// minutes.
func (r *rank) spawn() error {
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; exec sleep 300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("fault grandchild: %w", err)
	}
	_, err := fmt.Fprintf(r.stderr, "grandchild pid %d\n", cmd.Process.Pid)
	return err
}
