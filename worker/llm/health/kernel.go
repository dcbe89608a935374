package health

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// runDelay is how long the threads of this process have been ready and without a processor, in seconds. The file of
// the process has its first thread alone, so all threads are added up.
func runDelay(root string) *float64 {
	files, _ := filepath.Glob(filepath.Join(escape(root), "proc/self/task/*/schedstat"))
	var total float64
	found := false
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has gone
		}
		f := strings.Fields(string(text))
		if len(f) < 2 {
			continue
		}
		if ns, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			total += float64(ns) / 1e9
			found = true
		}
	}
	if !found {
		return nil
	}
	return &total
}

// escape makes a path stand for itself in a pattern.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// throttling reads how often and for how long the kernel has held back this process's control group, from the nearest
// group that counts; where is the file, without root. Nil if no group has a limit.
func throttling(root string) (periods *int64, held *float64, where string) {
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil, nil, ""
	}
	for line := range strings.Lines(string(groups)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		var mounts []string
		switch {
		case !ok:
		case id == "0" && controllers == "": // version 2, or beside version 1
			mounts = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
		case strings.Contains(","+controllers+",", ",cpu,"):
			mounts = []string{"sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"}
		}
		for _, mount := range mounts {
			// In a container the path may be that of the host, of which only the end of the tree is mounted.
			for at := filepath.Clean("/" + group); ; at = filepath.Dir(at) {
				where = filepath.Join("/", mount, at, "cpu.stat")
				if periods, held = cpuStat(filepath.Join(root, where)); periods != nil {
					return periods, held, where
				}
				if at == "/" {
					break
				}
			}
		}
	}
	return nil, nil, ""
}

// cpuStat reads lines of a name and a number. Version 2 counts microseconds, version 1 nanoseconds.
func cpuStat(path string) (periods *int64, held *float64) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		unit := 0.0
		switch f[0] {
		case "nr_throttled":
			periods = &n
		case "throttled_usec":
			unit = 1e-6
		case "throttled_time":
			unit = 1e-9
		}
		if unit != 0 {
			s := float64(n) * unit
			held = &s
		}
	}
	return periods, held
}
