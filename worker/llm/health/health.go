// Package health tells whether the load client itself may have spoiled a measurement: how busy it was, how late its
// goroutines ran, whether the kernel held it back. Begin a watch before a group and end it after; Selftest measures
// what the client adds when the answer is known.
package health

import (
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"
)

// Verdict is the client's word about itself.
type Verdict string

// The verdicts. A suspect client may have added to what it measured, a bound one has.
const (
	OK      Verdict = "client_ok"
	Suspect Verdict = "client_suspect"
	Bound   Verdict = "client_bound"
)

// The limits of the verdict, above which a client is suspect.
const (
	SuspectLatency   = 1e-3 // 99th percentile of the scheduler's latency in seconds
	SuspectCPU       = 0.70 // share of the processors
	SuspectThrottled = 0.0  // share of the time in which the control group was throttled
)

// The same limits, above which it is bound.
const (
	BoundLatency   = 10e-3
	BoundCPU       = 0.95
	BoundThrottled = 0.05
)

// Health is what a watch saw. Null: this machine does not tell.
type Health struct {
	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons,omitempty"` // of a verdict other than OK

	Wall      float64  `json:"wall_s"`
	Procs     int      `json:"gomaxprocs"`
	CPU       *float64 `json:"cpu_share"`             // CPU time of the process / wall / GOMAXPROCS
	SchedP99  *float64 `json:"sched_latency_p99_s"`   // goroutines that were ready and waited; upper edge of the bucket
	SchedMax  *float64 `json:"sched_latency_max_s"`   // the longest of them
	GCMax     *float64 `json:"gc_pause_max_s"`        // longest stop of the world; 0 without any
	RunDelay  *float64 `json:"run_queue_delay_s"`     // threads that were ready and waited for a processor, added up
	Throttled *int64   `json:"cgroup_throttled"`      // periods in which the control group was held back
	HeldBack  *float64 `json:"cgroup_throttled_s"`    // for so long
	Where     string   `json:"cgroup_file,omitempty"` // that was read
}

// Watch is a measurement of the client that is going on.
type Watch struct {
	root   string
	begun  time.Time
	before reading
}

// reading is the state of all counters.
type reading struct {
	cpu           *float64
	sched, pauses *metrics.Float64Histogram
	delay         *float64
	throttled     *int64
	held          *float64
	where         string
}

// Begin starts a watch. root is "/" but in tests: where /proc and /sys are found.
func Begin(root string) *Watch {
	return &Watch{root: root, before: read(root), begun: time.Now()}
}

// End tells what has been since Begin.
func (w *Watch) End() Health {
	wall := time.Since(w.begun).Seconds()
	now := read(w.root)
	h := Health{Wall: wall, Procs: runtime.GOMAXPROCS(0), Where: now.where}
	if cpu := minus(now.cpu, w.before.cpu); cpu != nil && wall > 0 {
		share := *cpu / wall / float64(h.Procs)
		h.CPU = &share
	}
	h.SchedP99, h.SchedMax = upper(w.before.sched, now.sched)
	if _, h.GCMax = upper(w.before.pauses, now.pauses); h.GCMax == nil && now.pauses != nil {
		h.GCMax = new(float64)
	}
	h.RunDelay = minus(now.delay, w.before.delay)
	if now.where == w.before.where {
		h.HeldBack = minus(now.held, w.before.held)
		if a, b := now.throttled, w.before.throttled; a != nil && b != nil && *a >= *b {
			n := *a - *b
			h.Throttled = &n
		}
	}
	h.judge()
	return h
}

// judge sets the verdict: the worst of all limits that were passed.
func (h *Health) judge() {
	h.Verdict, h.Reasons = OK, nil
	check := func(v *float64, suspect, bound float64, text func(v float64) string) {
		if v == nil || *v <= suspect {
			return
		}
		h.Reasons = append(h.Reasons, text(*v))
		switch {
		case *v > bound:
			h.Verdict = Bound
		case h.Verdict == OK:
			h.Verdict = Suspect
		}
	}
	check(h.SchedP99, SuspectLatency, BoundLatency, func(v float64) string {
		return fmt.Sprintf("goroutines waited up to %.1f ms to run (p99)", v*1e3)
	})
	check(h.CPU, SuspectCPU, BoundCPU, func(v float64) string {
		return fmt.Sprintf("the client used %.0f %% of its processors", v*100)
	})
	if h.HeldBack != nil && h.Wall > 0 {
		share := *h.HeldBack / h.Wall
		check(&share, SuspectThrottled, BoundThrottled, func(float64) string {
			return fmt.Sprintf("the control group was throttled for %.1f ms", *h.HeldBack*1e3)
		})
	}
}

// worse is the worse of two.
func worse(a, b Health) Health {
	grade := map[Verdict]int{OK: 1, Suspect: 2, Bound: 3} // the zero Health is nobody's
	if grade[a.Verdict] > grade[b.Verdict] || grade[a.Verdict] == grade[b.Verdict] && a.SchedP99 != nil && b.SchedP99 != nil && *a.SchedP99 > *b.SchedP99 {
		return a
	}
	return b
}

// minus is a - b; nil if one is missing, or if the counter fell.
func minus(a, b *float64) *float64 {
	if a == nil || b == nil || *a < *b {
		return nil
	}
	d := *a - *b
	return &d
}

func read(root string) reading {
	var r reading
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		cpu := float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
		r.cpu = &cpu
	}
	samples := []metrics.Sample{{Name: "/sched/latencies:seconds"}, {Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(samples)
	for i, into := range []**metrics.Float64Histogram{&r.sched, &r.pauses} {
		if samples[i].Value.Kind() == metrics.KindFloat64Histogram {
			*into = samples[i].Value.Float64Histogram()
		}
	}
	r.delay = runDelay(root)
	r.throttled, r.held, r.where = throttling(root)
	return r
}

// upper returns the 99th percentile and the maximum of what a histogram has gained, as upper edges of buckets; nil if
// it has gained nothing. The last bucket has no upper edge, so it gives its lower one.
func upper(before, now *metrics.Float64Histogram) (p99, highest *float64) {
	if before == nil || now == nil || len(before.Counts) != len(now.Counts) {
		return nil, nil
	}
	var total uint64
	for i, n := range now.Counts {
		total += n - before.Counts[i]
	}
	if total == 0 {
		return nil, nil
	}
	rank := uint64(math.Ceil(0.99 * float64(total)))
	var seen uint64
	for i, n := range now.Counts {
		gained := n - before.Counts[i]
		if gained == 0 {
			continue
		}
		edge := now.Buckets[i+1]
		if math.IsInf(edge, 1) {
			edge = now.Buckets[i]
		}
		if seen < rank && seen+gained >= rank {
			p := edge
			p99 = &p
		}
		seen += gained
		highest = &edge
	}
	return p99, highest
}
