package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// process is what /proc tells about one process. A process id alone names nothing: it is used again. The id
// together with the start time does, until the next boot.
type process struct {
	pid, parent int
	state       byte
	threads     int
	start       uint64 // clock ticks since boot
}

// key names a process for good.
type key struct {
	pid   int
	start uint64
}

func (p process) key() key { return key{p.pid, p.start} }

// dead reports whether only the exit status is left. A leader that has ended while other threads go on also
// shows as a zombie, and is alive.
func (p process) dead() bool {
	return p.state == 'X' || p.state == 'x' || p.state == 'Z' && p.threads <= 1
}

// stopped reports whether the process is stopped by a signal or a tracer, and so will not act on TERM.
func (p process) stopped() bool { return p.state == 'T' || p.state == 't' }

// parseStat reads the text of /proc/PID/stat. The name in the second field may hold anything, blanks, newlines
// and parentheses included; nothing after its last closing parenthesis can (proc_pid_stat(5)).
func parseStat(text []byte) (process, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("stat %q: no name in parentheses", text)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	if err != nil {
		return process{}, fmt.Errorf("stat: process id: %w", err)
	}
	// The fields from the third on: state, ppid, ... num_threads is the 20th and starttime the 22nd of all.
	f := bytes.Fields(text[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return process{}, fmt.Errorf("stat of process %d: %d fields after the name, needs 20", pid, len(f))
	}
	p := process{pid: pid, state: f[0][0]}
	var errs [3]error
	p.parent, errs[0] = strconv.Atoi(string(f[1]))
	p.threads, errs[1] = strconv.Atoi(string(f[17]))
	p.start, errs[2] = strconv.ParseUint(string(f[19]), 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return process{}, fmt.Errorf("stat of process %d: %w", pid, err)
	}
	return p, nil
}

// readProcess reads one process; ok is false if there is none.
func readProcess(pid int) (p process, ok bool, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// Gone, or hidden from us by the system's policy: what we started is never hidden.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission) {
		return process{}, false, nil
	}
	if err != nil {
		return process{}, false, err
	}
	p, err = parseStat(text)
	return p, err == nil, err
}

// maxSnapshots is how often scan looks again because the tree changed under it.
const maxSnapshots = 5

// scan lists all descendants of root, dead ones included, in ascending order of id, without those for which
// spared is true and without the descendants of these.
//
// /proc is not read at one instant. When a parent ends between the reading of its child and its own, the child
// dangles: then the list is read again, by which time the child has fallen to the subreaper. One that dangles
// still has a parent that is hidden from us. A single scan can miss a process even so; callers that need
// certainty scan until two in a row find nothing.
func scan(root int, spared func(pid int) bool) ([]process, error) {
	before := map[key]bool{}
	for i := 1; ; i++ {
		all, err := snapshot()
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		dangling := map[key]bool{}
		torn := false
		for _, p := range all {
			if _, ok := all[p.parent]; !ok && p.parent != 0 {
				dangling[p.key()] = true
				torn = torn || !before[p.key()]
			}
		}
		if !torn || i == maxSnapshots {
			return descend(all, root, spared), nil
		}
		before = dangling
	}
}

// snapshot reads every process, by id.
func snapshot() (map[int]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		p, ok, err := readProcess(pid)
		if err != nil {
			return nil, err
		}
		if ok {
			all[pid] = p
		}
	}
	return all, nil
}

// descend picks the descendants of root out of all.
func descend(all map[int]process, root int, spared func(pid int) bool) []process {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	visited := map[int]bool{root: true}
	for next := []int{root}; len(next) > 0; {
		pid := next[0]
		next = next[1:]
		for _, p := range children[pid] {
			if visited[p.pid] || spared != nil && spared(p.pid) {
				continue
			}
			visited[p.pid] = true
			found = append(found, p)
			next = append(next, p.pid)
		}
	}
	slices.SortFunc(found, func(a, b process) int { return a.pid - b.pid })
	return found
}
