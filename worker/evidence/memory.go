package evidence

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"cpbench/plan/catalogue"
)

// Memory is what an allocator said about device memory, in bytes. The texts have three digits, so the values are
// rounded. Nil is "not said".
type Memory struct {
	Tried     *int64 // the request that failed
	Total     *int64 // of the device
	Free      *int64 // on the device at that moment
	Allowed   *int64 // most that the allocator may take, where it is less than the device (set_per_process_memory_fraction)
	Allocated *int64 // in live tensors
	Reserved  *int64 // taken from the driver by the allocator, the allocated part included
}

const (
	garbage       = "a request of this size is garbage, not a size of the input"
	singleTensor  = "single tensor: the request alone is larger than the device"
	fragmentation = "fragmentation: the request would have fitted into the reserved memory that is not in use"
	notAboveFree  = "the request is not larger than the memory that is free"
)

// absurd is a request that no input leads to.
const absurd = 1 << 50

const amount = `([\d.]+) ?(bytes|[KMGTPE]?i?B)\b`

// numbers are the places of the values, in the wording of now and in the older one.
var numbers = []struct {
	pattern *regexp.Regexp
	into    func(*Memory) **int64
}{
	{regexp.MustCompile(`(?i)(?:tried|trying) to allocate ` + amount), func(m *Memory) **int64 { return &m.Tried }},
	{regexp.MustCompile(`(?i)allocate request for ` + amount), func(m *Memory) **int64 { return &m.Tried }},
	{regexp.MustCompile(`(?i)total capac\w*ty of ` + amount), func(m *Memory) **int64 { return &m.Total }},
	{regexp.MustCompile(`(?i)` + amount + ` total capac`), func(m *Memory) **int64 { return &m.Total }},
	{regexp.MustCompile(`(?i)of which ` + amount + ` is free`), func(m *Memory) **int64 { return &m.Free }},
	{regexp.MustCompile(`(?i); ` + amount + ` free`), func(m *Memory) **int64 { return &m.Free }},
	{regexp.MustCompile(`(?i)` + amount + ` allowed;`), func(m *Memory) **int64 { return &m.Allowed }},
	{regexp.MustCompile(`(?i)allocated memory ` + amount + ` is allocated by`), func(m *Memory) **int64 { return &m.Allocated }},
	{regexp.MustCompile(`(?i)` + amount + ` already allocated`), func(m *Memory) **int64 { return &m.Allocated }},
	{regexp.MustCompile(`(?i)` + amount + ` reserved in total`), func(m *Memory) **int64 { return &m.Reserved }},
}

// unallocated is the reserved memory that is not in use, of which only the newer wording tells.
var unallocated = regexp.MustCompile(`(?i)` + amount + ` is reserved by \w+ but unallocated`)

// messageBytes is the longest text of an allocator.
const messageBytes = 1500

// parseMemory reads the numbers of the message at the start of text; nil if there are none.
func parseMemory(text string) *Memory {
	if len(text) > messageBytes {
		text = text[:messageBytes]
	}
	var m Memory
	for _, n := range numbers {
		if into := n.into(&m); *into == nil {
			*into = bytesIn(n.pattern, text)
		}
	}
	if spare := bytesIn(unallocated, text); spare != nil && m.Allocated != nil && m.Reserved == nil {
		sum := *m.Allocated + min(*spare, math.MaxInt64-*m.Allocated)
		m.Reserved = &sum
	}
	if m == (Memory{}) {
		return nil
	}
	return &m
}

func bytesIn(pattern *regexp.Regexp, text string) *int64 {
	at := pattern.FindStringSubmatch(text)
	if at == nil {
		return nil
	}
	v, err := strconv.ParseFloat(at[1], 64)
	if err != nil {
		return nil
	}
	unit := strings.ToLower(at[2])
	base := 1000.0
	if strings.Contains(unit, "i") {
		base = 1024
	}
	if power := strings.IndexByte("kmgtpe", unit[0]); power >= 0 && unit != "bytes" {
		v *= math.Pow(base, float64(power+1))
	}
	n := int64(math.MaxInt64)
	if v < math.MaxInt64 {
		n = int64(v)
	}
	return &n
}

// Judge lets the numbers in the message of an allocator correct what a rank has said of itself in it: that it ran out of
// device memory.
func Judge(text string) Finding {
	f := Finding{Outcome: catalogue.OOMDevice, Fragment: text, Raised: true}
	f.judge(text)
	return f
}

// Repeated is what an outcome means once it has happened in two new processes, with text as the evidence of the second: an
// allocator that was refused twice has no memory, whatever it says is free. Any other suspicion stays one.
func Repeated(outcome catalogue.Outcome, text string) catalogue.Outcome {
	if outcome != catalogue.OOMSuspect {
		return outcome
	}
	if f, ok := Classify(text); ok && f.Outcome == catalogue.OOMSuspect && f.Memory != nil {
		return catalogue.OOMDevice
	}
	return outcome
}

// judge reads the numbers of the message at the start of text and lets them correct the outcome.
func (f *Finding) judge(text string) {
	if f.Outcome != catalogue.OOMDevice && f.Outcome != catalogue.OOMHost && f.Outcome != catalogue.OOMComm {
		return
	}
	if f.Outcome != catalogue.OOMDevice {
		text = lineOf(text, 0) // no message of an allocator follows, and the next one is not about this
	}
	f.Memory = parseMemory(text)
	m := f.Memory
	if m == nil || m.Tried == nil {
		return
	}
	switch {
	case *m.Tried >= absurd:
		f.Outcome, f.Note = catalogue.Error, garbage
	case m.Total != nil && *m.Tried > *m.Total:
		f.Note = singleTensor
	case m.Free != nil && *m.Tried <= *m.Free && m.spare() >= *m.Tried:
		f.Note = fragmentation
	case m.Free != nil && *m.Tried <= *m.Free && !m.limited():
		f.Outcome, f.Note = catalogue.OOMSuspect, notAboveFree
	}
}

// rounding is how far a sum of three amounts may be off that are told in GiB, with two digits behind the point.
const rounding = 16 << 20

// limited reports whether a limit of the allocator explains that it was refused memory which is free on the device.
func (m *Memory) limited() bool {
	return m.Allowed != nil && (m.Reserved == nil || *m.Tried+rounding > *m.Allowed-*m.Reserved)
}

// spare is the reserved memory that is not in use; 0 if it was not said.
func (m *Memory) spare() int64 {
	if m.Reserved == nil || m.Allocated == nil {
		return 0
	}
	return *m.Reserved - *m.Allocated
}
