package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"cpbench/collect/picture"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// watchPause is the time between two looks: every look costs Slurm two requests.
const watchPause = time.Minute

// screen is where watch draws.
type screen struct {
	out     io.Writer
	scope   picture.Scope
	size    func() (columns, rows int) // of the terminal; nil: there is none, and one picture follows another
	resized <-chan os.Signal           // it has another size now
}

// screenOn is the screen of a stream. stop ends the watch over its size.
func screenOn(stream io.Writer, scope picture.Scope) (s *screen, stop func()) {
	s = &screen{out: stream, scope: scope}
	f, ok := stream.(*os.File)
	if !ok || !isTerminal(f) {
		return s, func() {}
	}
	s.size = func() (int, int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	s.resized = resized
	return s, func() { signal.Stop(resized) }
}

// watch draws a run's picture again and again until everything has ended or ctx ends. While Slurm does not answer, the
// last picture stays, with its age.
func watch(ctx context.Context, s *screen, look func(context.Context) (*picture.Picture, error)) error {
	var last *picture.Picture
	for {
		p, err := look(ctx)
		trouble := ""
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case err != nil && last == nil:
			return err
		case err != nil:
			trouble = err.Error()
		case p.Silent != nil && last != nil:
			trouble = p.Silent.Error()
		default:
			last = p
		}
		if err := s.draw(last, trouble); err != nil {
			return err
		}
		if trouble == "" && !last.Open() {
			return ending(last)
		}
		timer := time.NewTimer(watchPause)
		for waiting := true; waiting; {
			select {
			case <-timer.C:
				waiting = false
			case <-s.resized:
				if err := s.draw(last, trouble); err != nil {
					return err
				}
			case <-ctx.Done():
				timer.Stop()
				return errInterrupted
			}
		}
	}
}

// draw puts a picture onto the screen, or below the one before where there is none.
func (s *screen) draw(p *picture.Picture, trouble string) error {
	var text strings.Builder
	text.WriteString("run " + p.Run.Name() + " at " + p.Taken.UTC().Format(time.TimeOnly) + " UTC")
	switch {
	case trouble != "":
		fmt.Fprintf(&text, ", %v ago; there is no newer answer: %s", time.Since(p.Taken).Round(time.Second), trouble)
	case s.size != nil && p.Open():
		text.WriteString("; looks again every minute, Ctrl-C ends it")
	}
	text.WriteString("\n")
	for _, doubt := range p.Doubts {
		text.WriteString("warning: " + doubt + "\n")
	}
	if err := p.Write(&text, s.scope); err != nil {
		return err
	}
	shown := text.String()
	if s.size != nil {
		shown = "\x1b[H\x1b[2J" + fit(shown, s.size) // in one go, as a screen that is cleared first flickers
	}
	_, err := io.WriteString(s.out, shown)
	return err
}

// fit cuts a text to the size of a terminal, so that its beginning stays in sight: what is most urgent stands first.
func fit(text string, size func() (columns, rows int)) string {
	columns, rows := size()
	if columns < 1 || rows < 2 {
		return text
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := rows - 2; len(lines) > most+1 { // a line for the rest, and one for the cursor
		more := len(lines) - most
		lines = append(lines[:most:most], fmt.Sprintf("... %d more lines: cpbench status shows them", more))
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) > columns {
			lines[i] = string(runes[:columns-1]) + "…"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
