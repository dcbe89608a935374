package picture

import (
	"encoding/json"
	"io"
	"time"
)

// document is what WriteJSON prints. docs/slurm.md explains it; names stay, new ones may come.
type document struct {
	Schema     int            `json:"schema"`
	Run        string         `json:"run"`
	Dir        string         `json:"dir"`
	Taken      time.Time      `json:"taken"`
	Asked      bool           `json:"asked"`      // Slurm has answered
	Accounting bool           `json:"accounting"` // ... and its accounting has
	Open       bool           `json:"open"`       // something may still change by itself
	Doubts     []string       `json:"doubts"`
	Counts     map[string]int `json:"counts"` // executions by outcome
	Executions []execution    `json:"executions"`
}

// execution is one execution; what is not known is null.
type execution struct {
	Point     string            `json:"point"`
	Values    map[string]string `json:"values"`
	Repeat    int               `json:"repeat"`
	Array     int               `json:"array"`
	Task      int               `json:"task"`
	Outcome   string            `json:"outcome"`
	Reason    *string           `json:"reason"`
	State     *string           `json:"state"` // Slurm's word for the task
	Exit      *string           `json:"exit"`
	Node      *string           `json:"node"`
	Since     *time.Time        `json:"since"` // the start of the task
	Attempt   *int              `json:"attempt"`
	WontStart bool              `json:"wont_start"`
	Advice    *string           `json:"advice"`
}

// documentSchema is the version of what WriteJSON prints.
const documentSchema = 1

// WriteJSON prints every execution for a program.
func (p *Picture) WriteJSON(w io.Writer) error {
	d := document{
		Schema: documentSchema, Run: p.Run.Name(), Dir: p.Run.Dir, Taken: p.Taken.UTC().Truncate(time.Second), Asked: p.Asked, Accounting: p.Accounting,
		Open: p.Open(), Doubts: append([]string{}, p.Doubts...), Counts: map[string]int{}, Executions: make([]execution, len(p.Set.Pairs)),
	}
	for o, n := range p.Set.Counts() {
		d.Counts[string(o)] = n
	}
	for i := range p.Set.Pairs {
		pair := &p.Set.Pairs[i]
		e := execution{
			Point: pair.Point.ID, Values: map[string]string{}, Repeat: pair.Repeat, Array: pair.Array, Task: pair.Task,
			Outcome: string(pair.Outcome), Reason: known(pair.Reason), WontStart: wontStart(pair), Advice: known(advice(pair)),
		}
		for j, axis := range p.Run.Plan.Axes {
			e.Values[axis.Name] = pair.Point.Values[j]
		}
		if pair.Result != nil {
			e.Attempt, e.Node = known(pair.Result.Attempt), known(pair.Result.Host)
		}
		if s := pair.State; s != nil {
			e.State, e.Exit, e.Since = known(s.Word), known(s.Exit), known(s.Since)
			if s.Node != "" {
				e.Node = known(s.Node)
			}
			if pair.Result == nil || pair.Outcome != pair.Result.Outcome { // else it tells of its own attempt
				e.Attempt = known(s.Attempt)
			}
		}
		d.Executions[i] = e
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}

// known is nil for a value that says nothing.
func known[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}
