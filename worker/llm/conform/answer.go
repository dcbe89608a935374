package conform

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/stream"
	"cpbench/worker/llm/stream/chat"
	"cpbench/worker/llm/stream/sse"
)

// answer is one request and what came back.
type answer struct {
	asked   int   // tokens
	refused error // the request cannot be made for this server, and was not sent
	x       *stream.Exchange
	facts   account.Facts
	numbers account.Numbers
	texts   account.Texts
	frames  []sse.Frame
	chunks  []chat.Chunk // of each frame; that of a comment is empty
}

// observe reads an exchange.
func observe(x *stream.Exchange, c *stream.Client, asked int) *answer {
	a := &answer{asked: asked, x: x}
	a.facts, a.texts = account.Observe(x, c.Epoch(), account.Rules{})
	a.numbers = account.Judge(a.facts)
	a.frames, _ = sse.Parse(x.Raw) // a line that is too long is an error in the facts
	for _, f := range a.frames {
		chunk := chat.Chunk{}
		if !f.Comment {
			chunk = chat.Decode(f.Data)
		}
		a.chunks = append(a.chunks, chunk)
	}
	return a
}

// ok reports whether the request was answered to a proper end.
func (a *answer) ok() bool {
	return a != nil && a.refused == nil && a.numbers.Outcome == account.Success
}

// failure says why it was not.
func (a *answer) failure() string {
	switch {
	case a == nil:
		return "it was not sent"
	case a.refused != nil:
		return a.refused.Error()
	}
	text := fmt.Sprintf("%s: %s", a.numbers.Outcome, a.numbers.Reason)
	for _, f := range []*account.Failure{a.facts.InBand, a.facts.Failure} {
		if f != nil {
			return text + ": " + brief(f.Text)
		}
	}
	return fmt.Sprintf("%s (status %d, finish reason %q)", text, a.facts.Status, a.facts.Finish)
}

// brief cuts a text of the server's.
func brief(text string) string {
	const most = 160
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return text
}

// status is what the server says where it refuses; nil if it did not.
func (a *answer) status() *stream.StatusError {
	var status *stream.StatusError
	if a == nil || a.x == nil || !errors.As(a.x.Err, &status) {
		return nil
	}
	return status
}

// framing says in which of the allowed ways the stream was written, and what is wrong with it.
func (a *answer) framing() (ways, wrong []string) {
	raw := a.x.Raw
	pairs := bytes.Count(raw, []byte("\r\n"))
	count := map[string]int{
		"lines that end with LF":    bytes.Count(raw, []byte("\n")) - pairs,
		"lines that end with CR LF": pairs,
		"lines that end with CR":    bytes.Count(raw, []byte("\r")) - pairs,
	}
	for i, f := range a.frames {
		if f.Comment {
			count["comment lines"]++
			continue
		}
		if a.chunks[i].Kind == chat.Broken {
			count["frames that are no JSON"]++
		}
		lines(raw[f.Begin:f.End], count)
	}
	for _, way := range []string{
		"lines that end with LF", "lines that end with CR LF", "lines that end with CR", "comment lines", "data lines without a space",
		"event, id or other lines", "frames of several data lines",
	} {
		if n := count[way]; n > 0 {
			ways = append(ways, fmt.Sprintf("%d %s", n, way))
		}
	}
	if n := count["frames that are no JSON"]; n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d frames are no JSON", n))
	}
	if a.facts.Unterminated {
		wrong = append(wrong, "the last frame has no blank line behind it")
	}
	return ways, wrong
}

// lines counts the kinds of lines of one frame.
func lines(frame []byte, count map[string]int) {
	data := 0
	for _, line := range bytes.FieldsFunc(frame, func(r rune) bool { return r == '\n' || r == '\r' }) {
		switch {
		case bytes.HasPrefix(line, []byte("data: ")):
			data++
		case bytes.HasPrefix(line, []byte("data:")):
			data++
			count["data lines without a space"]++
		case line[0] != ':':
			count["event, id or other lines"]++
		}
	}
	if data > 1 {
		count["frames of several data lines"]++
	}
}

// usageAt says in which frames the usage stood.
func (a *answer) usageAt() []string {
	var places []string
	text, withUsage := 0, 0
	for _, c := range a.chunks {
		if c.Text() && c.Finish == "" {
			if text++; c.Usage != nil {
				withUsage++
			}
		}
	}
	if withUsage > 0 {
		places = append(places, fmt.Sprintf("%d of %d text frames", withUsage, text))
	}
	for _, c := range a.chunks {
		place := ""
		switch {
		case c.Usage == nil:
		case c.Kind == chat.Only:
			place = "a frame of its own"
		case c.Finish != "":
			place = "the finish frame"
		}
		if place != "" && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places
}
