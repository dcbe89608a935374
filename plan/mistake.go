package plan

import (
	"cmp"
	"slices"

	"github.com/agext/levenshtein"
)

// ByLikeness returns a copy of choices with those first that are most like word, for a message about a name that is
// not known. Equally like ones keep their order.
func ByLikeness(word string, choices []string) []string {
	sorted := slices.Clone(choices)
	slices.SortStableFunc(sorted, func(a, b string) int {
		return cmp.Compare(levenshtein.Similarity(word, b, nil), levenshtein.Similarity(word, a, nil))
	})
	return sorted
}

// Mistake is a Problem at the place of the key path, such as resources.time, or at the nearest place above it. Use it
// for what only the world outside of the spec can tell. The place is known of a spec that comes from Load.
func (s *Spec) Mistake(path, text, hint string) error {
	ps := problems{file: s.file, pos: s.pos}
	ps.at(path, hint, "%s: %s", path, text)
	return ps.errs.Errors[0]
}
