package telemetry

import (
	"time"

	"cpbench/worker/llm/telemetry/reading"
)

// Sample is one look at one target: a line of the file.
type Sample struct {
	At               time.Time `json:"at"`                 // its begin, by this machine's wall clock
	Offset           float64   `json:"offset_s"`           // its begin, seconds since the watch began, by the monotonic clock
	Duration         float64   `json:"sample_duration_s"`  // it took so long
	Late             float64   `json:"late_s"`             // it began so long after it was due
	Terminal         bool      `json:"terminal,omitempty"` // the last one, after everything was measured
	Host             string    `json:"host,omitempty"`
	URL              string    `json:"url,omitempty"`  // of metrics, in place of a host
	Errors           []string  `json:"errors"`         // what could not be read, and why
	Text             *string   `json:"text,omitempty"` // of metrics, as it came
	*reading.Reading           // of a host; nil: nothing could be read
}

// got reports whether the target said anything.
func (s *Sample) got() bool { return s.Reading != nil || s.Text != nil }
