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

// Key is an API key. It can be sent and nothing else: printed in any way, and as JSON, it is the word (hidden).
type Key struct{ secret string }

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
	return Key{text}, nil
}

// Authorize adds the key to a request; an empty one adds nothing.
func (k Key) Authorize(r *http.Request) {
	if k.secret != "" {
		r.Header.Set("Authorization", "Bearer "+k.secret)
	}
}

// Redact takes the key out of a text, such as an answer that quotes the request.
func (k Key) Redact(text string) string {
	if k.secret == "" {
		return text
	}
	return strings.ReplaceAll(text, k.secret, hidden)
}

func (k Key) String() string {
	if k.secret == "" {
		return ""
	}
	return hidden
}

// Format hides the key from every verb, %#v and %x as well.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// MarshalText hides the key in JSON and wherever texts are written.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
