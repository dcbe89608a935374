package result

import (
	"bytes"
	"encoding/json"
	"iter"
	"reflect"
	"strings"
)

// fields yields the names, as JSON strings, and the texts of the fields of a JSON object that the decoder has accepted,
// without looking into the values. Decoding them a second time would double the cost of reading 100,000 results.
func fields(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := 0; ; {
			quote := bytes.IndexByte(object[i:], '"') // between fields are only blanks, a comma or the end
			if quote < 0 {
				return
			}
			i += quote
			name := object[i:stringEnd(object, i)]
			i += len(name)
			i += bytes.IndexByte(object[i:], ':') + 1
			end := valueEnd(object, i)
			if !yield(name, object[i:end]) {
				return
			}
			i = end
		}
	}
}

// valueEnd returns the index of the comma or bracket behind the value that begins at i.
func valueEnd(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// stringEnd returns the index behind the string that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// fieldNames are the names of the fields of Result in a file.
var fieldNames = names()

func names() map[string]bool {
	m := map[string]bool{}
	t := reflect.TypeFor[Result]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			m[name] = true
		}
	}
	return m
}

// unknownName returns the name of a field, given as a JSON string, that the decoder has not put into Result. It
// ignores case, so this does as well.
func unknownName(quoted []byte) (string, bool) {
	if fieldNames[string(quoted[1:len(quoted)-1])] {
		return "", false // nearly always
	}
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		return "", false
	}
	for k := range fieldNames {
		if strings.EqualFold(k, name) {
			return "", false
		}
	}
	return name, true
}
