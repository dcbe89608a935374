package dialect

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

const hidden = "(hidden)"

// Key is an API key. It can be sent and nothing else: printed in any way, and as JSON, it is the word (hidden). It
// holds a function, because printing a struct whose field is not exported does not ask the field's own methods.
type Key struct{ secret func() string }

// NewKey hides a text; the empty one is no key.
func NewKey(text string) Key {
	if text == "" {
		return Key{}
	}
	return Key{func() string { return text }}
}

// KeyFromEnv takes the key from an environment variable; the spec names the variable and never holds the key.
func KeyFromEnv(name string) (Key, error) {
	text, ok := os.LookupEnv(name)
	if !ok {
		return Key{}, fmt.Errorf("the API key: the environment variable %s is not set", name)
	}
	return newKey(text, "the environment variable "+name)
}

// KeyFromFile takes the key from a file, whose only line it is.
func KeyFromFile(path string) (Key, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Key{}, fmt.Errorf("the API key: %w", err)
	}
	return newKey(string(data), path)
}

func newKey(text, from string) (Key, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Key{}, fmt.Errorf("the API key: %s is empty", from)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Key{}, errors.New("the API key: " + from + " holds more than one word of plain characters")
	}
	return NewKey(text), nil
}

// Authorize adds the key to a request; an empty one adds nothing.
func (k Key) Authorize(r *http.Request) {
	if k.secret != nil {
		r.Header.Set("Authorization", "Bearer "+k.secret())
	}
}

// Reveal is the key itself, for whoever sends it and never for a text.
func (k Key) Reveal() string {
	if k.secret == nil {
		return ""
	}
	return k.secret()
}

// shortKey is the length below which a key is a word such as EMPTY and no secret; taken out, it would break texts.
const shortKey = 8

// Redact takes the key out of a text, such as an answer that quotes the request.
func (k Key) Redact(text string) string {
	key := k.Reveal()
	if len(key) < shortKey {
		return text
	}
	return strings.ReplaceAll(text, key, hidden)
}

func (k Key) String() string {
	if k.secret == nil {
		return ""
	}
	return hidden
}

// Format hides the key from every verb, %#v and %x as well.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// MarshalText hides the key in JSON and wherever texts are written.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
