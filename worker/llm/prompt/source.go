package prompt

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// The names of the sources that cpbench has. Any other name is a user's file.
const (
	Legal = "legal" // court opinions and filings from the files in the data folder
	Synth = "synth" // records of fictional matters, made here
)

// Files says where the corpus lies.
type Files struct {
	Dir      string // folder of the corpus and of users' files with a relative name
	Opinions string // default opinions_cl.jsonl
	Filings  string // default filings_recap.jsonl
}

// Source is where texts come from. It is safe for concurrent use.
type Source struct {
	Name    string // legal, synth, or the user's file as named
	Builder string // name and version of what makes the texts
	Corpus  string // SHA-256 of the files; empty for synth

	document func(Key) *document          // nil for a user's file
	prompt   func(Key) ([]Message, error) // nil but for a user's file
	close    func() error
}

// Open opens a source by its name in the spec: legal, synth, or a JSONL file of prompts, whose lines have a field
// "prompt" with a text or a field "messages". A file that is missing or cannot be read is an error: nothing else is
// ever put in its place.
func Open(name string, files Files) (*Source, error) {
	switch {
	case name == Synth:
		return openSynth(), nil
	case name == Legal:
		return openLegal(files)
	case strings.HasSuffix(name, ".jsonl"):
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(files.Dir, path)
		}
		return openUser(name, path)
	}
	return nil, fmt.Errorf("unknown source of prompts %q; known are %s, %s and a file that ends in .jsonl", name, Legal, Synth)
}

// Fixed reports whether the prompts are sent as they are, so that they have no target size.
func (s *Source) Fixed() bool { return s.prompt != nil }

// Close closes the files of the source.
func (s *Source) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// ErrCorpusTooSmall is the error of a target that the real corpus cannot fill without using a text twice.
var ErrCorpusTooSmall = errors.New("the corpus is too small")

// document is a text that grows as far as it is needed. What was there stays: a shorter text is always a prefix of a
// longer one.
type document struct {
	next func() (string, error) // the next piece; empty at the end
	text []byte
	done bool
}

// reach grows the text to at least n bytes, if it can.
func (d *document) reach(n int) error {
	for len(d.text) < n && !d.done {
		piece, err := d.next()
		if err != nil {
			return err
		}
		d.done = piece == ""
		d.text = append(d.text, piece...)
	}
	return nil
}

// boundary is the last place at or before n where a character begins, or the end of the text.
func (d *document) boundary(n int) int {
	if n >= len(d.text) {
		return len(d.text)
	}
	for n > 0 && !utf8.RuneStart(d.text[n]) {
		n--
	}
	return n
}

// after is the next place after n where a character begins, or the end of the text.
func (d *document) after(n int) int {
	for n++; n < len(d.text) && !utf8.RuneStart(d.text[n]); n++ {
	}
	return min(n, len(d.text))
}
