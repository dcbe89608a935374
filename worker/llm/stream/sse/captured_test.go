package sse_test

import (
	"bytes"
	"os"
	"testing"

	"cpbench/worker/llm/stream/sse"
)

// TestCaptured splits streams as a vLLM 0.32.0 has sent them. The figures were counted in the files with grep.
func TestCaptured(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ comments, events, unterminated int }{
		"keep-alive":     {2, 5, 0},  // comments before the role frame, of a first token that was slow
		"cut-by-sigkill": {0, 77, 0}, // whole frames, and then no more
	} {
		raw, err := os.ReadFile("testdata/vllm/0.32.0/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		check := func(raw []byte, comments, events, unterminated int) {
			t.Helper()
			frames, err := sse.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			end := 0
			for _, f := range frames {
				switch {
				case f.Comment:
					comments--
				case f.Unterminated:
					unterminated--
				default:
					events--
				}
				if f.Begin < end || f.End <= f.Begin {
					t.Errorf("%s: frames overlap at %d", name, f.Begin)
				}
				if !f.Comment && !f.Unterminated && !bytes.Contains(raw[f.Begin:f.End], f.Data) {
					t.Errorf("%s: the data at %d is not that of the stream", name, f.Begin)
				}
				end = f.End
			}
			if comments != 0 || events != 0 || unterminated != 0 || end < len(raw)-1 { // a LF behind a last CR ends nothing more
				t.Errorf("%s: %d comments, %d events and %d unterminated ones too few, up to %d of %d", name, comments, events, unterminated, end, len(raw))
			}
		}
		check(raw, want.comments, want.events, want.unterminated)
		check(raw[:len(raw)-1], want.comments, want.events-1, 1) // without the end of the last blank line
		crlf := bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n"))
		check(crlf, want.comments, want.events, want.unterminated)
	}
}
