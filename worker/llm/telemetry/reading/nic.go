package reading

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// counted are the names of counters that are kept.
var counted = regexp.MustCompile(`(?i)byte|retrans|retry|retries|err|drop|discard`)

// counters reads lines of a name and a number, which sep separates, and keeps those of a kind that is counted.
func counters(body, sep string) map[string]Counter {
	found := map[string]Counter{}
	for line := range strings.Lines(body) {
		i := strings.LastIndex(line, sep)
		if i < 0 {
			continue
		}
		name := strings.TrimSpace(line[:i])
		n, err := strconv.ParseUint(strings.TrimSpace(line[i+len(sep):]), 10, 64)
		if err == nil && counted.MatchString(name) {
			found[name] = Counter{Value: n}
		}
	}
	return found
}

// ethtool reads the list of a driver, for the interface that came before it. Not every driver has one.
func (a *answer) ethtool(p part) {
	why, i := p.failure(), len(a.NICs)-1
	switch low := strings.ToLower(why); {
	case i < 0 || strings.Contains(low, "no stats available") || strings.Contains(low, "not supported"):
	case why != "":
		a.fail("ethtool -S %s: %s", p.rest, why)
	default:
		a.NICs[i].Driver = counters(p.body, ":")
	}
}

// history is what the counters of a host were when they were last read.
type history struct {
	boot string
	nics map[string]NIC
	at   map[string]time.Time
}

// compare fills in by how much every counter has grown since it was last read, each by itself.
func (h *history) compare(r *Reading, now time.Time) {
	if h.nics == nil {
		h.nics, h.at = map[string]NIC{}, map[string]time.Time{}
	}
	again := h.boot != "" && r.Boot != "" && h.boot != r.Boot // whatever a counter says: it is another one
	for i := range r.NICs {
		nic := &r.NICs[i]
		if before, ok := h.nics[nic.Name]; ok {
			since := now.Sub(h.at[nic.Name]).Seconds()
			nic.Interval = &since
			grow(nic.Kernel, before.Kernel, again)
			grow(nic.Driver, before.Driver, again)
		}
		h.nics[nic.Name], h.at[nic.Name] = *nic, now
	}
	if r.Boot != "" {
		h.boot = r.Boot
	}
}

// grow fills in the growth of counters since some earlier ones.
func grow(now, before map[string]Counter, again bool) {
	for name, c := range now {
		was, ok := before[name]
		switch {
		case !ok:
			continue
		case again || c.Value < was.Value:
			c.Reset = true
		default:
			d := c.Value - was.Value
			c.Delta = &d
		}
		now[name] = c
	}
}
