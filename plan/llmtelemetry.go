package plan

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Telemetry says which hosts are read while groups are measured, and how often.
type Telemetry struct {
	// Interval is the time between two samples of a host. A sample that takes longer delays the next one of that host.
	Interval Duration `yaml:"interval" json:"interval,omitempty" jsonschema:"default=2s"`
	// Timeout bounds one sample, on the host as well.
	Timeout Duration `yaml:"timeout" json:"timeout,omitempty" jsonschema:"default=5s"`
	// MaxParallel is how many samples are taken at the same time.
	MaxParallel int `yaml:"max_parallel" json:"max_parallel,omitempty" jsonschema:"minimum=1,maximum=1000,default=8"`
	// Hosts are the machines to read.
	Hosts []Host `yaml:"hosts" json:"hosts,omitempty"`
}

// Host is a machine that is read, and what is read there beside its memory.
type Host struct {
	// Name of the host in records. Required, and no two have the same.
	Name string `yaml:"name" json:"name" jsonschema:"required"`
	// SSH is where the user's own ssh goes: an alias of its configuration, `host` or `user@host`. Empty: this machine.
	SSH string `yaml:"ssh" json:"ssh,omitempty"`
	// GPUUUIDPrefixes are the beginnings of the UUIDs of the GPUs to read, such as `GPU-8f3a`, each of exactly one. Empty:
	// all GPUs, if there are any.
	GPUUUIDPrefixes []string `yaml:"gpu_uuid_prefixes" json:"gpu_uuid_prefixes,omitempty"`
	// NICs are the network interfaces whose counters are read.
	NICs []string `yaml:"nics" json:"nics,omitempty"`
	// ProcessNames select processes: each is the whole name of a process, of which Linux keeps 15 bytes, or the name of
	// the file that it executes.
	ProcessNames []string `yaml:"process_names" json:"process_names,omitempty"`
}

// Reads reports whether anything is read while groups are measured, and how. Addresses of metrics alone are read as
// often as hosts would be.
func (w *LLM) Reads() (Telemetry, bool) {
	if w.Telemetry != nil {
		return *w.Telemetry, true
	}
	var t Telemetry
	setDefaults(reflect.ValueOf(&t).Elem())
	return t, len(w.ExtraMetrics) > 0
}

// leastInterval bounds how often hosts are asked: every sample is a handful of processes on each.
const leastInterval = 100 * time.Millisecond

// What texts that reach a host may look like. A destination may end in commands of the user's own ssh configuration, and
// becomes an argument of ssh.
var (
	hostName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	destination = regexp.MustCompile(`^(ssh://)?([A-Za-z0-9_.][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_.:\[][A-Za-z0-9_.:%\]-]*$`)
	uuidPrefix  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)
	nicName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,14}$`)
)

// checkTelemetry finds what is wrong with the hosts to read.
func (w *LLM) checkTelemetry(ps *problems) {
	const at = "workload.telemetry"
	for i, u := range w.ExtraMetrics {
		path := indexed("workload.extra_metrics", i)
		if u == "" || strings.ContainsAny(u, "{}") {
			ps.at(path, "write it out: http://HOST:PORT/PATH", "%s: %q is no address", path, u)
			continue
		}
		checkURL(ps, path, u)
	}
	t := w.Telemetry
	if t == nil {
		return
	}
	if d := time.Duration(t.Interval); d < leastInterval && !ps.bad[at+".interval"] {
		ps.at(at+".interval", "write `interval: 2s`", "%s.interval: %v is too short, write at least %v", at, d, leastInterval)
	}
	if len(t.Hosts) == 0 && len(w.ExtraMetrics) == 0 && !ps.bad[at] && !ps.bad[at+".hosts"] {
		ps.at(at, "write `hosts: [{name: this}]`", "%s names no hosts", at)
	}
	names := map[string]bool{}
	for i := range t.Hosts {
		h := &t.Hosts[i]
		path := indexed(at+".hosts", i)
		if h.Name != "" && names[h.Name] {
			ps.at(path+".name", "give every host a name of its own", "%s.name: another host is named %q", path, h.Name)
		}
		names[h.Name] = true
		h.check(ps, path)
	}
}

// check finds what is wrong with one host.
func (h *Host) check(ps *problems, path string) {
	if h.Name != "" && !hostName.MatchString(h.Name) {
		ps.at(path+".name", "use letters, digits, dot, dash and underscore, at most 64", "%s.name: %q cannot name a host", path, h.Name)
	}
	user, _, named := strings.Cut(strings.TrimPrefix(h.SSH, "ssh://"), "@")
	switch {
	case named && strings.Contains(user, ":"): // its text is not told
		ps.at(path+".ssh", "let ssh use a key, from an agent or its configuration", "%s.ssh: a destination cannot hold a password", path)
	case h.SSH != "" && !destination.MatchString(h.SSH):
		ps.at(path+".ssh", "write host, user@host or an alias of your ssh configuration, where all else is said", "%s.ssh: %q is no destination of ssh", path, h.SSH)
	}
	texts := func(key, hint string, list []string, ok func(string) bool) {
		for j, text := range list {
			at := indexed(path+"."+key, j)
			switch {
			case !ok(text):
				ps.at(at, hint, "%s: %q cannot be looked for", at, text)
			case slices.Index(list, text) < j:
				ps.at(at, "remove one of them", "%s: %q stands twice", at, text)
			}
		}
	}
	texts("gpu_uuid_prefixes", "write the beginning of what `nvidia-smi -L` shows, such as GPU-8f3a", h.GPUUUIDPrefixes, uuidPrefix.MatchString)
	texts("nics", "write the name of an interface, such as eth0", h.NICs, nicName.MatchString)
	for j, name := range h.ProcessNames {
		checkText(ps, indexed(path+".process_names", j), name)
	}
	texts("process_names", "write the name alone, without a path", h.ProcessNames, func(s string) bool {
		return s != "" && len(s) <= 255 && !strings.ContainsAny(s, "/\x00")
	})
}
