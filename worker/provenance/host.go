package provenance

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// host tells about this node.
func (p *Record) host() {
	name, _ := os.Hostname() // an empty one is unknown
	p.set("host", name, "the node does not tell its name")
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		p.set("kernel", unix.ByteSliceToString(uts.Release[:]), "")
	}
	p.set("cpu", cpuModel(p.read("proc/cpuinfo")), "/proc/cpuinfo names no model")
	var count string
	if n := AllowedCPUs(); n > 0 {
		count = strconv.Itoa(n)
	}
	p.set("cpus_allowed", count, "the kernel does not tell it")
	status := p.read("proc/self/status")
	cpus := field(status, "Cpus_allowed_list:")
	p.set("cpu_set", cpus, "/proc/self/status does not tell it")
	p.set("numa_nodes", field(status, "Mems_allowed_list:"), "/proc/self/status does not tell it")
	p.set("governor", p.governor(cpus), "/sys does not tell of CPUs")
	p.set("memory_limit_bytes", p.memoryLimit(), "no control group tells it")
	if f := strings.Fields(p.read("proc/loadavg")); len(f) >= 3 {
		p.set("load", strings.Join(f[:3], " "), "")
	} else {
		p.why["load"] = "/proc/loadavg does not tell it"
	}
	switch shared := p.task.Plan.Spec.Site.NodeShared; {
	case p.task.Job != "" && p.task.Plan.Arrays[p.task.Task.Array].Shape.Exclusive:
		p.set("node_shared", "no", "")
	case shared != "":
		p.set("node_shared", shared+", as declared", "")
	default:
		p.why["node_shared"] = "ask for whole nodes with resources.exclusive, or declare site.node_shared"
	}
}

// read is the text of a file of the machine's, empty if it cannot be read.
func (p *Record) read(path string) string {
	data, err := os.ReadFile(filepath.Join(p.task.Root, path))
	if err != nil {
		return ""
	}
	return string(data)
}

func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// AllowedCPUs is the number of CPUs on which this process may run; 0 if that cannot be read.
func AllowedCPUs() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 0
	}
	return set.Count()
}

// field is the rest of the line that begins with a name.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// governor lists the distinct governors of some CPUs. Where the firmware or a hypervisor sets the clocks, the kernel has
// none.
func (p *Record) governor(cpus string) string {
	var found []string
	for _, cpu := range cpuList(cpus) {
		g := strings.TrimSpace(p.read(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu)))
		if g != "" && !slices.Contains(found, g) {
			found = append(found, g)
		}
	}
	if _, err := os.Stat(filepath.Join(p.task.Root, "sys/devices/system/cpu")); err == nil && len(found) == 0 {
		return "none, the kernel does not set the clocks"
	}
	slices.Sort(found)
	return strings.Join(found, " + ")
}

// cpuList reads the kernel's lists, such as 0-3,8. What is not such a list has no members.
func cpuList(text string) []int {
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		lo, hi, ok := strings.Cut(part, "-")
		if !ok {
			hi = lo
		}
		a, errA := strconv.Atoi(lo)
		b, errB := strconv.Atoi(hi)
		if errA != nil || errB != nil || b-a > 1<<14 {
			return nil
		}
		for i := a; i <= b; i++ {
			list = append(list, i)
		}
	}
	return list
}

// memoryLimit is the least limit over the control groups of this process, of either version; `none` where they set
// none.
func (p *Record) memoryLimit() string {
	least, found := uint64(math.MaxUint64), false
	for line := range strings.Lines(p.read("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		dir, file := "", "memory.max"
		if slices.Contains(strings.Split(parts[1], ","), "memory") {
			dir, file = "memory", "memory.limit_in_bytes"
		} else if parts[1] != "" {
			continue
		}
		for at := filepath.Clean("/" + parts[2]); ; at = filepath.Dir(at) {
			text := strings.TrimSpace(p.read(filepath.Join("sys/fs/cgroup", dir, at, file)))
			n, err := strconv.ParseUint(text, 10, 64)
			found = found || err == nil || text == "max"
			if err == nil && n < 1<<60 { // version 1 writes no limit as a huge number
				least = min(least, n)
			}
			if at == "/" {
				break
			}
		}
	}
	switch {
	case least < math.MaxUint64:
		return strconv.FormatUint(least, 10)
	case found, p.hasCgroups():
		return "none" // the root group has no file of the limit
	}
	return ""
}

func (p *Record) hasCgroups() bool {
	return bytes.Contains([]byte(p.read("sys/fs/cgroup/cgroup.controllers")), []byte("memory"))
}

// near tells which CPUs are near each GPU and how it is linked, from the bus ids that a session has told.
func (p *Record) near(facts map[string]string) {
	var cpus, links []string
	for id := range strings.SplitSeq(facts["gpu_pci"], " + ") {
		// NVML writes a domain of 8 digits, /sys one of 4.
		if domain, rest, ok := strings.Cut(strings.ToLower(id), ":"); ok && len(domain) > 4 {
			id = domain[len(domain)-4:] + ":" + rest
		}
		if id == "" || strings.ContainsAny(id, "/ ") {
			continue
		}
		dir := "sys/bus/pci/devices/" + strings.ToLower(id) + "/"
		if near := strings.TrimSpace(p.read(dir + "local_cpulist")); near != "" {
			cpus = append(cpus, near)
		}
		speed, width := strings.TrimSpace(p.read(dir+"current_link_speed")), strings.TrimSpace(p.read(dir+"current_link_width"))
		if speed != "" && width != "" {
			links = append(links, speed+" x"+width)
		}
	}
	for key, list := range map[string][]string{"gpu_cpu_affinity": cpus, "gpu_links": links} {
		if len(list) > 0 {
			facts[key] = strings.Join(slices.Compact(list), " + ")
		}
	}
	if facts["mps"] == "" && facts["gpu"] != "" {
		facts["mps"] = p.mps()
	}
}

// mps tells whether the programs would find a multi-process service: its folder is that of the environment, else the
// usual one.
func (p *Record) mps() string {
	dir := orElse(p.env["CUDA_MPS_PIPE_DIRECTORY"], "/tmp/nvidia-mps")
	if _, err := os.Stat(filepath.Join(p.task.Root, dir, "control")); err == nil {
		return "yes"
	}
	return "no"
}

// varies reports whether a text "LOWEST to HIGHEST MHz" tells clocks that differ by more than flat.
func varies(observed string) bool {
	var low, high float64
	n, err := fmt.Sscanf(observed, "%g to %g MHz", &low, &high)
	return n == 2 && err == nil && low > 0 && high/low > 1+flat
}
