package gpu

import (
	"fmt"
	"slices"
	"strings"

	"cpbench/plan/catalogue"
)

// The most memory that may be in use on an idle GPU where Expectation does not say. The first version of NVML's
// call, and nvidia-smi, may count what the driver reserves.
const (
	idleUsed         = 512 << 20
	idleUsedReserved = 2 << 30
)

// totalTolerance is how far the memory that a rank may use may be above what NVML tells of its GPU, as a share. Below it
// is no matter: CUDA leaves out what the driver reserves, and a rank may have a limit.
const totalTolerance = 0.05

// Expectation is what the GPUs of a job should be like.
type Expectation struct {
	Ranks     int     // how many GPUs are needed; 0: not checked
	MinFree   float64 // least free memory of each in bytes; 0: not checked
	Threshold float64 // most memory in use before the ranks start, in bytes; 0: a threshold of our own, negative: not checked
	// Ours reports whether a process is one of ours; nil: none is. Inside a container ids may be the host's, so ask
	// before the ranks start, when none is.
	Ours   func(pid int) bool
	Claims []Claim // what the ranks said of their devices, once they have
}

// Claim is what a rank says about the device that it computes on. Empty and nil are "not said".
type Claim struct {
	Rank       int
	Name       string
	UUID       string // with or without the prefix GPU-
	TotalBytes *float64
}

// Problem is a reason not to measure: the outcome that it leads to, dirty_gpu or infra, and the evidence.
type Problem struct {
	Outcome catalogue.Outcome `json:"outcome"`
	Text    string            `json:"text"`
}

// Preflight compares the devices of a job, which Visible tells, and what a reading and a list of processes show of
// them, with what is expected. The zero Reading and nil processes are not checked.
func Preflight(devices []Device, now Reading, processes []Process, want Expectation) []Problem {
	var p problems
	p.count(devices, want.Ranks)
	if names := models(devices); len(names) > 1 {
		p.infra("the GPUs are of different models: %s", strings.Join(names, ", "))
	}
	p.foreign(devices, processes, want.Ours)
	for _, d := range devices {
		if s := now.state(d.UUID); s != nil {
			p.memory(d, s, want)
		}
	}
	p.claims(devices, want.Claims)
	return p
}

type problems []Problem

func (p *problems) infra(format string, args ...any) {
	*p = append(*p, Problem{catalogue.Infra, fmt.Sprintf(format, args...)})
}

func (p *problems) dirty(format string, args ...any) {
	*p = append(*p, Problem{catalogue.DirtyGPU, fmt.Sprintf(format, args...)})
}

// count checks that there is a GPU for each rank.
func (p *problems) count(devices []Device, ranks int) {
	open := 0
	var lost []string
	for _, d := range devices {
		if d.UUID != "" {
			open++
		} else {
			lost = append(lost, fmt.Sprintf("GPU %d: %s", d.Index, d.Missing["uuid"]))
		}
	}
	if open < ranks {
		p.infra("%d GPUs for %d ranks%s", open, ranks, strings.Join(append([]string{""}, lost...), "; "))
	}
}

// foreign checks that nobody else computes on the devices.
func (p *problems) foreign(devices []Device, processes []Process, ours func(int) bool) {
	for _, q := range processes {
		on := slices.ContainsFunc(devices, func(d Device) bool { return d.UUID == q.UUID })
		// The MPS server is a service of the node and holds a process open although nobody computes.
		if !on || ours != nil && ours(q.PID) || strings.HasPrefix(q.Name, "nvidia-cuda-mps") {
			continue
		}
		name := q.Name
		if name == "" {
			name = "name unknown"
		}
		p.dirty("%s: process %d (%s) computes on it", q.UUID, q.PID, name)
	}
}

// memory checks one device's memory.
func (p *problems) memory(d Device, s *State, want Expectation) {
	limit := want.Threshold
	if limit == 0 {
		limit = idleUsedReserved
		if s.MemoryVersion >= 2 {
			limit = idleUsed
		}
	}
	if s.MemoryUsed != nil && limit > 0 && *s.MemoryUsed > limit {
		p.dirty("%s: %s of memory in use, more than %s", d.UUID, gib(*s.MemoryUsed), gib(limit))
	}
	if s.MemoryFree != nil && *s.MemoryFree < want.MinFree {
		p.dirty("%s: %s of memory free, less than %s", d.UUID, gib(*s.MemoryFree), gib(want.MinFree))
	}
}

// claims checks what the ranks say against the devices of the job.
func (p *problems) claims(devices []Device, claims []Claim) {
	taken := map[string]int{}
	names := []string{}
	for _, c := range claims {
		if c.Name != "" && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
		if c.UUID == "" {
			continue
		}
		key := bare(c.UUID)
		if other, twice := taken[key]; twice {
			p.infra("ranks %d and %d are on the same GPU %s", other, c.Rank, c.UUID)
			continue
		}
		taken[key] = c.Rank
		i := slices.IndexFunc(devices, func(d Device) bool { return bare(d.UUID) == key })
		if i < 0 {
			p.infra("rank %d is on GPU %s, which is not one of the job's", c.Rank, c.UUID)
			continue
		}
		if d := devices[i]; c.TotalBytes != nil && d.MemoryTotal != nil && *c.TotalBytes > (1+totalTolerance)*(*d.MemoryTotal) {
			p.infra("rank %d: its device has %s in all, but GPU %s has %s", c.Rank, gib(*c.TotalBytes), d.UUID, gib(*d.MemoryTotal))
		}
	}
	if len(names) > 1 {
		p.infra("the ranks are on GPUs of different models: %s", strings.Join(names, ", "))
	}
}

// bare is a UUID without its prefix, as PyTorch tells it.
func bare(uuid string) string {
	uuid = strings.ToLower(uuid)
	return strings.TrimPrefix(strings.TrimPrefix(uuid, "gpu-"), "mig-")
}

// models lists the names of the devices that are known, once each.
func models(devices []Device) []string {
	var names []string
	for _, d := range devices {
		if d.Name != "" && !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}

func gib(bytes float64) string { return fmt.Sprintf("%.2f GiB", bytes/(1<<30)) }
