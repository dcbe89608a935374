// Package result is the file format that one attempt at a (point, repeat) leaves behind: schema v1. The worker
// writes it, collect reads it, and nothing else knows it. A file is small (at most 4 KB) and complete: it was
// written to a temporary name, synced and renamed. Bulky samples stand in a sidecar of JSON lines.
package result

import (
	"encoding/json"
	"time"

	"cpbench/plan/catalogue"
)

// Schema is the version of the format that this package writes. Older versions stay readable.
const Schema = 1

// Result is the outcome of one attempt at one (point, repeat). A nil pointer and an absent map entry mean
// "not measured"; a measured value is finite.
type Result struct {
	Schema int    `json:"schema"`
	Plan   string `json:"plan"` // plan digest
	Key    string `json:"key"`  // measurement key: equal keys may be merged
	Run    string `json:"run"`  // name of the run folder

	Point   string  `json:"point"`           // point id
	Case    string  `json:"case,omitempty"`  // "max-fit" for the search, else empty
	Params  []Param `json:"params"`          // axis values in the user's text
	Repeat  int     `json:"repeat"`          // from 1, unique over all starts
	Start   int     `json:"start,omitempty"` // of the server, from 1; 0: the run has started none
	Attempt int     `json:"attempt"`         // from 1
	Restart int     `json:"restart"`         // Slurm's restart count
	Array   int     `json:"array"`
	Task    int     `json:"task"`

	Outcome  catalogue.Outcome `json:"outcome"`
	Reason   string            `json:"reason,omitempty"`   // a word or short sentence
	Evidence string            `json:"evidence,omitempty"` // the text that decided the outcome

	Metrics map[string]*float64 `json:"metrics"`           // by catalogue name, base units; null = not measured
	Extra   []Figure            `json:"extra,omitempty"`   // figures of the program's own
	Steps   *Summary            `json:"steps,omitempty"`   // the timed iterations
	MaxFit  *MaxFit             `json:"max_fit,omitempty"` // of a search
	Group   *Group              `json:"group,omitempty"`   // of the llm workload: what became of the requests
	Sizes   Sizes               `json:"sizes"`             // what really ran

	Warnings   []Warning         `json:"warnings"`   // an empty list is written, not left out
	Provenance map[string]string `json:"provenance"` // the brief facts of the catalogue; all others stand in Facts
	Missing    []Missing         `json:"missing"`    // facts that are needed and could not be had; null: nobody has looked
	Started    time.Time         `json:"started"`
	Ended      time.Time         `json:"ended"`

	// Unknown holds the fields of a newer version, so that a file read and written again loses nothing.
	Unknown map[string]json.RawMessage `json:"-"`
}

// Param is one axis value in the user's own text.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Figure is a number that the program reported under a name of its own.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// Sizes are the sizes of the input: requested, as run, and padded. Zero is never a size: nil is "not given".
type Sizes struct {
	Tokens       *int64 `json:"tokens"`        // requested N
	PaddedTokens *int64 `json:"padded_tokens"` // N as run
	Atoms        *int64 `json:"atoms"`
	MSA          *int64 `json:"msa"`
	Ranks        int    `json:"ranks"`
	Topology     string `json:"topology,omitempty"` // 1d, 2d or empty
}

// Summary describes the timed iterations of one execution. Seconds holds the slowest rank of each iteration in
// order, at most MaxSeconds of them; every rank's values are in the sidecar.
type Summary struct {
	N       int       `json:"n"`
	Seconds []float64 `json:"seconds"`
	Min     float64   `json:"min"`
	Q1      float64   `json:"q1"`
	Median  float64   `json:"median"`
	Q3      float64   `json:"q3"`
	Max     float64   `json:"max"`
	Mean    float64   `json:"mean"`
	SD      *float64  `json:"sd"`  // nil for n = 1
	MAD     float64   `json:"mad"` // median absolute deviation
	Warmup  int       `json:"warmup_steps"`
	Steady  string    `json:"steady"` // yes, no or unknown
	Slowest int       `json:"slowest_rank"`
}

// MaxSeconds is the largest number of iterations that a Summary lists one by one.
const MaxSeconds = 200

