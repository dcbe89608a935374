package scrape

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Apart is the least time between the two snapshots of the idle gate.
const Apart = time.Second

// NotIdle is the error of a server that other requests keep busy, or that does not show that it is idle.
type NotIdle struct {
	Reason string
	Stale  bool // the gauges look stuck: they are not zero and nothing is generated
}

func (e *NotIdle) Error() string {
	if e.Stale {
		return "the server is not shown to be idle: stale gauge: " + e.Reason
	}
	return "the server is not idle: " + e.Reason
}

// Idle is nil if two snapshots at least Apart from one another show an idle server: the gauges of running and waiting
// requests are there and 0 for every engine, twice, and no token was generated in between. Otherwise it is a *NotIdle.
func Idle(first, second Snapshot) error {
	for _, s := range []*Snapshot{&first, &second} {
		if missing := s.lacks(); missing != "" {
			return &NotIdle{Reason: missing}
		}
	}
	if gap := second.At.Sub(first.At); gap < Apart {
		return &NotIdle{Reason: fmt.Sprintf("only %v lie between the two looks at it", gap)}
	}
	d := Between(first, second)
	switch {
	case len(d.Resets) > 0:
		return &NotIdle{Reason: "its counters began anew: " + d.Resets[0]}
	case d.GenerationTokens == nil:
		return &NotIdle{Reason: "it does not count the tokens that it generates"}
	case *d.GenerationTokens != 0:
		return &NotIdle{Reason: fmt.Sprintf("%v tokens were generated meanwhile", *d.GenerationTokens)}
	}
	was, busy := first.busy(), second.busy()
	switch {
	case busy != "" && was == busy:
		return &NotIdle{Reason: busy + ", although no token was generated", Stale: true}
	case busy != "":
		return &NotIdle{Reason: busy}
	case was != "":
		return &NotIdle{Reason: "until just now " + was}
	}
	return nil
}

// Load is how busy a server is; nil: it does not say.
type Load struct {
	Running *float64 `json:"running"` // requests, over all engines
	Waiting *float64 `json:"waiting"`
	KVUse   *float64 `json:"kv_use"` // share of the fullest engine's cache, from 0 to 1
}

// Load is how busy the server was.
func (s *Snapshot) Load() Load {
	l := Load{Running: s.sum(running), Waiting: s.sum(waiting)}
	for _, one := range s.find(kvUse) {
		if l.KVUse == nil || one.value > *l.KVUse {
			l.KVUse = &one.value
		}
	}
	return l
}

// lacks says which of the gauges is missing, for any engine; empty if none is.
func (s *Snapshot) lacks() string {
	run, wait := s.engines(running), s.engines(waiting)
	switch {
	case len(run) == 0:
		return "it has no gauge of running requests; some servers show it only after their first request"
	case len(wait) == 0:
		return "it has no gauge of waiting requests; some servers show it only after their first request"
	}
	for _, engine := range run {
		if !slices.Contains(wait, engine) {
			return fmt.Sprintf("the engine %s has no gauge of waiting requests", engine)
		}
	}
	return ""
}

// Blank reports whether something is missing by which a server shows that it is idle. TGI, and SGLang of its counters,
// show it only after their first request.
func (s *Snapshot) Blank() bool { return s.lacks() != "" || s.sum(generationTokens) == nil }

// busy says which gauges are not zero; empty if all are.
func (s *Snapshot) busy() string {
	var keys []string
	for _, q := range []quantity{running, waiting} {
		for _, one := range s.find(q) {
			if one.value != 0 {
				keys = append(keys, fmt.Sprintf("%s is %v", one.key(), one.value))
			}
		}
	}
	slices.Sort(keys)
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// WaitIdle looks at the server every Apart until it is idle, for at most patience, and returns the last snapshot, which
// is the one before the group. A server that was never idle is a *NotIdle, one that does not answer an error of its
// own.
func (s *Source) WaitIdle(ctx context.Context, patience time.Duration) (Snapshot, error) {
	end := time.Now().Add(patience)
	last, err := s.Fetch(ctx)
	if err != nil {
		return last, err
	}
	for {
		// Counted from the end of the last answer, so that a slow one brings no two looks together.
		timer := time.NewTimer(Apart)
		select {
		case <-ctx.Done():
			timer.Stop()
			return last, context.Cause(ctx)
		case <-timer.C:
		}
		now, err := s.Fetch(ctx)
		if err != nil {
			return last, err
		}
		err = Idle(last, now)
		if last = now; err == nil || !time.Now().Before(end) {
			return last, err
		}
	}
}
