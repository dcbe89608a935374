package evidence

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The folder of the memory controller below a root, and the file in it that counts: version 1 of the control groups
// has a hierarchy for each controller, version 2 has one.
const (
	v1Root, v1File = "sys/fs/cgroup/memory", "memory.oom_control"
	v2Root, v2File = "sys/fs/cgroup", "memory.events"
	v2Hybrid       = "sys/fs/cgroup/unified" // beside version 1
)

// Witness reads how many processes of this process's control group the kernel has killed for lack of memory. fsRoot
// is `/`, but in tests. where is the file that was read, without fsRoot; ok is false if there is none. A group
// without a counter of its own is looked after by the next one above it that has one.
func Witness(fsRoot string) (kills int64, ok bool, where string) {
	groups, err := os.ReadFile(filepath.Join(fsRoot, "proc/self/cgroup"))
	if err != nil {
		return 0, false, ""
	}
	for _, h := range hierarchies(string(groups)) {
		// In a container the path may be that of the host, of which only the end of the tree is mounted.
		for group := filepath.Clean("/" + h.group); ; group = filepath.Dir(group) {
			where = filepath.Join("/", h.root, group, h.file)
			if kills, ok = readKills(filepath.Join(fsRoot, where)); ok {
				return kills, true, where
			}
			if group == "/" {
				break
			}
		}
	}
	return 0, false, ""
}

// hierarchy is a tree of control groups and our place in it.
type hierarchy struct{ root, group, file string }

// hierarchies lists where to look, by the text of /proc/self/cgroup: lines of ID:CONTROLLERS:PATH, with 0 and no
// controllers for version 2 (cgroups(7)). A memory controller of version 1 comes first: then version 2 has none.
func hierarchies(text string) []hierarchy {
	var first, second []hierarchy
	for line := range strings.Lines(text) {
		id, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case id == "0" && controllers == "":
			second = append(second, hierarchy{v2Root, group, v2File}, hierarchy{v2Hybrid, group, v2File})
		case strings.Contains(","+controllers+",", ",memory,"):
			first = append(first, hierarchy{v1Root, group, v1File})
		}
	}
	return append(first, second...)
}

// readKills reads the counter oom_kill of a file of lines of a name and a number.
func readKills(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == "oom_kill" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil && n >= 0
		}
	}
	return 0, false // kernels before 4.13 do not count
}

// Delta begins to watch the kernel's counter. The returned function tells how many processes it has killed since;
// ok is false if nobody counted, which is not the same as none.
func Delta(fsRoot string) func() (kills int64, ok bool, where string) {
	before, seen, from := Witness(fsRoot)
	return func() (int64, bool, string) {
		now, ok, where := Witness(fsRoot)
		if !seen || !ok || where != from || now < before {
			return 0, false, ""
		}
		return now - before, true, where
	}
}
