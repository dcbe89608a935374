// Package reading asks a host how it is, by one script that only reads: memory, GPUs, processes, network interfaces. Use
// a Reader for each host, and Read again and again; it knows by how much counters have grown since it read them before.
package reading

// Host is a machine and what is read there beside its memory. Its texts go to a shell, each quoted as one word.
type Host struct {
	GPUPrefixes []string // of UUIDs, each of exactly one GPU; none: all GPUs, if there are any
	NICs        []string
	Processes   []string // whole names of processes, or of the files that they execute
}

// Reading is what a host says. Null is not known; an empty list says that there is none.
type Reading struct {
	Boot      string            `json:"boot_id,omitempty"`
	Load      []float64         `json:"load_average,omitempty"`  // of 1, 5 and 15 minutes
	Memory    map[string]uint64 `json:"meminfo_bytes,omitempty"` // all of /proc/meminfo; its few counts of pages are counts
	GPUs      []GPU             `json:"gpus"`
	Processes []Process         `json:"processes"`
	NICs      []NIC             `json:"nics"`
}

// GPU is what nvidia-smi says of a GPU. A field that the GPU does not have is null: the memory of one that shares its
// host's is in Reading.Memory.
type GPU struct {
	UUID              string   `json:"uuid"`
	Name              string   `json:"name"`
	Power             *float64 `json:"power_watts"`
	Temperature       *float64 `json:"temperature_celsius"`
	Utilization       *float64 `json:"utilization"` // share of the time of the driver's last window in which a kernel ran
	MemoryUtilization *float64 `json:"memory_utilization"`
	MemoryUsed        *float64 `json:"memory_used_bytes"`
	MemoryTotal       *float64 `json:"memory_total_bytes"`
	SMClock           *float64 `json:"sm_clock_hertz"`
}

// Process is one that was looked for. Its id alone may be that of another one by now: Start tells them apart.
type Process struct {
	PID         int    `json:"pid"`
	Start       uint64 `json:"start_ticks"` // since the boot of the host
	Name        string `json:"comm"`
	Executable  string `json:"executable,omitempty"` // empty: it may not be seen
	RSS         uint64 `json:"rss_bytes"`
	MajorFaults uint64 `json:"major_faults"` // since its start
}

// NIC are the counters of a network interface. No two of them are meant to be added: they overlap.
type NIC struct {
	Name string `json:"name"`
	// Interval is the time in seconds since the counters were read before; null: they were not.
	Interval *float64           `json:"delta_interval_s"`
	Kernel   map[string]Counter `json:"statistics"` // /sys/class/net/NAME/statistics
	Driver   map[string]Counter `json:"ethtool"`    // ethtool -S; null: there is no such program or list
}

// Counter is a counter and by how much it has grown. A counter that fell, or whose host began anew, has no delta: that
// is a reset and no traffic.
type Counter struct {
	Value uint64  `json:"value"`
	Delta *uint64 `json:"delta"`
	Reset bool    `json:"reset,omitempty"`
}
