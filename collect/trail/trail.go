// Package trail is the words that an execution leaves behind: use Choose for the one that a person means by a few axis
// values, and New to print the logs of its newest attempt, or to follow them.
package trail

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cpbench/collect"
	"cpbench/plan/folder"
)

// Trail is what the newest attempt at an execution leaves, read as far as it was printed.
type Trail struct {
	run  *folder.Run
	of   Execution
	rank int // -1: all
	out  *bufio.Writer
	head func(path string) string
	last string // the file of the last line

	read map[string]*progress // by path
}

// progress is how far a file is printed, and how.
type progress struct {
	bytes  int64
	other  bool // it stands at the lines of another point
	within bool // it stands within a line that was too long to take whole
	drop   bool // ... of which nothing is printed
}

// longest is how much of a line is taken at once: a bar that is drawn over and over is one line of any length.
const longest = 64 << 10

// AllRanks is the rank of New that leaves no log out.
const AllRanks = -1

// New is the trail of an execution, to be printed to out. With a rank it has only the words of that one. head writes the
// path of a file for people.
func New(run *folder.Run, of Execution, rank int, out io.Writer, head func(path string) string) *Trail {
	return &Trail{run: run, of: of, rank: rank, out: bufio.NewWriterSize(out, longest), head: head, read: map[string]*progress{}}
}

// Print writes all that is there, each file's lines behind its name. It reports whether there was anything.
func (t *Trail) Print() (any bool, err error) { return t.print(t.look(), true) }

// place is where the newest attempt stands, or stood.
type place struct {
	dir              string // of its logs; empty: nothing has started
	attempt, restart int
	start            collect.Start
}

func (t *Trail) look() place {
	attempt, restart, ok := collect.NewestLog(t.run, t.of.Array, t.of.Task)
	if !ok {
		return place{}
	}
	p := place{dir: t.run.LogDir(t.of.Array, t.of.Task, attempt, restart), attempt: attempt, restart: restart}
	p.start, _ = collect.ReadStart(p.dir) // without it a folder has logs all the same
	return p
}

// logFile is one file of a trail.
type logFile struct {
	path  string
	lines func(line []byte) []byte // what to print of a line; nil: nothing
}

// ofAnother is the name of a log that a run of a program left: that of its point and repeat.
var ofAnother = regexp.MustCompile(`^([0-9a-f]+)-r([0-9]+)\b.*\.log$`)

// sources lists the files of an attempt: the scheduler's first, then the worker's, then the programs'.
func (t *Trail) sources(now place) []logFile {
	var first, list []logFile
	if out := t.outputFile(now); out != "" && t.rank == AllRanks {
		first = append(first, logFile{out, whole})
	}
	if now.dir == "" {
		return first
	}
	if t.rank == AllRanks {
		first = append(first, logFile{filepath.Join(now.dir, folder.EventsFile), t.eventText})
	}
	entries, err := os.ReadDir(now.dir)
	if err != nil {
		return first
	}
	for _, e := range entries {
		name := e.Name()
		if m := ofAnother.FindStringSubmatch(name); !strings.HasSuffix(name, ".log") || m != nil && (m[1] != t.of.ID || m[2] != strconv.Itoa(t.of.Repeat)) {
			continue
		}
		src := logFile{path: filepath.Join(now.dir, name)}
		src.lines = t.section(src.path)
		switch rank, isRank := strings.CutPrefix(strings.TrimSuffix(name, ".log"), "rank-"); {
		case t.rank == AllRanks:
		case isRank && rank != strconv.Itoa(t.rank):
			continue
		case !isRank: // one log of all ranks, whose lines srun labels
			src.lines = labelled(strconv.Itoa(t.rank), src.lines)
		}
		list = append(list, src)
	}
	slices.SortStableFunc(list, func(a, b logFile) int { return len(a.path) - len(b.path) }) // rank 10 behind rank 9
	return append(first, list...)
}

// outputFile is the scheduler's output file of the task. Outside Slurm the worker's first words in it tell whose it is.
func (t *Trail) outputFile(now place) string {
	if now.start.Job != "" {
		return filepath.Join(t.run.LogsDir(), now.start.Job+".out")
	}
	entries, err := os.ReadDir(t.run.LogsDir())
	if err != nil {
		return ""
	}
	words := fmt.Appendf(nil, "run %s, array %d, task %d, attempt ", t.run.Name(), t.of.Array, t.of.Task)
	if now.attempt > 0 {
		words = fmt.Appendf(words, "%d\n", now.attempt)
	}
	newest, at := "", time.Time{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), fmt.Sprintf("_%d.out", t.of.Task)) {
			continue
		}
		path := filepath.Join(t.run.LogsDir(), e.Name())
		info, err := e.Info()
		if err != nil || info.ModTime().Before(at) {
			continue
		}
		if says(path, words) {
			newest, at = path, info.ModTime()
		}
	}
	return newest
}

// says reports whether a file has the words near its beginning: before them stand what the set-up lines print.
func says(path string, words []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return err == nil && bytes.Contains(text, words)
}

// print writes the lines that came since the last time, each file's behind its name. last says that no more will come,
// so that a line without an end counts as well. It reports whether there was anything.
func (t *Trail) print(now place, last bool) (any bool, err error) {
	for _, src := range t.sources(now) {
		f, err := os.Open(src.path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return any, err
		}
		printed, err := t.printFile(f, src, last)
		if err = errors.Join(err, f.Close()); err != nil {
			return any, err
		}
		any = any || printed
	}
	return any, t.out.Flush()
}

// at is how far a file is printed.
func (t *Trail) at(path string) *progress {
	p := t.read[path]
	if p == nil {
		p = &progress{}
		t.read[path] = p
	}
	return p
}

func (t *Trail) printFile(f *os.File, src logFile, last bool) (any bool, err error) {
	p := t.at(src.path)
	if _, err := f.Seek(p.bytes, io.SeekStart); err != nil {
		return false, err
	}
	in := bufio.NewReaderSize(f, longest)
	for {
		line, err := in.ReadSlice('\n')
		part := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !part && (!last || len(line) == 0) {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return any, err
		}
		p.bytes += int64(len(line))
		any = true
		text := bytes.TrimSuffix(line, []byte("\n"))
		if !p.within {
			text = src.lines(text)
			p.drop = text == nil
		}
		p.within = part
		if !p.drop {
			if err := t.say(src.path, text); err != nil {
				return any, err
			}
		}
	}
}

// say prints a line, and before it the name of its file where that is another than before.
func (t *Trail) say(path string, line []byte) error {
	if path != t.last {
		head := "==> " + t.head(path) + " <==\n"
		if t.last != "" {
			head = "\n" + head
		}
		if _, err := t.out.WriteString(head); err != nil {
			return err
		}
		t.last = path
	}
	if _, err := t.out.Write(line); err != nil {
		return err
	}
	return t.out.WriteByte('\n')
}
