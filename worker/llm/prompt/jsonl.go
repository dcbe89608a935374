package prompt

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine bounds one line of a JSONL file.
const maxLine = 64 << 20

// lines is a JSONL file that is read by line number. It was read once as a whole for its hash and the places of its
// lines; a line is decoded when it is used, so a corpus may be larger than memory.
type lines struct {
	path   string
	file   *os.File
	starts []int64 // of the lines that are not empty
	ends   []int64
	number []int // in the file, from 1
	sha256 string
}

// openLines indexes a file. An empty one is an error.
func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &lines{path: path, file: f}
	if err := l.index(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	if len(l.starts) == 0 {
		return nil, errors.Join(fmt.Errorf("%s is empty", path), f.Close())
	}
	return l, nil
}

func (l *lines) index() error {
	hash := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(l.file, hash), 1<<20)
	var at int64
	for number := 1; ; number++ {
		length, blank, err := skipLine(in)
		if length > maxLine {
			return fmt.Errorf("line %d is longer than %d MiB", number, maxLine>>20)
		}
		if !blank {
			l.starts, l.ends, l.number = append(l.starts, at), append(l.ends, at+length), append(l.number, number)
		}
		at += length
		if errors.Is(err, io.EOF) {
			l.sha256 = hex.EncodeToString(hash.Sum(nil))
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// skipLine reads to the end of a line; blank reports whether there was nothing but white space.
func skipLine(in *bufio.Reader) (length int64, blank bool, err error) {
	blank = true
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		for _, c := range part {
			blank = blank && (c == ' ' || c == '\t' || c == '\r' || c == '\n')
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return length, blank, err
		}
	}
}

// decode decodes line i, from 0, of those that are not empty.
func (l *lines) decode(i int, into any) error {
	data := make([]byte, l.ends[i]-l.starts[i])
	if _, err := l.file.ReadAt(data, l.starts[i]); err != nil {
		return fmt.Errorf("%s:%d: %w", l.path, l.number[i], err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s:%d: %w", l.path, l.number[i], err)
	}
	return nil
}
