// Package doctor looks at a machine, its Slurm and a compute node, and says what a sweep will meet there: New and Look for
// what is seen from here, LookFromJob for the view from a node, which the job gets by Probe.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"cpbench/plan"
	"cpbench/slurm"
	"cpbench/slurm/site"
)

// Grade says how good a finding is.
type Grade string

// The grades. Only a bad one means that a sweep will fail.
const (
	Good Grade = "ok"
	Warn Grade = "warn"
	Bad  Grade = "bad"
)

// Finding is one thing that was looked at.
type Finding struct {
	Check  string `json:"check"` // what was looked at
	Grade  Grade  `json:"grade"`
	Text   string `json:"text"`             // what was seen, and what it means
	Advice string `json:"advice,omitempty"` // what to do
}

// Spec is the sweep that the site is looked at for.
type Spec struct {
	Path string
	Text []byte
	Plan *plan.Plan // LookFromJob gives it another name
}

// Doctor collects findings.
type Doctor struct {
	site    *site.Site
	spec    *Spec  // nil: none was given
	runs    string // where runs are kept
	version string // of cpbench
	found   []Finding
}

// New is a doctor without findings. spec is nil where there is none; runs is the folder of the runs, and version that of
// this cpbench.
func New(here *site.Site, spec *Spec, runs, version string) *Doctor {
	return &Doctor{site: here, spec: spec, runs: runs, version: version}
}

// Look looks at what is seen from here: Slurm, the place of the runs, the GPUs, and the spec against the site.
func (d *Doctor) Look(ctx context.Context) {
	d.lookAtSlurm()
	d.lookHere(ctx)
	if d.spec != nil {
		d.compareSpec()
	}
}

// Add takes in a finding.
func (d *Doctor) Add(f Finding) { d.found = append(d.found, f) }

func (d *Doctor) add(check string, g Grade, advice, format string, args ...any) {
	d.Add(Finding{check, g, fmt.Sprintf(format, args...), advice})
}

// Bad reports whether anything is.
func (d *Doctor) Bad() bool {
	for _, f := range d.found {
		if f.Grade == Bad {
			return true
		}
	}
	return false
}

// Write prints the findings for people.
func (d *Doctor) Write(w io.Writer) error {
	for _, f := range d.found {
		advice := ""
		if f.Advice != "" {
			advice = "\n      -> " + f.Advice
		}
		if _, err := fmt.Fprintf(w, "%-4s  %s: %s%s\n", f.Grade, f.Check, f.Text, advice); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON prints the findings for programs.
func (d *Doctor) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d.found)
}

// word is a path as a word of a line to type.
func word(path string) string {
	quoted, err := slurm.ShellWord(path)
	if err != nil {
		return fmt.Sprintf("%q", path)
	}
	return quoted
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
