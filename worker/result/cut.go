package result

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"cpbench/plan/catalogue"
)

// MaxBytes is the size within which Write keeps a result: a folder of 100,000 of them must stay quick to read.
const MaxBytes = 4096

// Bounds in bytes for single texts, applied to every result: they are sentences, and the evidence is the last part
// of a log.
const (
	maxReason   = 400
	maxEvidence = 2048
	maxText     = 300
	maxFact     = 160
)

// fit cuts r until its encoding is at most MaxBytes, tells what was cut in a warning, and returns the encoding.
// Identity, outcome, metrics and summary are never cut, so that a result whose axis values alone are longer than
// MaxBytes is still written.
func fit(r *Result) ([]byte, error) {
	done := r.clean()
	data, err := r.encodeWith(done)
	for _, c := range r.cuts() {
		if err != nil || len(data) <= MaxBytes {
			break
		}
		if c.n <= c.least {
			continue
		}
		if !slices.Contains(done, c.note) {
			done = append(done, c.note)
		}
		// The largest part that lets the whole fit, or the least part if none does.
		tooMany := sort.Search(c.n-c.least, func(k int) bool {
			c.keep(c.least + k)
			trial, err := r.encodeWith(done)
			return err != nil || len(trial) > MaxBytes
		})
		c.keep(c.least + max(tooMany-1, 0))
		data, err = r.encodeWith(done)
	}
	r.Warnings = withNotes(r.Warnings, done)
	return data, err
}

// encodeWith encodes r as it will be with the warning that tells the cuts.
func (r *Result) encodeWith(notes []string) ([]byte, error) {
	c := *r
	c.Warnings = withNotes(r.Warnings, notes)
	return Encode(&c)
}

func withNotes(warnings []Warning, notes []string) []Warning {
	if len(notes) == 0 {
		return warnings
	}
	return append(slices.Clone(warnings), Warning{Code: catalogue.CutShort, Text: strings.Join(notes, "; ")})
}

// clean bounds every text by itself and replaces bytes that are not UTF-8, which JSON cannot hold. It returns what
// it did that a reader should know.
func (r *Result) clean() []string {
	var done []string
	if len(r.Evidence) > maxEvidence {
		done = append(done, evidenceNote)
	}
	r.Evidence = tail(r.Evidence, maxEvidence)
	r.Reason = head(r.Reason, maxReason)
	r.Warnings = slices.Clone(r.Warnings)
	for i := range r.Warnings {
		w := &r.Warnings[i]
		w.Text, w.Hint = head(w.Text, maxText), head(w.Hint, maxText)
	}
	facts := make(map[string]string, len(r.Provenance)) // the worker may share one map among its results
	for k, v := range r.Provenance {
		facts[k] = head(v, maxFact)
	}
	r.Provenance = facts
	r.Missing = slices.Clone(r.Missing)
	for i := range r.Missing {
		r.Missing[i].Reason = head(r.Missing[i].Reason, maxFact)
	}
	return done
}

const evidenceNote = "evidence cut to its end; the whole text is in the logs"

// cut is one way to make a result shorter: keep(k) leaves k of the n units of some part.
type cut struct {
	n, least int
	keep     func(k int)
	note     string
}

// cuts lists the ways to make r shorter, the least harmful first: what goes first is found elsewhere too.
func (r *Result) cuts() []cut {
	evidence, warnings, extra, unknown, facts, missing := r.Evidence, r.Warnings, r.Extra, r.Unknown, r.Provenance, r.Missing
	list := []cut{{len(evidence), 256, func(k int) { r.Evidence = tail(evidence, k) }, evidenceNote}}
	if s := r.Steps; s != nil && len(s.Seconds) > 16 {
		all, c := s.Seconds, *s
		r.Steps = &c // the caller's summary stays whole
		list = append(list, cut{len(all), 0, func(k int) { c.Seconds = all[:k] }, "only the first step times are listed; all are in the samples file"})
	}
	if m := r.MaxFit; m != nil && len(m.Trials) > 4 {
		all, c := m.Trials, *m
		r.MaxFit = &c
		list = append(list, cut{len(all), 4, func(k int) { c.Trials = all[len(all)-k:] }, "only the last trials are listed; all are in the task's events"})
	}
	return append(list,
		cut{maxText, 60, func(k int) {
			r.Warnings = slices.Clone(warnings)
			for i := range r.Warnings {
				r.Warnings[i].Text, r.Warnings[i].Hint = head(warnings[i].Text, k), ""
			}
		}, "texts of warnings cut"},
		cut{len(extra), 0, func(k int) { r.Extra = extra[:k] }, "figures of the program's own left out"},
		cut{min(len(unknown), 1), 0, func(k int) {
			if r.Unknown = nil; k > 0 {
				r.Unknown = unknown
			}
		}, "fields of another version left out"},
		cut{maxFact, 16, func(k int) {
			r.Missing = slices.Clone(missing)
			for i := range r.Missing {
				r.Missing[i].Reason = head(missing[i].Reason, k)
			}
		}, "reasons of missing facts cut"},
		cut{maxFact, 16, func(k int) {
			for name, v := range facts {
				r.Provenance[name] = head(v, k)
			}
		}, "provenance cut"},
		cut{len(facts), 0, func(k int) {
			r.Provenance = map[string]string{}
			for _, name := range slices.Sorted(maps.Keys(facts))[:k] {
				r.Provenance[name] = head(facts[name], 16)
			}
		}, "provenance left out"},
		cut{len(warnings), 1, func(k int) {
			r.Warnings = slices.Clone(warnings[:k])
			for i := range r.Warnings {
				r.Warnings[i].Text, r.Warnings[i].Hint = head(warnings[i].Text, 60), ""
			}
		}, fmt.Sprintf("only the first of %d warnings are listed", len(warnings))},
	)
}

// head returns the first n bytes of s at most, in whole characters.
func head(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	n = max(n-len("…"), 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// tail returns the last n bytes of s at most, in whole characters.
func tail(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	i := min(len(s)-n+len("…"), len(s))
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return "…" + s[i:]
}
