package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"cpbench/plan/folder"

	"github.com/google/renameio/v2"
)

// Save writes table.csv, table.md and raw.csv into the folder of a run, each whole or not at all.
func (t *Table) Save(run *folder.Run) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"table.csv", t.WriteCSV},
		{"table.md", t.WriteMarkdown},
		{"raw.csv", t.WriteRaw},
	} {
		if err := WriteFile(run.Table(f.name), f.write); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// WriteFile writes one of the table's forms to a path of the user's, such as docs/cp_benchmark.md, whole or not at
// all. An error names that path, and not the temporary one beside it.
func WriteFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	err := renameio.WriteFile(path, b.Bytes(), os.FileMode(0o644))
	var at *fs.PathError
	if errors.As(err, &at) {
		err = &fs.PathError{Op: "write", Path: path, Err: at.Err}
	}
	return err
}
