// Package tree ends everything that an execution has started. Launchers put ranks into sessions and process
// groups of their own, so neither the group nor the session is a handle on them: the tree is all descendants of
// this process, read from /proc. Call Adopt once at the start, so that orphans stay in the tree; start programs
// with Start; and call Kill when the execution is over, however it ended.
//
// Kill spares nothing but what StartSpared started. Any other child that may be running while Kill does has to
// come from Start, or Kill may take its exit status before os/exec can. Linux only.
package tree

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Adopt makes this process the one to which orphaned descendants fall (a child subreaper, prctl(2)). Without it
// a process whose parent has ended leaves the tree and cannot be found again.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// Descendants lists the process ids of all living descendants of this process, spared ones included, in
// ascending order. Processes that have ended and only wait for their parent are left out.
func Descendants() ([]int, error) {
	found, err := scan(os.Getpid(), nil)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range found {
		if !p.dead() {
			pids = append(pids, p.pid)
		}
	}
	return pids, nil
}
