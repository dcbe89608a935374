package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The end of a log is read without the log, however large that is.
func TestTail(t *testing.T) {
	t.Parallel()
	const large = 1 << 43
	for _, c := range []struct {
		size       int64 // of zeros before the text
		text, want string
	}{
		{0, "", ""},
		{0, "one\ntwo", "one\ntwo"},
		{large, "\none\ntwo\n", "one\ntwo\n"},
		{0, "x" + strings.Repeat("y", tailBytes), strings.Repeat("y", tailBytes)},
		{0, strings.Repeat("y\n", tailBytes), strings.Repeat("y\n", tailBytes/2-1)},
	} {
		path := filepath.Join(t.TempDir(), "it's a log")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(c.text), c.size); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if got := (&Server{log: path}).tail(); got != c.want {
			t.Errorf("of %d bytes and %.20q: %.60q", c.size, c.text, got)
		}
	}
	if got := (&Server{log: filepath.Join(t.TempDir(), "none")}).tail(); got != "" {
		t.Errorf("%q", got)
	}
}
