package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Reasons why a file is not taken for a result; errors of Read and Decode wrap one of them.
var (
	ErrCut     = errors.New("cut off")
	ErrForeign = errors.New("not a result file")
	ErrNewer   = errors.New("newer than this cpbench")
)

// ParseName is the inverse of Name, with or without an ending. It reports false for any other file.
func ParseName(name string) (point string, repeat, attempt, restart int, ok bool) {
	name = strings.TrimSuffix(strings.TrimSuffix(name, SamplesExt), Ext)
	rest, restartText, ok1 := cutLast(name, ".")
	rest, attemptText, ok2 := cutLast(rest, "-a")
	point, repeatText, ok3 := cutLast(rest, "-r")
	if !ok1 || !ok2 || !ok3 || !validID(point) {
		return "", 0, 0, 0, false
	}
	var err1, err2, err3 error
	restart, err1 = strconv.Atoi(restartText)
	attempt, err2 = strconv.Atoi(attemptText)
	repeat, err3 = strconv.Atoi(repeatText)
	// The comparison refuses what Atoi takes and Name never writes: signs and leading zeros.
	if errors.Join(err1, err2, err3) != nil || repeat < 1 || attempt < 1 || restart < 0 || Name(point, repeat, attempt, restart) != name {
		return "", 0, 0, 0, false
	}
	return point, repeat, attempt, restart, true
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Read reads one result file and checks that its name tells the same attempt as its text. The error says whether
// the file was cut off, is no result, or is of a newer format. Fields that this version does not know are kept in
// Unknown.
func Read(path string) (*Result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	name := filepath.Base(path)
	if want := Name(r.Point, r.Repeat, r.Attempt, r.Restart) + Ext; name != want {
		return nil, fmt.Errorf("%s: %w: its text is that of %s", path, ErrForeign, want)
	}
	return r, nil
}

// Decode reads the text of one result file. See Read for its errors.
func Decode(data []byte) (*Result, error) {
	r := new(Result)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, explain(data, err)
	}
	switch {
	case r.Schema > Schema:
		return nil, newer(r.Schema)
	case r.Schema < 1 || !validID(r.Point) || r.Repeat < 1 || r.Attempt < 1 || r.Restart < 0 || r.Outcome == "":
		return nil, fmt.Errorf("%w: schema, point, repeat, attempt or outcome is missing", ErrForeign)
	}
	for quoted, value := range fields(data) {
		name, ok := unknownName(quoted)
		if !ok {
			continue
		}
		if r.Unknown == nil {
			r.Unknown = map[string]json.RawMessage{}
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return nil, explain(data, err)
		}
		r.Unknown[name] = compact.Bytes()
	}
	return r, nil
}

func newer(schema int) error { return fmt.Errorf("schema %d is %w", schema, ErrNewer) }

// explain says what is wrong with a text that is not a result: a file that was cut is told from one that never was
// a result, and a newer format is told from both, whatever else it changed.
func explain(data []byte, err error) error {
	var syntax *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return fmt.Errorf("%w: the file is empty", ErrCut)
	case errors.As(err, &syntax):
		// The decoder reads a stream: it tells a text that ended too early from a wrong one.
		var raw json.RawMessage
		if first := bytes.TrimSpace(data)[0]; first == '{' &&
			errors.Is(json.NewDecoder(bytes.NewReader(data)).Decode(&raw), io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w after %d bytes", ErrCut, len(data))
		}
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	var head struct {
		Schema int `json:"schema"`
	}
	if json.Unmarshal(data, &head) == nil && head.Schema > Schema {
		return newer(head.Schema)
	}
	return fmt.Errorf("%w: %w", ErrForeign, err)
}
