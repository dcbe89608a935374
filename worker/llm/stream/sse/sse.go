// Package sse cuts the recorded bytes of an event stream into frames, after the stream has ended. It follows the
// WHATWG standard, with one difference: what stands after the last blank line is parsed as well, and marked. Use it on
// the bytes of a stream.Exchange; what a frame says is read by package chat.
package sse

import (
	"bytes"
	"errors"
	"fmt"
)

// MaxLine is the largest number of bytes in one line.
const MaxLine = 16 << 20

// ErrLine is the error of a line longer than MaxLine.
var ErrLine = errors.New("line of the stream is too long")

// Frame is one event or one comment of a stream.
type Frame struct {
	// Data is the text of the event: its data lines joined with LF. It may share memory with the stream. Of a comment
	// it is what stands after the colon.
	Data []byte
	// Event is the event's name, empty for the usual one.
	Event string
	// ID is the text of an id line of this event, empty if there was none.
	ID string
	// Begin and End are the offsets of the frame's first byte and of the one behind its last. The byte before End is
	// that which made the frame complete, so the read that brought it gives the frame's time.
	Begin, End int
	// Comment says that this is a line that begins with a colon. It is no event, but proves that the server lives.
	Comment bool
	// Unterminated says that the stream ended before the blank line that would have completed the event.
	Unterminated bool
}

// mark is the byte order mark that may stand at the start of a stream.
var mark = []byte("\xef\xbb\xbf")

// Parse returns the frames of a whole stream in order; a comment within an event comes before it. After a line of more
// than MaxLine bytes it gives up: the frames before it are returned with an error that wraps ErrLine.
func Parse(raw []byte) ([]Frame, error) {
	p := parser{frames: make([]Frame, 0, min(bytes.Count(raw, []byte("\n\n")), 1<<20))}
	at := 0
	if bytes.HasPrefix(raw, mark) {
		at = len(mark)
	}
	p.begin = at
	for at < len(raw) {
		line, next, ended := cutLine(raw, at)
		end := min(at+len(line)+1, len(raw)) // a CR completes the line, whatever read its LF comes with
		if len(line) > MaxLine {
			return p.frames, fmt.Errorf("%w: %d bytes, at most %d are read", ErrLine, len(line), MaxLine)
		}
		switch {
		case len(line) == 0:
			p.dispatch(end, next, false)
		case line[0] == ':':
			p.frames = append(p.frames, Frame{Data: line[1:], Comment: true, Begin: at, End: end, Unterminated: !ended})
		default:
			p.field(line)
		}
		at = next
	}
	p.dispatch(at, at, true)
	return p.frames, nil
}

// cutLine returns the line at an offset without its end, and the offset behind the end. A CR ends the line by
// itself: the LF after it is dropped, but nothing waits for it, as it may come in a later read.
func cutLine(raw []byte, at int) (line []byte, next int, ended bool) {
	rest := raw[at:]
	n := bytes.IndexByte(rest, '\n')
	if n < 0 {
		n = len(rest)
	}
	if cr := bytes.IndexByte(rest[:n], '\r'); cr >= 0 {
		next = at + cr + 1
		if next < len(raw) && raw[next] == '\n' {
			next++
		}
		return rest[:cr], next, true
	}
	if n == len(rest) {
		return rest, len(raw), false
	}
	return rest[:n], at + n + 1, true
}

// parser holds the event that is being read.
type parser struct {
	frames []Frame
	begin  int
	data   []byte
	lines  int  // data lines so far
	owned  bool // data is a copy
	event  string
	id     string
}

// field takes one line of the form NAME, NAME:VALUE or NAME: VALUE. Names that are not known are ignored.
func (p *parser) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		switch {
		case p.lines == 0:
			p.data = value
		case !p.owned:
			p.data = append(append(append(make([]byte, 0, 2*(len(p.data)+len(value))), p.data...), '\n'), value...)
			p.owned = true
		default:
			p.data = append(append(p.data, '\n'), value...)
		}
		p.lines++
	case "event":
		p.event = string(value)
	case "id":
		if !bytes.Contains(value, []byte{0}) {
			p.id = string(value)
		}
	}
}

// dispatch ends the event before the offset end; the next one begins at next. An event without a data line is none.
func (p *parser) dispatch(end, next int, tail bool) {
	if p.lines > 0 {
		p.frames = append(p.frames, Frame{Data: p.data, Event: p.event, ID: p.id, Begin: p.begin, End: end, Unterminated: tail})
	}
	*p = parser{frames: p.frames, begin: next}
}
