package requestlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"cpbench/worker/llm/account"
)

// Name is the name of the file of the first process that writes into a log folder.
const Name = base + ".jsonl"

const base = "requests"

// name is the name of the file of a take.
func name(base string, take int) string {
	if take < 2 {
		return base + ".jsonl"
	}
	return fmt.Sprintf("%s-%d.jsonl", base, take)
}

// Create makes the file for the lines of one process in a log folder, and tells the take of their identities: 0, or from
// 2 on if another process has written there. No two processes ever write into one file.
func Create(dir string) (f *os.File, take int, err error) {
	for take = 1; ; take++ {
		f, err = os.OpenFile(filepath.Join(dir, name(base, take)), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o644)
		switch {
		case errors.Is(err, fs.ErrExist):
		case take == 1:
			return f, 0, err
		default:
			return f, take, err
		}
	}
}

// CreateTexts makes the file for the texts of a take, which nobody else can read.
func CreateTexts(dir string, take int) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name("texts", take)), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
}

// Files lists the request logs in a log folder, by take. A folder without any, or none at all, gives none.
func Files(dir string) []string {
	var files []string
	for take := 1; ; take++ {
		path := filepath.Join(dir, name(base, take))
		if _, err := os.Stat(path); err != nil {
			return files
		}
		files = append(files, path)
	}
}

// line is a line of the file with what every line has.
type line struct {
	Identity
	raw    []byte // without its end
	number int    // from 1
}

// scan reads the lines of a file one by one. What is no line of ours is a problem and costs nothing else. An error is one
// of reading.
func scan(path string, each func(line)) ([]Problem, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	return scanFrom(f, path, each)
}

func scanFrom(in io.Reader, path string, each func(line)) ([]Problem, error) {
	var problems []Problem
	r := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		raw, err := r.ReadBytes('\n') // the log of a stream is one line, of hundreds of kilobytes
		if err != nil && !errors.Is(err, io.EOF) {
			return problems, err
		}
		if err != nil && len(raw) == 0 {
			return problems, nil
		}
		l := line{raw: bytes.TrimSuffix(raw, []byte("\n")), number: n}
		bad := json.Unmarshal(l.raw, &l.Identity)
		switch {
		case err != nil:
			problems = append(problems, Problem{path, n, torn})
		case bad != nil:
			problems = append(problems, Problem{path, n, noLine + ": " + bad.Error()})
		case l.Schema > Schema:
			problems = append(problems, Problem{path, n, newer("the line", l.Schema, Schema)})
		default:
			each(l)
		}
		if err != nil {
			return problems, nil
		}
	}
}

// What is said of lines.
const noLine = "no line of a request log"

const torn = "the last line is cut off: the process that wrote it ended in the midst of it"

func newer(what string, theirs, ours int) string {
	return fmt.Sprintf("%s has schema %d, and this cpbench reads %d: it was written by a newer version, which can read it", what, theirs, ours)
}

// Read reads a request log. Groups stand in the order of their summaries; requests whose summary never came are a
// problem.
func Read(path string) ([]Group, []Problem, error) {
	r := &reader{path: path, waiting: map[string][]Request{}}
	problems, err := scan(path, r.take)
	for _, key := range r.order {
		if rs := r.waiting[key]; len(rs) > 0 {
			r.problem(rs[0].Line, "%d streams have no summary of their group, so they are left out", len(rs))
			delete(r.waiting, key)
		}
	}
	return r.groups, append(problems, r.problems...), err
}

// reader puts lines together.
type reader struct {
	path     string
	groups   []Group
	problems []Problem
	waiting  map[string][]Request // streams whose group has not ended, by its key
	order    []string             // of those keys
}

func (r *reader) problem(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.path, line, fmt.Sprintf(format, args...)})
}

func (r *reader) take(l line) {
	switch l.Kind {
	case OfRequest:
		r.request(l)
	case OfGroup:
		r.group(l)
	case Preflight, Warmup, OfText:
	}
}

func (r *reader) request(l line) {
	q := Request{Line: l.number}
	switch err := json.Unmarshal(l.raw, &q); {
	case err != nil:
		r.problem(l.number, "%s: %v", noLine, err)
	case q.Facts.Schema > account.Schema:
		r.problem(l.number, "%s", newer("the request", q.Facts.Schema, account.Schema))
	default:
		r.order = append(r.order, l.key())
		r.waiting[l.key()] = append(r.waiting[l.key()], q)
	}
}

func (r *reader) group(l line) {
	g := Group{File: r.path, Line: l.number, Requests: r.waiting[l.key()]}
	delete(r.waiting, l.key())
	switch err := json.Unmarshal(l.raw, &g); {
	case err != nil:
		r.problem(l.number, "%s: %v", noLine, err)
	case g.Sum.Streams != len(g.Requests):
		r.problem(l.number, "the group has %d streams, and %d lines of them can be read: it is left out", g.Sum.Streams, len(g.Requests))
	default:
		r.groups = append(r.groups, g)
	}
}
