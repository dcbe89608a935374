// Package refusal puts what sbatch says when it takes no job into the words of a spec: what it means, the site's real
// limit, and what to type. Use it where a person has to be told why a submission failed.
package refusal

import (
	"context"
	"strings"

	"cpbench/slurm"
	"cpbench/slurm/site"
)

// Explanation is what a refusal means. Advice are the things to do, most promising first.
type Explanation struct {
	Meaning string
	Advice  []string
}

// Lines are the meaning and the advice, for hints of one line each.
func (e Explanation) Lines() []string { return append([]string{e.Meaning}, e.Advice...) }

// Explain explains the error of slurm.Slurm's Submit or TestOnly for a job, and asks the site for what it allows, which
// takes up to six calls of Slurm's commands. It reports false for an error that does not come from Slurm or whose text
// is not known; that text then speaks for itself.
func Explain(ctx context.Context, s *slurm.Slurm, err error, job slurm.Job) (Explanation, bool) {
	said := slurm.Words(err)
	if said == "" {
		return Explanation{}, false
	}
	return explain(said, func() *site.Site { return site.Ask(ctx, s) }, site.RequestOf(job))
}

// explain finds the row of the text. The site is asked only if there is one.
func explain(said string, ask func() *site.Site, r site.Request) (Explanation, bool) {
	for _, row := range table {
		if !containsAny(said, row.texts) {
			continue
		}
		e := Explanation{Meaning: row.meaning}
		if row.keys == nil && row.advice == nil {
			e.Advice = row.general
			return e, true
		}
		where := ask()
		for _, f := range where.Check(r) {
			if containsAny(f.Key, row.keys) {
				e.Advice = append(e.Advice, f.Key+": "+f.Text+"; "+f.Advice)
			}
		}
		if len(e.Advice) == 0 && row.advice != nil {
			e.Advice = append(e.Advice, row.advice(where, r)...)
		}
		e.Advice = append(e.Advice, row.general...)
		return e, true
	}
	return Explanation{}, false
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
