package ranks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	mostRanks  = 16 // that a line of evidence names
	mostPlaces = 8  // lines about places
)

// place is where ranks stand, as far as they have told.
type place struct {
	where  string
	done   int // steps of the current request; -1: not told
	silent bool
}

// crowd is the ranks at one place.
type crowd struct {
	place
	ranks []int
	since time.Duration // for which all of them have been there
	quiet time.Duration // for which all of them have been silent
}

// positions says of every rank that has not answered where it stood and since when: the odd one last, because its peers
// usually wait for it, and the end of the evidence is what a table has room for.
func (v *vigil) positions() string {
	var missing []int
	crowds := map[place]*crowd{}
	for i, r := range v.ranks {
		if v.answered[i] {
			continue
		}
		missing = append(missing, i)
		if !r.beats {
			continue
		}
		since, quiet := time.Since(r.there), time.Since(r.heard)
		at := place{r.where, -1, v.heartbeat > 0 && quiet > v.heartbeat/2}
		if r.done != nil {
			at.done = *r.done
		}
		c, ok := crowds[at]
		if !ok {
			c = &crowd{place: at, since: since, quiet: quiet}
			crowds[at] = c
		}
		c.ranks, c.since, c.quiet = append(c.ranks, i), min(c.since, since), min(c.quiet, quiet)
	}
	var list []*crowd
	for _, c := range crowds {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *crowd) int {
		return cmp.Or(len(b.ranks)-len(a.ranks), a.ranks[0]-b.ranks[0])
	})
	lines := []string{"no answer yet from " + names(missing)}
	for _, c := range list[max(0, len(list)-mostPlaces):] {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}

func (c *crowd) String() string {
	text := fmt.Sprintf("%s: for %v", names(c.ranks), round(c.since))
	if c.where != "" {
		text += " in " + c.where
	}
	switch {
	case c.done == 1:
		text += ", 1 step done"
	case c.done >= 0:
		text += fmt.Sprintf(", %d steps done", c.done)
	}
	if c.silent {
		text += fmt.Sprintf(", silent for %v", round(c.quiet))
	}
	return text
}

func names(list []int) string {
	var texts []string
	for _, i := range list[:min(len(list), mostRanks)] {
		texts = append(texts, fmt.Sprint(i))
	}
	if n := len(list) - mostRanks; n > 0 {
		texts = append(texts, fmt.Sprintf("%d more", n))
	}
	return "rank " + strings.Join(texts, ", ")
}

// round leaves what a person reads of a duration.
func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(10 * time.Millisecond)
}
