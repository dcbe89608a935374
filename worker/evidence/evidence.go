// Package evidence says what a text, an exit and the kernel's counters tell about how a program ended. Use it on the
// output of a program that failed, or whose file is missing: a run that ended well may have met an out-of-memory that
// it recovered from.
//
// The texts are one table (texts.go). What no row explains stays unexplained: unknown never means that a size does
// not fit.
package evidence

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cpbench/plan/catalogue"
)

// Finding is what a text says about the end of a program.
type Finding struct {
	Outcome  catalogue.Outcome
	Fragment string  // the part of the text that decided, a line of it at most
	Raised   bool    // the fragment is a raised exception, not a line that the program merely wrote
	Memory   *Memory // nil: the text has no such numbers
	Note     string  // for people; empty when the outcome says all
}

// Classify finds what explains the failure of the program that wrote text. The last match counts, but a text that is
// usually the consequence of another rank's failure gives way to one about memory. A match is dropped if the same
// rank went on and raised another exception afterwards: it had recovered. The result is false if nothing explains
// the failure.
//
// Numbers in the text are checked: a request of 2^50 bytes or more is garbage (`error`); one that is not above the
// free memory is only a suspicion, unless unused reserved memory would have held it too, which is fragmentation.
func Classify(text string) (Finding, bool) {
	story := readStory(text)
	var best *match
	for i := range texts {
		r := &texts[i]
		for _, at := range slices.Backward(r.find(text)) {
			if m := (&match{r, at[0], at[1]}); !story.recovered(m) {
				if m.beats(best) {
					best = m
				}
				break // earlier ones of this row explain less
			}
		}
	}
	if best == nil {
		return Finding{}, false
	}
	f := Finding{Outcome: best.row.outcome, Note: best.row.note}
	f.Fragment, f.Raised = quote(text, best.start, best.end)
	if best.row.pressure && shortOfMemory(text[:best.start]) {
		f.Outcome, f.Note = catalogue.OOMSuspect, "memory was short before"
	}
	f.judge(text[best.start:])
	return f, true
}

// match is a place where a row matches.
type match struct {
	row        *row
	start, end int
}

// beats reports whether m explains more than o.
func (m *match) beats(o *match) bool {
	switch {
	case o == nil:
		return true
	case m.row.consequence != o.row.consequence:
		return o.row.consequence
	case m.row.pressure && o.row.outcome == catalogue.OOMSuspect, o.row.pressure && m.row.outcome == catalogue.OOMSuspect:
		// After an illegal access every call fails, with all sorts of texts.
		return m.start < o.start
	}
	return m.end > o.end || m.end == o.end && m.start < o.start
}

// shortOfMemory reports whether a text before a failure speaks of device memory.
func shortOfMemory(text string) bool {
	for i := range texts {
		if r := &texts[i]; (r.outcome == catalogue.OOMDevice || r.outcome == catalogue.OOMComm) && r.pattern.MatchString(text) {
			return true
		}
	}
	return false
}

// header is a line with which a program tells the exception that ended it: a dotted name that ends like one, alone or
// with its text. torch puts the rank before it, such as "[rank3]: ".
var header = regexp.MustCompile(`(?m)^[ \t]*(\[rank\d+\]:?[ \t]*)?(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit)(?::.*)?\r?$`)

// hearsay marks exceptions that only tell of another failure: of the launcher, and of a peer that went away.
var hearsay = regexp.MustCompile(`(?i)ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException|BrokenProcessPool|DistBackendError|DistNetworkError|SystemExit|KeyboardInterrupt|` +
	`connection closed by peer|connection reset by peer|broken pipe|went away|remote process exited|ncclRemoteError|ncclSystemError`)

// chained stands between the exceptions of one failure.
var chained = regexp.MustCompile(`During handling of the above exception|The above exception was the direct cause`)

// rankPrefix is what torch puts before the lines of a rank.
var rankPrefix = regexp.MustCompile(`^[ \t]*(\[rank\d+\]:?)`)

// story is where in a text something was raised, in order.
type story struct {
	text   string
	raised map[string][]int // starts of the exceptions by rank prefix
	chains []int
}

func readStory(text string) story {
	s := story{text: text, raised: map[string][]int{}}
	for _, at := range header.FindAllStringSubmatchIndex(text, -1) {
		if hearsay.MatchString(text[at[0]:at[1]]) {
			continue
		}
		rank := ""
		if at[2] >= 0 {
			rank = strings.TrimSpace(text[at[2]:at[3]])
		}
		s.raised[rank] = append(s.raised[rank], at[0])
	}
	for _, at := range chained.FindAllStringIndex(text, -1) {
		s.chains = append(s.chains, at[0])
	}
	return s
}

// recovered reports whether the rank of a match raised something else later, which is no part of the same failure:
// then the match did not end it. What the scheduler says does not come from a rank, and nothing recovers from an
// illegal access.
func (s story) recovered(m *match) bool {
	if m.row.outside || m.row.pressure {
		return false
	}
	rank := ""
	if at := rankPrefix.FindStringSubmatch(s.text[strings.LastIndexByte(s.text[:m.start], '\n')+1 : m.start]); at != nil {
		rank = at[1]
	}
	later := s.raised[rank]
	i, _ := slices.BinarySearch(later, m.end)
	if i == len(later) {
		return false
	}
	j, _ := slices.BinarySearch(s.chains, m.end)
	return j == len(s.chains) || s.chains[j] > later[i]
}

// quoteBytes is the largest part of a text that is quoted, and quoteBefore how much of it may stand before the match.
const (
	quoteBytes  = 600
	quoteBefore = 160
)

// quote widens a match to its line, within bounds, and reports whether that line tells an exception.
func quote(text string, start, end int) (string, bool) {
	from := strings.LastIndexByte(text[:start], '\n') + 1
	raised := false
	if at := header.FindStringIndex(lineOf(text, from)); at != nil && at[0] == 0 {
		raised = true
	}
	if start-from > quoteBefore {
		from = start
	}
	to := len(text)
	if n := strings.IndexByte(text[end:], '\n'); n >= 0 {
		to = end + n
	}
	if to-from > quoteBytes {
		for to = max(from+quoteBytes, end); to < len(text) && to > end && !utf8.RuneStart(text[to]); to-- {
		}
	}
	return strings.TrimSpace(text[from:to]), raised
}

// lineOf is the line that begins at from.
func lineOf(text string, from int) string {
	line, _, _ := strings.Cut(text[from:], "\n")
	return line
}

// killed is how launchers, shells and pools say that a process was ended by SIGKILL.
var killed = regexp.MustCompile(`(?im)exitcode\s*:\s*-9\b|\bsignal 9\b|\bSIGKILL\b|\bkilled by signal: killed\b|(?:^|: )killed[ \t\r]*$|line \d+: +\d+ killed\b`)

// Killed finds the words with which a launcher or a shell says that a process was ended by SIGKILL. Only a witness
// (Delta) makes that an out-of-memory.
func Killed(text string) (fragment string, ok bool) {
	all := killed.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return "", false
	}
	last := all[len(all)-1]
	fragment, _ = quote(text, last[0], last[1])
	return fragment, true
}
