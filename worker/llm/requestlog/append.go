package requestlog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// Source is a request log of a run, with what lines of older versions do not say of themselves.
type Source struct {
	Path string
	Plan string // digest of the run's plan
}

// Duplicate is the error of a line whose identity is in the file already, or twice among what is to be written.
type Duplicate struct {
	Identity Identity
	Stream   int    // of a request
	File     string // where it stands
	Line     int
	Partial  string // what to type if an export of the run broke off; empty: it did not
}

func (d *Duplicate) Error() string {
	return fmt.Sprintf("%s of %s is in %s:%d already, so nothing was written", d.what(), d.Identity, d.File, d.Line)
}

func (d *Duplicate) what() string {
	if d.Identity.Kind == OfRequest {
		return fmt.Sprintf("stream %d", d.Stream)
	}
	return "the group"
}

// Torn is the error of a file whose last line was cut off.
type Torn struct {
	Problem Problem
	Partial string // what to type to take away the part of the export that broke off
}

func (t *Torn) Error() string { return t.Problem.String() }

// Append adds every request and every group of the sources to a file of JSON lines, made if missing, and tells how many
// lines these were. If the identity of one is in the file, or comes twice, the error is a *Duplicate; if the file ends in
// a line that was cut off, a *Torn; in both cases nothing is written. Lines that are none are problems, and left out.
// Several processes may append at the same time: each waits until ctx ends for the one before.
func Append(ctx context.Context, path string, sources []Source) (written int, problems []Problem, err error) {
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o644))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close())
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	x := &export{path: path, seen: map[string]place{}, limit: make([]int, len(sources))}
	if err := x.present(); err != nil {
		return 0, x.problems, err
	}
	if err := x.check(sources); err != nil {
		return 0, x.problems, err
	}
	written, err = x.write(sources)
	return written, x.problems, err
}

// export is one call of Append.
type export struct {
	path     string
	problems []Problem
	seen     map[string]place // by the identity of a line
	tailRun  string           // run of the last lines of the file
	tail     int64            // where those lines begin
	size     int64
	blurred  bool  // lines that cannot be read make size and tail wrong
	limit    []int // number of the last line of each source that was looked at
}

type place struct {
	file string
	line int
}

// entry is what the identity of a line needs beside that of its group.
func entry(l line) (key string, stream int) {
	if l.Kind == OfRequest {
		var s struct {
			Stream int `json:"stream"`
		}
		_ = json.Unmarshal(l.raw, &s) // the line has been read once
		stream = s.Stream
	}
	return fmt.Sprintf("%s %d %s", l.Kind, stream, l.key()), stream
}

// present reads what is in the file.
func (x *export) present() error {
	run := ""
	problems, err := scan(x.path, func(l line) {
		key, _ := entry(l)
		x.seen[key] = place{x.path, l.number}
		if id := l.Run + " " + l.Plan; id != run {
			run, x.tailRun, x.tail = id, l.Run, x.size
		}
		x.size += int64(len(l.raw)) + 1
	})
	if err != nil {
		return err
	}
	for i, p := range problems {
		if p.Text == torn {
			x.blurred = len(problems) > 1
			return &Torn{problems[i], x.partial()}
		}
	}
	x.problems, x.blurred = problems, len(problems) > 0
	return nil
}

// partial is the command that takes the last run out of the file again; empty if lines before it hide where it begins.
func (x *export) partial() string {
	if x.blurred {
		return ""
	}
	return fmt.Sprintf("if the export of run %s broke off, truncate -s %d takes its part out of the file; then export it again", x.tailRun, x.tail)
}

// check reads the sources and refuses what is there already.
func (x *export) check(sources []Source) error {
	found, total := 0, 0
	var dup *Duplicate
	for i, src := range sources {
		problems, err := scan(src.Path, func(l line) {
			x.limit[i] = l.number
			if l.Kind != OfRequest && l.Kind != OfGroup {
				return
			}
			total++
			if l.Plan == "" {
				l.Plan = src.Plan
			}
			key, stream := entry(l)
			if at, ok := x.seen[key]; ok {
				found++
				if dup == nil {
					dup = &Duplicate{Identity: l.Identity, Stream: stream, File: at.file, Line: at.line}
				}
				return
			}
			x.seen[key] = place{src.Path, l.number}
		})
		if err != nil {
			return err
		}
		x.problems = append(x.problems, problems...)
	}
	if dup == nil {
		return nil
	}
	if found < total && dup.File == x.path && dup.Identity.Run == x.tailRun {
		dup.Partial = x.partial()
	}
	return dup
}

// write adds the lines. A file that could not take all of them is as it was.
func (x *export) write(sources []Source) (n int, err error) {
	f, err := os.OpenFile(x.path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	before, err := f.Stat()
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i, src := range sources {
		_, bad := scan(src.Path, func(l line) {
			if l.number > x.limit[i] || l.Kind != OfRequest && l.Kind != OfGroup {
				return
			}
			_, bad := w.Write(append(whole(l, src), '\n'))
			err = errors.Join(err, bad)
			n++
		})
		err = errors.Join(err, bad)
	}
	if err = errors.Join(err, w.Flush()); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("write %s: %w", x.path, err), f.Truncate(before.Size()), f.Close())
	}
	return n, f.Close()
}

// whole is a line with the plan's digest and the label in it, which those of older versions lack.
func whole(l line, src Source) []byte {
	raw := bytes.TrimSpace(l.raw)
	if l.Plan != "" {
		return raw
	}
	add := map[string]string{"plan": src.Plan}
	for _, p := range l.Params {
		if p.Name == "label" && l.Label == "" {
			add["label"] = p.Value
		}
	}
	head, err := json.Marshal(add)
	if err != nil {
		return raw // texts have no error
	}
	return append(append(head[:len(head)-1:len(head)-1], ','), raw[1:]...)
}
