// Package rejudge makes the numbers of groups that were measured long ago again, out of their log alone: by our own
// definitions, which must give what is stored, or by those of another load client beside ours. Use Again for the first and
// Beside for the second, then Table to print.
package rejudge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/account/peer"
	"cpbench/worker/llm/requestlog"
)

// Ours is the name of our own definitions.
const Ours = "cpbench"

// Row is a point under one label of the cache, with those of its groups that cpbench counts, or those that it does not.
type Row struct {
	Point   string               `json:"point"` // axes and values
	Cache   string               `json:"cache_label"`
	Counted bool                 `json:"counted"`           // by cpbench; a tool may show numbers of groups that are not
	Outcome string               `json:"outcome,omitempty"` // why they are not
	Groups  []*requestlog.Group  `json:"-"`
	N       int                  `json:"groups"`
	Figures []Figure             `json:"figures"`
	Changed []requestlog.Problem `json:"changed,omitempty"` // numbers that came out otherwise than they are stored
}

// Figure is one number of a row: the mean over its groups, of those that have it.
type Figure struct {
	Name   peer.Name `json:"figure"`
	Theirs string    `json:"name_there,omitempty"`
	Ours   *float64  `json:"cpbench"` // as it is stored where the other is our own, made again
	Other  *float64  `json:"other"`
	OursN  int       `json:"cpbench_n"` // groups that have it
	OtherN int       `json:"other_n"`
	Why    []string  `json:"why,omitempty"` // the two differ, each reason once
}

// Beside puts the figures of another tool beside ours.
func Beside(tool peer.Tool, rows []Row) {
	for i := range rows {
		r := &rows[i]
		var all [][]peer.Figure
		for _, g := range r.Groups {
			all = append(all, peer.Compare(tool, judged(g)))
		}
		r.fold(all)
	}
}

// judged are the records of a group with numbers that are made now.
func judged(g *requestlog.Group) []account.Record {
	records := g.Records()
	for i := range records {
		records[i].Numbers = account.Judge(records[i].Facts)
	}
	return records
}

// Again makes all numbers again by our own definitions, and notes each that is not exactly the stored one.
func Again(rows []Row) {
	for i := range rows {
		r := &rows[i]
		var all [][]peer.Figure
		for _, g := range r.Groups {
			records := judged(g)
			sum := account.Sum(records)
			for j, q := range g.Requests {
				r.changed(g.File, q.Line, q.Numbers, records[j].Numbers)
			}
			r.changed(g.File, g.Line, g.Sum, sum)
			all = append(all, peer.Same(g.Sum, sum))
		}
		r.fold(all)
	}
}

// changed notes the members of two structs that differ, by their names in the file.
func (r *Row) changed(file string, line int, stored, now any) {
	a, b := members(stored), members(now)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !bytes.Equal(a[name], b[name]) {
			r.Changed = append(r.Changed, requestlog.Problem{File: file, Line: line, Text: fmt.Sprintf("%s is %s in the file and %s now", name, short(a[name]), short(b[name]))})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			r.Changed = append(r.Changed, requestlog.Problem{File: file, Line: line, Text: fmt.Sprintf("%s is not in the file and %s now", name, short(b[name]))})
		}
	}
}

func members(v any) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil { // numbers that are finite, and texts
		panic(err)
	}
	return m
}

const shortest = 60

func short(raw json.RawMessage) string {
	if len(raw) > shortest {
		return string(raw[:shortest]) + "..."
	}
	return strings.TrimSpace(string(raw))
}

// fold takes the mean of each figure over the groups that have it.
func (r *Row) fold(groups [][]peer.Figure) {
	r.N = len(groups)
	by := map[peer.Name][]peer.Figure{}
	for _, figures := range groups {
		for _, x := range figures {
			by[x.Name] = append(by[x.Name], x)
		}
	}
	for _, name := range peer.Names() {
		if len(by[name]) > 0 {
			r.Figures = append(r.Figures, folded(by[name]))
		}
	}
}

// folded is one figure over groups.
func folded(groups []peer.Figure) Figure {
	f := Figure{Name: groups[0].Name, Theirs: groups[0].Theirs}
	var ours, other []float64
	for _, x := range groups {
		if x.Ours != nil {
			ours = append(ours, *x.Ours)
		}
		if x.Other != nil {
			other = append(other, *x.Other)
		}
		if x.Why != "" && !slices.Contains(f.Why, x.Why) {
			f.Why = append(f.Why, x.Why)
		}
	}
	f.Ours, f.OursN = mean(ours), len(ours)
	f.Other, f.OtherN = mean(other), len(other)
	return f
}

func mean(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	sum /= float64(len(values))
	return &sum
}
