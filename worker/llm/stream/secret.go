package stream

import "bytes"

// Secret gives the API key. As a function it prints as an address where a struct that holds it is printed, and as
// "(hidden)" everywhere else.
type Secret func() string

// NewSecret hides a key. The empty key is nil: no key.
func NewSecret(key string) Secret {
	if key == "" {
		return nil
	}
	return func() string { return key }
}

// String hides the key.
func (Secret) String() string { return "(hidden)" }

// GoString hides the key.
func (Secret) GoString() string { return "(hidden)" }

// MarshalText hides the key.
func (Secret) MarshalText() ([]byte, error) { return []byte("(hidden)"), nil }

// shortKey is the length below which a key is a word such as EMPTY or x and no secret; masked, it would break answers.
const shortKey = 8

// mask overwrites the key wherever a server has echoed it. The length stays, as offsets point into the text.
func (s Secret) mask(text []byte) {
	if s == nil {
		return
	}
	key := []byte(s())
	if len(key) < shortKey {
		return
	}
	for at := 0; ; {
		n := bytes.Index(text[at:], key)
		if n < 0 {
			return
		}
		copy(text[at+n:], bytes.Repeat([]byte{'*'}, len(key)))
		at += n + len(key)
	}
}
