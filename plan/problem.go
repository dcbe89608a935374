package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/go-multierror"
)

// Pos is a place in the spec, counted from 1. The zero value is unknown.
type Pos struct{ Line, Col int }

// Problem is one mistake in a spec: where it stands, what it is, and what to write instead.
type Problem struct {
	File string
	Pos  Pos
	Text string
	Hint string
}

func (p *Problem) Error() string {
	if p.Pos.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Pos.Line, p.Pos.Col, p.Text)
}

// problems collects the mistakes of one spec, so that all are told at once.
type problems struct {
	file string
	pos  map[string]Pos
	bad  map[string]bool // values that could not be decoded
	errs *multierror.Error
}

// at adds a mistake at the value with the given path, or at the nearest path above it that has a place.
func (ps *problems) at(path, hint, format string, args ...any) {
	pos, p := Pos{}, path
	for {
		var ok bool
		if pos, ok = ps.pos[p]; ok {
			break
		}
		cut := strings.LastIndexAny(p, ".[")
		if cut < 0 {
			break
		}
		p = p[:cut]
	}
	ps.add(pos, hint, format, args...)
}

func (ps *problems) add(pos Pos, hint, format string, args ...any) {
	ps.errs = multierror.Append(ps.errs, &Problem{ps.file, pos, fmt.Sprintf(format, args...), hint})
}

// count is the number of mistakes so far.
func (ps *problems) count() int {
	if ps.errs == nil {
		return 0
	}
	return len(ps.errs.Errors)
}

// err returns all mistakes as one error, in the order of the file, or nil.
func (ps *problems) err() error {
	if ps.errs == nil {
		return nil
	}
	slices.SortStableFunc(ps.errs.Errors, func(a, b error) int {
		p, q := a.(*Problem).Pos, b.(*Problem).Pos //nolint:errorlint // add is the only writer
		return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col))
	})
	ps.errs.ErrorFormat = func(errs []error) string {
		lines := make([]string, len(errs))
		for i, e := range errs {
			lines[i] = e.Error()
		}
		return strings.Join(lines, "\n")
	}
	return ps.errs.ErrorOrNil()
}

// nearest returns the choice that is most like word, or "" if none is like it.
func nearest(word string, choices []string) string {
	best, score := "", 0.55
	for _, c := range choices {
		if s := levenshtein.Similarity(word, c, nil); s > score {
			best, score = c, s
		}
	}
	return best
}

// didYouMean makes a hint for an unknown word.
func didYouMean(word string, choices []string) string {
	if n := nearest(word, choices); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return "choose from " + strings.Join(choices, ", ")
}
