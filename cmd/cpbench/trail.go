package main

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

// trail is what the newest attempt at an execution leaves, read as far as it was printed.
type trail struct {
	run  *folder.Run
	of   chosen
	rank int // -1: all
	out  io.Writer
	last string // the file of the last line

	read   map[string]int64 // bytes of each file that are printed
	others map[string]bool  // files that stand at the lines of another point
}

// logFile is one file of a trail.
type logFile struct {
	path  string
	lines func(line []byte) []byte // what to print of a line; nil: nothing
}

// ofAnother is the name of a log that a run of a program left: that of its point and repeat.
var ofAnother = regexp.MustCompile(`^([0-9a-f]+)-r([0-9]+)\b.*\.log$`)

// attempt is the folder of the newest attempt, and its first words; empty: nothing has started.
func (t *trail) attempt() (dir string, attempt, restart int, start startLine) {
	attempt, restart, ok := collect.NewestLog(t.run, t.of.array, t.of.task)
	if !ok {
		return "", 0, 0, startLine{}
	}
	dir = t.run.LogDir(t.of.array, t.of.task, attempt, restart)
	start, _ = readStart(dir) // without it a folder has logs all the same
	return dir, attempt, restart, start
}

// sources lists the files of the newest attempt: the scheduler's first, then the worker's, then the programs'.
func (t *trail) sources() []logFile {
	dir, attempt, _, start := t.attempt()
	var list []logFile
	if out := t.outputFile(attempt, start); out != "" && t.rank < 0 {
		list = append(list, logFile{out, whole})
	}
	if dir == "" {
		return list
	}
	if t.rank < 0 {
		list = append(list, logFile{filepath.Join(dir, folder.EventsFile), t.eventText})
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return list
	}
	for _, e := range entries {
		name := e.Name()
		if m := ofAnother.FindStringSubmatch(name); !strings.HasSuffix(name, ".log") || m != nil && (m[1] != t.of.ID || m[2] != strconv.Itoa(t.of.Repeat)) {
			continue
		}
		src := logFile{path: filepath.Join(dir, name)}
		src.lines = t.section(src.path)
		switch rank, isRank := strings.CutPrefix(strings.TrimSuffix(name, ".log"), "rank-"); {
		case t.rank < 0:
		case isRank && rank != strconv.Itoa(t.rank):
			continue
		case !isRank: // one log of all ranks, whose lines srun labels
			src.lines = labelled(strconv.Itoa(t.rank), src.lines)
		}
		list = append(list, src)
	}
	slices.SortStableFunc(list[min(len(list), 2):], func(a, b logFile) int { return len(a.path) - len(b.path) }) // rank 10 behind rank 9
	return list
}

// outputFile is the scheduler's output file of the task. Outside Slurm the worker's first words in it tell whose it is.
func (t *trail) outputFile(attempt int, start startLine) string {
	if start.Job != "" {
		return filepath.Join(t.run.LogsDir(), start.Job+".out")
	}
	entries, err := os.ReadDir(t.run.LogsDir())
	if err != nil {
		return ""
	}
	words := []byte(fmt.Sprintf("run %s, array %d, task %d, attempt ", t.run.Name(), t.of.array, t.of.task))
	if attempt > 0 {
		words = fmt.Appendf(words, "%d\n", attempt)
	}
	newest, at := "", time.Time{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), fmt.Sprintf("_%d.out", t.of.task)) {
			continue
		}
		path := filepath.Join(t.run.LogsDir(), e.Name())
		info, err := e.Info()
		if err != nil || info.ModTime().Before(at) {
			continue
		}
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, words) {
			newest, at = path, info.ModTime()
		}
	}
	return newest
}

// print writes the lines that came since the last time, each file's behind its name. last says that no more will come,
// so that a line without an end counts as well. It reports whether there was anything.
func (t *trail) print(last bool) (any bool, err error) {
	for _, src := range t.sources() {
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
	return any, nil
}

func (t *trail) printFile(f *os.File, src logFile, last bool) (any bool, err error) {
	if _, err := f.Seek(t.read[src.path], io.SeekStart); err != nil {
		return false, err
	}
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && (!last || len(line) == 0) {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return any, err
		}
		t.read[src.path] += int64(len(line))
		any = true
		if text := src.lines(bytes.TrimRight(line, "\n")); text != nil {
			if err := t.say(src.path, text); err != nil {
				return any, err
			}
		}
	}
}

// say prints a line, and before it the name of its file where that is another than before.
func (t *trail) say(path string, line []byte) error {
	if path != t.last {
		head := "==> " + shortPath(path) + " <==\n"
		if t.last != "" {
			head = "\n" + head
		}
		if _, err := io.WriteString(t.out, head); err != nil {
			return err
		}
		t.last = path
	}
	_, err := t.out.Write(append(line, '\n'))
	return err
}
