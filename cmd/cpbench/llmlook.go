package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cpbench/plan"
	"cpbench/worker/llm"
)

// loadLook reads what a dry run looks at: a spec in which all that only a measurement needs may be missing, or the
// address of a server in place of one.
func loadLook(name string) (*source, error) {
	if isAddress(name) {
		text := "workload: {kind: llm, server: {url: " + strconv.Quote(name) + "}}\n"
		return planLook(name, []byte(text))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, &usageError{err.Error(), "name a spec, a YAML file, or the address of a server: http://HOST:PORT"}
	}
	return planLook(name, text)
}

func isAddress(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// planLook makes a plan by which nothing is measured.
func planLook(name string, text []byte) (*source, error) {
	spec, err := plan.LoadLook(name, text)
	if err != nil {
		return nil, err
	}
	src := &source{text: text}
	if src.path, err = filepath.Abs(name); err != nil {
		return nil, err
	}
	if src.plan, src.sum, err = plan.New(spec, plan.Options{Source: src.path, Version: version().Version}); err != nil {
		var many interface{ WrappedErrors() []error }
		if errors.As(err, &many) {
			return nil, err
		}
		return nil, &usageError{err.Error(), ""}
	}
	return src, nil
}

// lookRecord is a line of the file of --out: what was seen, and when.
type lookRecord struct {
	Schema  int          `json:"schema"`
	Kind    string       `json:"kind"` // preflight
	DryRun  bool         `json:"dry_run"`
	At      time.Time    `json:"at"`
	Version string       `json:"cpbench"`
	Spec    string       `json:"spec"` // as it was named
	Looked  []llm.Looked `json:"looked"`
}

// recordLook appends a look to a file, in one write.
func recordLook(path, spec string, dryRun bool, at time.Time, looked []llm.Looked) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(lookRecord{1, "preflight", dryRun, at.UTC(), version().Version, spec, looked}); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the record of the look: %w", err)
	}
	_, err = f.Write(line.Bytes())
	return errors.Join(err, f.Sync(), f.Close())
}
