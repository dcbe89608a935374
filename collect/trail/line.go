package trail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// section keeps the lines of a program's log that belong to the point: a task's points share its ranks' logs, and before
// each execution stands its title.
func (t *Trail) section(path string) func([]byte) []byte {
	return func(line []byte) []byte {
		if m := title.FindSubmatch(line); m != nil {
			t.at(path).other = string(m[1]) != t.of.ID || string(m[2]) != strconv.Itoa(t.of.Repeat)
		}
		if t.at(path).other {
			return nil
		}
		return whole(line)
	}
}

// title is the line before the output of an execution.
var title = regexp.MustCompile(`^== point (\S+) repeat ([0-9]+)\b`)

// whole keeps a line as it is.
func whole(line []byte) []byte { return line[:len(line):len(line)] }

// labelled keeps the lines of one rank of a log that srun labels, and lines of nobody in particular.
func labelled(rank string, keep func([]byte) []byte) func([]byte) []byte {
	return func(line []byte) []byte {
		if m := label.FindSubmatch(line); m != nil && string(m[1]) != rank {
			return nil
		}
		return keep(line)
	}
}

// label is what srun puts before a line of a rank.
var label = regexp.MustCompile(`^ *([0-9]+): `)

// eventText writes a line of the worker's log for people: time, words, and what belongs to them. A line about another
// point or repeat of the task is left out.
func (t *Trail) eventText(line []byte) []byte {
	fields, ok := parseEvent(line)
	if !ok {
		return whole(line)
	}
	at, level, words, rest := "", "", "", ""
	for _, f := range fields {
		switch {
		case f.key == "point" || f.key == "repeat":
			if mine := map[string]string{"point": t.of.ID, "repeat": strconv.Itoa(t.of.Repeat)}; f.value != mine[f.key] {
				return nil
			}
		case f.key == "what" && t.isOther(f.value):
			return nil
		case f.key == "time":
			at = shortTime(f.value)
		case f.key == "level" && f.value == "INFO":
		case f.key == "level":
			level = f.value + " "
		case f.key == "msg":
			words = f.value
		case f.value == "": // nothing to say
		case strings.ContainsAny(f.value, " \"\n"):
			rest += " " + f.key + "=" + strconv.Quote(f.value)
		default:
			rest += " " + f.key + "=" + f.value
		}
	}
	return []byte(at + " " + level + words + rest)
}

// executionName is a point and a repeat in the worker's words.
var executionName = regexp.MustCompile(`\b([0-9a-f]{16})(?:-r| repeat )([0-9]+)\b`)

// isOther reports whether the worker's words name an execution that is not the one in question.
func (t *Trail) isOther(words string) bool {
	m := executionName.FindStringSubmatch(words)
	return m != nil && (m[1] != t.of.ID || m[2] != strconv.Itoa(t.of.Repeat))
}

// field is a key of a line of the worker's log with the text of its value.
type field struct{ key, value string }

// parseEvent reads a line of JSON with its keys in their order.
func parseEvent(line []byte) ([]field, bool) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, false
	}
	var fields []field
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var value any
		if dec.Decode(&value) != nil {
			return nil, false
		}
		fields = append(fields, field{fmt.Sprint(key), fmt.Sprint(value)})
	}
	return fields, true
}

// shortTime is a time in UTC without the parts of its second.
func shortTime(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return at.UTC().Format(time.RFC3339)
}
