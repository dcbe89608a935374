// Package picture shows how a run stands at one moment: Write for people, folded by verdict and reason, and WriteJSON for
// programs. collect/table has what was measured.
package picture

import (
	"time"

	"cpbench/collect"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
)

// Picture is how a run stands.
type Picture struct {
	Run        *folder.Run
	Set        *collect.Set // of that run, judged
	Taken      time.Time
	Asked      bool     // the scheduler has answered
	Silent     error    // it was asked and has not; nil as well where nobody asked
	Accounting bool     // ... and its accounting has
	Doubts     []string // about the answers
	Lost       string   // what may have made executions lost; empty: nothing in particular
}

// Open reports whether something may still change by itself.
func (p *Picture) Open() bool {
	for i := range p.Set.Pairs {
		pair := &p.Set.Pairs[i]
		if pair.Outcome == catalogue.Running || pair.Outcome == catalogue.Pending && !wontStart(pair) {
			return true
		}
	}
	return false
}

// wontStart reports whether an execution waits for what does not come.
func wontStart(pair *collect.Pair) bool {
	return pair.Outcome == catalogue.Pending && pair.State != nil && pair.State.WontStart
}

// advice is what to do about the reason for which an execution waits.
func advice(pair *collect.Pair) string {
	if pair.Outcome != catalogue.Pending || pair.State == nil {
		return ""
	}
	return pair.State.Advice
}
