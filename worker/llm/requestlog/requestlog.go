// Package requestlog is the file requests.jsonl in the log folder of a task of `kind: llm`: a line for each request and
// one for each group of them, with everything by which the numbers can be made again. The worker writes lines that begin
// with an Identity; use Read to have them back as groups, and Append to gather the lines of runs in one file.
package requestlog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/result"
)

// Schema is the version of the lines that the worker writes. A line without a schema is of version 1.
const Schema = 1

// Kind is what a line is about.
type Kind string

// The kinds of lines.
const (
	Preflight Kind = "preflight" // a look at a server before its first group
	Warmup    Kind = "warmup"    // what was sent to a server before its first group
	OfRequest Kind = "request"
	OfGroup   Kind = "group"
	OfText    Kind = "text" // in a file of its own, and never in another
)

// Identity says of which group a line is. With the stream of a request no two lines of one run have the same.
type Identity struct {
	Schema  int            `json:"schema"`
	Kind    Kind           `json:"kind"`
	Run     string         `json:"run"`             // name of the run folder when it was measured
	Plan    string         `json:"plan"`            // digest of the plan
	Label   string         `json:"label,omitempty"` // of the variant
	Point   string         `json:"point"`
	Case    string         `json:"case,omitempty"`
	Params  []result.Param `json:"params"`
	Repeat  int            `json:"repeat"`
	Start   int            `json:"start,omitempty"`
	Attempt int            `json:"attempt"`
	Restart int            `json:"restart"`
	// Take counts the processes that have measured under one attempt and restart, from 2 on; 0 is the first. A script that
	// was given to sbatch twice makes a second one.
	Take int `json:"take,omitempty"`
}

// String is the identity in words.
func (i Identity) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s, label %s, ", i.Run, cmp.Or(i.Label, "none"))
	if i.Case != "" {
		fmt.Fprintf(&b, "case %s, ", i.Case)
	}
	for _, p := range i.Params {
		if p.Name != "label" {
			fmt.Fprintf(&b, "%s=%s, ", p.Name, p.Value)
		}
	}
	fmt.Fprintf(&b, "repeat %d, attempt %d.%d", i.Repeat, i.Attempt, i.Restart)
	if i.Take > 0 {
		fmt.Fprintf(&b, ", take %d", i.Take)
	}
	return b.String()
}

// key is equal for the lines of one group.
func (i Identity) key() string {
	return fmt.Sprintf("%q %q %q %d %d %d %d", i.Run, i.Plan, i.Point, i.Repeat, i.Attempt, i.Restart, i.Take)
}

// Request is one stream of a group, as far as its numbers are concerned.
type Request struct {
	Identity
	Stream int    `json:"stream"`
	Role   string `json:"role"` // stream, short or long
	account.Record

	Line int `json:"-"` // in the file, from 1
}

// Group is a group with its streams, in their order.
type Group struct {
	Identity
	Begun   time.Time     `json:"begun"`
	Outcome string        `json:"outcome"`
	Reason  string        `json:"reason"`
	Sum     account.Group `json:"group"`

	Requests []Request `json:"-"`
	File     string    `json:"-"`
	Line     int       `json:"-"` // of the summary
}

// Records are the records of the streams.
func (g *Group) Records() []account.Record {
	records := make([]account.Record, len(g.Requests))
	for i, r := range g.Requests {
		records[i] = r.Record
	}
	return records
}

// Problem is a line that could not be used, or a doubt about it. The rest of the file is kept.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// Find returns the group of an execution: the one whose barrier opened between two instants, else the last one; nil if
// there is none. Groups of other processes under the same attempt are told apart by that time.
func Find(groups []Group, point string, repeat, attempt, restart int, from, to time.Time) *Group {
	var found *Group
	for i := range slices.Backward(groups) {
		g := &groups[i]
		if g.Point != point || g.Repeat != repeat || g.Attempt != attempt || g.Restart != restart {
			continue
		}
		if !g.Begun.Before(from) && !g.Begun.After(to) {
			return g
		}
		if found == nil {
			found = g
		}
	}
	return found
}
