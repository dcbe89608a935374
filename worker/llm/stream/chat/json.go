package chat

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// The walk below takes JSON that is known to be valid, and finds the few members that matter without building the rest.
// A field of another kind than expected reads as absent: it must not cost the frame.

// members calls f for each member of an object, with the name as it is written, without its quotes. Anything else has
// none.
func members(raw []byte, f func(name, value []byte)) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	for at := next(raw, 1); at < len(raw) && raw[at] == '"'; {
		end := valueEnd(raw, at)
		name := raw[at+1 : end-1]
		at = next(raw, end) // the colon
		at = next(raw, at+1)
		end = valueEnd(raw, at)
		f(name, raw[at:end])
		at = next(raw, end)
		if at < len(raw) && raw[at] == ',' {
			at = next(raw, at+1)
		}
	}
}

// elements calls f for each element of a list. Anything else has none.
func elements(raw []byte, f func(value []byte)) {
	if len(raw) == 0 || raw[0] != '[' {
		return
	}
	for at := next(raw, 1); at < len(raw) && raw[at] != ']'; {
		end := valueEnd(raw, at)
		f(raw[at:end])
		at = next(raw, end)
		if at < len(raw) && raw[at] == ',' {
			at = next(raw, at+1)
		}
	}
}

// next skips white space.
func next(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\t' || raw[at] == '\r') {
		at++
	}
	return at
}

// valueEnd is the offset behind the value that begins at an offset.
func valueEnd(raw []byte, at int) int {
	depth := 0
	for at < len(raw) {
		switch raw[at] {
		case '"':
			at = stringEnd(raw, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\n', '\t', '\r':
			at++
			continue
		default:
			for at < len(raw) && bytes.IndexByte([]byte(",:]} \n\t\r"), raw[at]) < 0 {
				at++
			}
		}
		if depth == 0 {
			return at
		}
	}
	return len(raw)
}

// stringEnd is the offset behind the string that begins at an offset.
func stringEnd(raw []byte, at int) int {
	for at++; at < len(raw); at++ {
		switch raw[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(raw)
}

// text is a string, or a list of parts with a text, as some servers write content.
func text(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		inside := raw[1 : len(raw)-1]
		if bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
			return string(inside)
		}
		var s string
		_ = json.Unmarshal(raw, &s) // valid JSON, and a string
		return s
	case '[':
		var all string
		elements(raw, func(part []byte) {
			members(part, func(name, value []byte) {
				if string(name) == "text" {
					all += text(value)
				}
			})
		})
		return all
	}
	return ""
}

// number is a whole number; nil for anything else.
func number(raw []byte) *int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// call is the text of a tool call, or of a piece of one: the function's name and its arguments.
func call(raw []byte) string {
	var name, arguments, function string
	members(raw, func(field, value []byte) {
		switch string(field) {
		case "function":
			function = call(value)
		case "name":
			name = text(value)
		case "arguments":
			arguments = text(value)
		}
	})
	return function + name + arguments
}

// calls is the text of a list of tool calls, or of a single one, as older TGI writes it.
func calls(raw []byte) string {
	var all string
	elements(raw, func(value []byte) { all += call(value) })
	return all + call(raw)
}

// numbers gathers the numeric members of some objects; nil if there are none.
func numbers(objects ...[]byte) map[string]float64 {
	var out map[string]float64
	for _, raw := range objects {
		members(raw, func(name, value []byte) {
			v, err := strconv.ParseFloat(string(value), 64)
			if err != nil {
				return
			}
			if out == nil {
				out = map[string]float64{}
			}
			out[string(name)] = v
		})
	}
	return out
}
