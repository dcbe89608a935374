package reference

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is the name of a fault.
type kind string

// The faults; the package comment says what they do.
const (
	oomRank     kind = "oom-rank"
	hangRank    kind = "hang-rank"
	crashRank   kind = "crash-rank"
	errorRank   kind = "error-rank"
	exitCode    kind = "exit"
	nanOutput   kind = "nan"
	garbage     kind = "garbage"
	grandchild  kind = "grandchild"
	slowStep    kind = "slow"
	ignoreTerm  kind = "ignore-term"
	nonMonotone kind = "non-monotone"
)

// The places of a fault. The last three are also the phases of a step.
const (
	atBuild   = "build"
	atPrepare = "prepare"
	atWarmup  = "warmup"
	atTimed   = "timed"
	atProbe   = "probe"
)

const everyRank = -1

// fault is one fault with its argument.
type fault struct {
	kind   kind
	rank   int // everyRank for all
	code   int
	delay  time.Duration
	lo, hi int64  // sizes
	place  string // empty: the default of its kind
}

// faults are those of one execution, as given to every rank. It is a flag.Value.
type faults []fault

// String returns the empty text: there is no default to print.
func (f *faults) String() string { return "" }

// Set adds a fault as it stands on the command line.
func (f *faults) Set(text string) error {
	body, place, suffixed := strings.Cut(text, "@")
	if suffixed && !slices.Contains([]string{atBuild, atPrepare, atWarmup, atTimed, atProbe}, place) {
		return fmt.Errorf("place %q: want build, prepare, warmup, timed or probe", place)
	}
	name, arg, given := strings.Cut(body, "=")
	one := fault{kind: kind(name), rank: everyRank, place: place}
	if err := one.parse(arg, given); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*f = append(*f, one)
	return nil
}

// parse reads the argument of a fault.
func (f *fault) parse(arg string, given bool) (err error) {
	switch f.kind {
	case oomRank, hangRank, crashRank, errorRank:
		f.rank, err = number(arg)
	case exitCode:
		rank, code, _ := strings.Cut(arg, ":")
		if f.rank, err = number(rank); err == nil {
			f.code, err = number(code)
		}
	case nanOutput, garbage, grandchild:
		if given {
			f.rank, err = number(arg)
		}
	case slowStep:
		f.delay, err = time.ParseDuration(arg)
	case ignoreTerm:
		if given {
			err = fmt.Errorf("takes no argument, not %q", arg)
		}
	case nonMonotone:
		first, last, both := strings.Cut(arg, ":")
		if !both {
			first, last = "1", arg
		}
		var lo, hi int
		if lo, err = number(first); err == nil {
			hi, err = number(last)
		}
		f.lo, f.hi = int64(lo), int64(hi)
	default:
		err = fmt.Errorf("no such fault")
	}
	return err
}

// number reads a rank, a size or an exit code.
func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("want a whole number, not %q", text)
	}
	return n, nil
}

// has reports whether the execution has a fault of this kind, on any rank.
func (f faults) has(k kind) bool {
	return slices.ContainsFunc(f, func(one fault) bool { return one.kind == k })
}

// happens reports whether f is due on a rank at a place; first tells the first step of a request.
func (f fault) happens(rank int, place string, first bool) bool {
	if f.rank != everyRank && f.rank != rank {
		return false
	}
	isStep := place != atBuild && place != atPrepare
	switch {
	case f.kind == slowStep || f.kind == nonMonotone:
		return f.place == place || f.place == "" && isStep
	case f.kind == ignoreTerm:
		return f.place == place || f.place == "" && place == atBuild
	case f.place != "":
		return f.place == place && first
	}
	return (place == atTimed || place == atProbe) && first
}
