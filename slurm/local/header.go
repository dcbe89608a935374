package local

import (
	"bytes"
	"fmt"
	"strings"
)

// Header is what a script's #SBATCH lines say, as far as this machine obeys them. The others ask a scheduler for things
// that are not to be had here, and count for nothing.
type Header struct {
	Name       string // --job-name, or empty
	Indices    []int  // of --array, rising, each once; nil for a plain job
	Throttle   int    // the N of --array=...%N: tasks at the same time; 0 is no limit
	Output     string // --output with its patterns, or empty
	AppendMode bool   // --open-mode=append instead of truncate
}

// ParseHeader reads the #SBATCH lines of a script in their long and short spellings; later lines win. Like sbatch it
// stops at the first line that is neither blank nor a comment. It fails on an unmatched quote, on a value that is
// missing, and with ErrArraySpec on an --array that Slurm would not take.
func ParseHeader(script []byte) (Header, error) {
	var h Header
	number := 0
	for line := range bytes.Lines(script) {
		number++
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 && trimmed[0] != '#' {
			break
		}
		rest, found := bytes.CutPrefix(line, []byte("#SBATCH"))
		if !found {
			continue
		}
		list, err := words(string(rest))
		if err == nil {
			err = h.set(list)
		}
		if err != nil {
			return Header{}, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return h, nil
}

// options are the spellings of what Header keeps.
var options = []struct{ long, short string }{
	{"--array", "-a"}, {"--job-name", "-J"}, {"--output", "-o"}, {"--open-mode", ""}, // which has no short one
}

// set takes the words of one line.
func (h *Header) set(list []string) error {
	for len(list) > 0 {
		name, value, apart := match(list[0])
		list = list[1:]
		if apart {
			if len(list) == 0 {
				return fmt.Errorf("option %s requires an argument", name)
			}
			value, list = list[0], list[1:]
		}
		if name == "" {
			continue
		}
		if err := h.option(name, value); err != nil {
			return err
		}
	}
	return nil
}

// match finds the option that a word sets, and its value unless that stands apart in the next word.
func match(word string) (name, value string, apart bool) {
	for _, option := range options {
		if word == option.long || word == option.short {
			return option.long, "", true
		}
		if value, found := strings.CutPrefix(word, option.long+"="); found {
			return option.long, value, false
		}
		value, found := strings.CutPrefix(word, option.short)
		if found && option.short != "" {
			return option.long, value, false
		}
	}
	return "", "", false
}

func (h *Header) option(name, value string) error {
	var err error
	switch name {
	case "--array":
		h.Indices, h.Throttle, err = parseArraySpec(value)
	case "--job-name":
		h.Name = value
	case "--output":
		h.Output = value
	case "--open-mode":
		switch value {
		case "append", "a":
			h.AppendMode = true
		case "truncate", "t":
			h.AppendMode = false
		default:
			err = fmt.Errorf("--open-mode: %q is neither append nor truncate", value)
		}
	}
	return err
}
