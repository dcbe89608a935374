package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"cpbench/plan/folder"
	"cpbench/worker/llm/requestlog"
)

// addRequests adds the requests of runs to a file of JSON lines; no path is nothing to do. Texts are in files of their
// own, which it does not open.
func addRequests(ctx context.Context, s *streams, runs []*folder.Run, path string) error {
	if path == "" {
		return nil
	}
	if err := onlyServing(runs, "--requests"); err != nil {
		return err
	}
	var sources []requestlog.Source
	for _, run := range runs {
		entries, err := os.ReadDir(run.LogsDir())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if _, _, _, _, ok := folder.ParseLogName(e.Name()); !ok {
				continue
			}
			for _, file := range requestlog.Files(filepath.Join(run.LogsDir(), e.Name())) {
				sources = append(sources, requestlog.Source{Path: file, Plan: run.Plan.Digest})
			}
		}
	}
	n, problems, err := requestlog.Append(ctx, path, sources)
	for _, p := range problems {
		p.File = shortPath(p.File)
		s.warnf("%s", p)
	}
	var dup *requestlog.Duplicate
	var torn *requestlog.Torn
	switch {
	case errors.As(err, &dup) && dup.Partial != "":
		return &hinted{err, dup.Partial}
	case errors.As(err, &torn) && torn.Partial != "":
		return &hinted{err, torn.Partial}
	case err != nil:
		return err
	}
	s.sayf("added %s to %s", countText(n, "line"), path)
	return nil
}
