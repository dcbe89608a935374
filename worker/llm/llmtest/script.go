// Package llmtest is an LLM server for tests: scripts that send exact bytes at exact times, a list of the shapes and
// faults that real servers have shown, and a simulated vLLM whose counters add up. It generates nothing and serves on
// loopback or over pipes, where virtual time makes every instant exact.
package llmtest

import (
	"net/http"
	"time"
)

// Step is one write of a script.
type Step struct {
	After time.Duration // pause before the write
	Write string        // sent in one piece; empty only flushes the header
}

// Script is a response, byte by byte.
type Script struct {
	Status int               // 0 is 200
	Header map[string]string // beside Content-Type, which is text/event-stream unless it stands here
	Steps  []Step
	Cut    bool // the connection is broken after the last step, in place of a proper end
	Hang   bool // nothing comes after the last step, until the client has gone
	Silent bool // not even a header comes, until the client has gone
}

// Frames is a script that begins to answer at once and sends a write every pace, the first one after first.
func Frames(first, pace time.Duration, writes ...string) Script {
	s := Script{Steps: []Step{{}}}
	for i, w := range writes {
		after := pace
		if i == 0 {
			after = first
		}
		s.Steps = append(s.Steps, Step{After: after, Write: w})
	}
	return s
}

// ServeHTTP plays the script.
func (s Script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	drain(r)
	if s.Silent {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for name, value := range s.Header {
		w.Header().Set(name, value)
	}
	if s.Status != 0 {
		w.WriteHeader(s.Status)
	}
	out := http.NewResponseController(w)
	for _, step := range s.Steps {
		if !pause(r, step.After) {
			return
		}
		if _, err := w.Write([]byte(step.Write)); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
	}
	if s.Hang {
		<-r.Context().Done()
	}
	if s.Cut {
		panic(http.ErrAbortHandler) // the server's own way to break a connection
	}
}

// pause waits; false if the client has gone.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