// MaxFit is what the search for the largest size found: the bracket [Fits, OOM).
type MaxFit struct {
	Axis      string   `json:"axis"`
	Fits      *int64   `json:"fits"`            // largest size that fits; nil: none did
	OOM       *int64   `json:"oom"`             // smallest size that did not; nil: none was seen
	Limit     *int64   `json:"limit,omitempty"` // smallest size that met a limit other than memory
	Above     *int64   `json:"above,omitempty"` // a size above OOM that fitted: the fit is not monotone
	Ended     string   `json:"ended"`
	Confirmed int      `json:"confirmed"` // fresh processes in which Fits ran again
	Confirms  int      `json:"confirms"`  // ... of so many
	Verified  int      `json:"verified"`  // sizes below Fits that fitted when they were tried after it
	Verifies  int      `json:"verifies"`  // ... of so many
	PeakBytes *float64 `json:"peak_bytes"`
	Capacity  *float64 `json:"capacity_bytes"`
	Reserve   *int64   `json:"reserve_fits,omitempty"` // largest size whose fitted peak leaves 5 % of the capacity free; not tried itself
	Hint      *int64   `json:"hint,omitempty"`         // size at which the search began to look
	Trials    []Trial  `json:"trials"`
}

// Trial is one size that the search tried.
type Trial struct {
	N       int64             `json:"n"`
	Outcome catalogue.Outcome `json:"outcome"`
	Peak    *float64          `json:"peak_bytes,omitempty"`
	Seconds float64           `json:"seconds"`
	Fresh   bool              `json:"fresh,omitempty"`   // ran in a new process
	Confirm bool              `json:"confirm,omitempty"` // ran to confirm the answer
	Verify  bool              `json:"verify,omitempty"`  // ran to verify a size below the answer
}

// Group is what became of the requests of one repeat of the llm workload. Its streams are no repeats.
type Group struct {
	Cache     string         `json:"cache"`   // what the cache did: cold, warm_repeat or evicted; empty: nothing was sent
	Audit     string         `json:"audit"`   // clean, contaminated or unaudited
	Client    string         `json:"client"`  // client_ok, client_suspect or client_bound
	Streams   int            `json:"streams"` // requests that were sent, behind one barrier but in the mixed case
	Succeeded int            `json:"succeeded"`
	Truncated int            `json:"truncated"`
	Failed    int            `json:"failed"`
	Length    int            `json:"finish_length"`            // successes whose budget ran out, which is no task done
	Reasons   map[string]int `json:"reasons,omitempty"`        // why streams were no success
	Counts    string         `json:"count_source"`             // of the tokens: server_usage, retokenized_text, missing, or several of them
	Prompts   string         `json:"prompts_sha256"`           // over the hashes of the prompts, in the order of the streams
	Unique    int            `json:"prompts_unique,omitempty"` // different prompts among the streams; 0: not told
	Overlap   *bool          `json:"overlap,omitempty"`        // of the mixed case: the long request met both short ones
	// PerPosition are the draft tokens accepted per round at each position; null: the server does not tell.
	PerPosition []float64 `json:"accepted_per_round_by_position,omitempty"`
}

// Warning is a doubt as data.
type Warning struct {
	Code catalogue.Code `json:"code"`
	Text string         `json:"text"`
	Hint string         `json:"hint,omitempty"`
}

// Missing says why facts of the provenance that a publication needs are not known. What does not apply is not missing:
// it has the value catalogue.NotApplicable.
type Missing struct {
	Keys   []string `json:"keys"` // of the catalogue's facts, sorted
	Reason string   `json:"reason"`
}

// Warn adds a warning once.
func (r *Result) Warn(code catalogue.Code, text, hint string) {
	for _, w := range r.Warnings {
		if w.Code == code && w.Text == text {
			return
		}
	}
	r.Warnings = append(r.Warnings, Warning{code, text, hint})
}

// Set records a measured value.
func (r *Result) Set(metric string, v float64) {
	if r.Metrics == nil {
		r.Metrics = map[string]*float64{}
	}
	r.Metrics[metric] = &v
}

// Newer reports whether r is a later attempt than o.
func (r *Result) Newer(o *Result) bool {
	if r.Attempt != o.Attempt {
		return r.Attempt > o.Attempt
	}
	return r.Restart > o.Restart
}
