package tree

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// What a mark has to look like. A short secret, let alone none, could be in the environment of a stranger, and a variable
// such as PATH has a long value that many share.
const (
	markPrefix = "CPBENCH_"
	minSecret  = 16
)

// ErrMark says that a text is no mark: nothing was looked at.
var ErrMark = fmt.Errorf("a mark is %sNAME=SECRET, with a secret of at least %d characters", markPrefix, minSecret)

// KillMarked ends every process of this user on this machine whose environment, as it was at its start, has the entry
// mark, a text of the form CPBENCH_NAME=SECRET; it does not matter whose descendant it is. It ends them as Kill does, and
// spares this process with everything that descends from it: Kill is for those. Processes whose environment cannot be
// read, such as those of other users, are none of ours. What a marked program has started is ours however it was
// detached, a screen session too; only what was started with an emptied environment is not found. It refuses a mark that
// others could have by chance (ErrMark).
//
// Use it for what a job step has started beside this process, on this node or on another one.
func KillMarked(ctx context.Context, grace time.Duration, mark string) (Report, error) {
	if name, secret, _ := strings.Cut(mark, "="); !strings.HasPrefix(name, markPrefix) || len(secret) < minSecret || strings.ContainsRune(mark, 0) {
		return Report{}, ErrMark
	}
	root := os.Getpid()
	return end(ctx, grace, func() ([]process, error) { return marked(root, []byte(mark)) })
}

// marked lists the processes with a mark that do not descend from root.
func marked(root int, mark []byte) ([]process, error) {
	all, err := snapshot()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	ours := map[int]bool{root: true}
	for _, p := range descend(all, root, nil) {
		ours[p.pid] = true
	}
	var found []process
	for pid, p := range all {
		if !ours[pid] && carries(pid, mark) {
			found = append(found, p)
		}
	}
	return found, nil
}

// carries reports whether the environment of a process has an entry.
func carries(pid int, entry []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ") // empty for a zombie
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(kv, entry) {
			return true
		}
	}
	return false
}
