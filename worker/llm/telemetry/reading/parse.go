package reading

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// part is a part of an answer: what stands behind its mark, and the lines up to the next one.
type part struct {
	word, rest string
	body       string
	status     *int // of the command; nil: not told
}

// parts takes an answer apart. What stands before the first mark is what a login shell says of its own accord. ended is
// false if the last mark is missing: the answer was cut off.
func parts(text string) (list []part, ended bool) {
	for line := range strings.Lines(text) {
		said, marked := strings.CutPrefix(line, mark)
		if !marked {
			if len(list) > 0 {
				list[len(list)-1].body += line
			}
			continue
		}
		word, rest, _ := strings.Cut(strings.TrimRight(said, "\n"), " ")
		if word == "status" && len(list) > 0 {
			if n, err := strconv.Atoi(rest); err == nil {
				list[len(list)-1].status = &n
			}
			continue
		}
		list = append(list, part{word: word, rest: rest})
	}
	for i := range list {
		list[i].body = strings.TrimSpace(list[i].body)
	}
	return list, len(list) > 0 && list[len(list)-1].word == "end"
}

// answer is what a script's output says, before counters are compared with those of an earlier one.
type answer struct {
	Reading
	errors []string
}

func (a *answer) fail(format string, args ...any) {
	a.errors = append(a.errors, fmt.Sprintf(format, args...))
}

// parse reads the output of a script that was asked for some GPUs of a host.
func parse(text string, h Host, gpus choice) *answer {
	a := &answer{Reading: Reading{Processes: []Process{}, NICs: []NIC{}}}
	list, ended := parts(text)
	switch {
	case len(list) == 0:
		a.fail("the host gave no answer that can be read: %.80q", text)
		return a
	case !ended:
		a.fail("the answer was cut off after %d bytes", len(text))
	}
	page := uint64(0)
	for _, p := range list {
		switch p.word {
		case "page":
			page, _ = strconv.ParseUint(p.body, 10, 64) // 0 where it is not told: then sizes in pages are not either
		case "boot":
			a.Boot = p.body
		case "load":
			a.load(p.body)
		case "meminfo":
			a.meminfo(p.body)
		case "nogpu":
			a.GPUs = []GPU{}
		case "gpu":
			a.gpus(p, gpus)
		case "process":
			a.process(p, page)
		case "nic":
			a.NICs = append(a.NICs, NIC{Name: p.rest, Kernel: counters(p.body, " ")})
		case "nonic":
			a.fail("there is no network interface %q", p.rest)
		case "ethtool":
			a.ethtool(p)
		}
	}
	if a.Memory == nil && ended {
		a.fail("/proc/meminfo could not be read")
	}
	if len(h.NICs) == 0 {
		a.NICs = []NIC{}
	}
	return a
}

// load reads /proc/loadavg.
func (a *answer) load(body string) {
	fields := strings.Fields(body)
	for i := range min(3, len(fields)) {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			a.Load = nil
			return
		}
		a.Load = append(a.Load, v)
	}
}

// meminfo reads /proc/meminfo, whose sizes are in KiB.
func (a *answer) meminfo(body string) {
	const kibi = 1 << 10
	for line := range strings.Lines(body) {
		key, rest, _ := strings.Cut(line, ":")
		value, unit, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			continue
		}
		if unit == "kB" {
			n *= kibi
		}
		if a.Memory == nil {
			a.Memory = map[string]uint64{}
		}
		a.Memory[key] = n
	}
}

// process reads /proc/PID/stat. One that has ended in between left nothing, and one may be found by both its names.
func (a *answer) process(p part, page uint64) {
	id, executable, _ := strings.Cut(p.rest, " ")
	if p.body == "" {
		return
	}
	got, err := parseStat(p.body, page)
	if err != nil {
		a.fail("process %s: %v", id, err)
		return
	}
	if got.Executable = executable; !slices.ContainsFunc(a.Processes, func(o Process) bool { return o.PID == got.PID }) {
		a.Processes = append(a.Processes, got)
	}
}

// parseStat reads the text of /proc/PID/stat. The name may hold anything, parentheses and blanks too, but nothing after
// its last closing parenthesis can (proc_pid_stat(5)).
func parseStat(text string, page uint64) (Process, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("no name in %.60q", text)
	}
	// The fields from the third on; majflt is the 12th of all, starttime the 22nd, rss the 24th.
	const first, majflt, start, rss = 3, 12, 22, 24
	f := strings.Fields(text[end+1:])
	if len(f) <= rss-first {
		return Process{}, fmt.Errorf("%d fields after the name of %.60q", len(f), text)
	}
	p := Process{Name: text[open+1 : end]}
	var err error
	if p.PID, err = strconv.Atoi(strings.TrimSpace(text[:open])); err != nil {
		return Process{}, err
	}
	for _, field := range []struct {
		into *uint64
		at   int
	}{{&p.MajorFaults, majflt}, {&p.Start, start}, {&p.RSS, rss}} {
		if *field.into, err = strconv.ParseUint(f[field.at-first], 10, 64); err != nil {
			return Process{}, err
		}
	}
	if page == 0 {
		return Process{}, fmt.Errorf("the host does not tell the size of its pages")
	}
	p.RSS *= page
	return p, nil
}
