package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The parts of a log that are read, from its end: for texts that explain a failure, and for figures.
const (
	tailBytes   = 256 << 10
	figureBytes = 16 << 20
)

// tail is the end of a file; empty if it cannot be read.
func tail(path string, most int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() // read only
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(text)
}

// stamp tells whether a file has changed. Comparing it with its own past needs no clock, and the one of a file server
// is not that of the node.
type stamp struct {
	size     int64
	modified time.Time
	inode    uint64
}

func stampOf(info os.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	return s
}

// watched are the files that the run may write and that are there already.
func (s *session) watched(dir, artifact string) map[string]stamp {
	before := map[string]stamp{}
	patterns := []string{artifact}
	for _, f := range s.figures {
		patterns = append(patterns, f.file)
	}
	for _, p := range patterns {
		for _, path := range match(dir, p) {
			if info, err := os.Stat(path); err == nil {
				before[path] = stampOf(info)
			}
		}
	}
	return before
}

// match lists the files of a pattern, which is relative to dir; in it `*` stands for any part of a name.
func match(dir, pattern string) []string {
	if pattern == "" {
		return nil
	}
	pattern = escape(pattern, `?[\`)
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(escape(dir, `*?[\`), pattern)
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil // no pattern is malformed once its special characters are escaped
	}
	return found
}

func escape(text, special string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte(special, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// written lists the files of a pattern that this run has written, the newest last. why says what is wrong if there
// are none: no such file, or only such as do not count.
func (x *run) written(pattern string) (paths []string, why string) {
	type file struct {
		path string
		at   time.Time
	}
	var files []file
	why = fmt.Sprintf("no file matches %q", pattern)
	for _, path := range match(x.dir, pattern) {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		name := path
		if rel, err := filepath.Rel(x.dir, path); err == nil {
			name = rel
		}
		old, known := x.before[path]
		switch {
		case known && old == stampOf(info):
			why = fmt.Sprintf("%s was there before the run and has not changed", name)
		case info.Size() == 0:
			why = fmt.Sprintf("%s is empty", name)
		default:
			files = append(files, file{path, info.ModTime()})
		}
	}
	if len(files) == 0 {
		return nil, why
	}
	slices.SortStableFunc(files, func(a, b file) int { return a.at.Compare(b.at) })
	for _, f := range files {
		paths = append(paths, f.path)
	}
	return paths, ""
}

// missing says why the artifact does not count; empty if it does, or if none is asked for.
func (x *run) missing(artifact string) string {
	if artifact == "" {
		return ""
	}
	_, why := x.written(artifact)
	return why
}
