package result

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// Facts is the whole provenance of the results of one attempt at a task: a file beside the task's logs. A result
// itself holds the brief facts alone, because what a task's results have in common is too long to stand in each of
// them. No table needs this file.
type Facts struct {
	Schema  int                          `json:"schema"`
	Facts   map[string]string            `json:"facts"`   // by key of the catalogue, of every result that has no own value
	Results map[string]map[string]string `json:"results"` // own values, by the result's Name; an empty one is "not known"
}

// NewFacts holds nothing yet.
func NewFacts() *Facts {
	return &Facts{Schema: Schema, Facts: map[string]string{}, Results: map[string]map[string]string{}}
}

// Add takes the whole provenance of a result, and reports whether that has changed f. The first result tells what
// they have in common, and of the others only what differs is kept.
func (f *Facts) Add(r *Result, all map[string]string) bool {
	if len(f.Facts) == 0 {
		f.Facts = maps.Clone(all)
		return true
	}
	own := map[string]string{}
	for key, value := range all {
		if common, ok := f.Facts[key]; !ok || common != value {
			own[key] = value
		}
	}
	for key := range f.Facts {
		if _, ok := all[key]; !ok {
			own[key] = ""
		}
	}
	name := Name(r.Point, r.Repeat, r.Attempt, r.Restart)
	before, ok := f.Results[name]
	if ok && maps.Equal(before, own) || !ok && len(own) == 0 {
		return false
	}
	f.Results[name] = own
	return true
}

// Of is the whole provenance of a result.
func (f *Facts) Of(r *Result) map[string]string {
	all := maps.Clone(f.Facts)
	for key, value := range f.Results[Name(r.Point, r.Repeat, r.Attempt, r.Restart)] {
		if all[key] = value; value == "" {
			delete(all, key)
		}
	}
	return all
}

// WriteFacts writes f into the file path, whole or not at all.
func WriteFacts(path string, f *Facts) error {
	data, err := marshal(f)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return replace(path, data)
}

// ReadFacts reads what WriteFacts wrote. A file of a newer format is an error that is ErrNewer.
func ReadFacts(path string) (*Facts, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := NewFacts()
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.Schema > Schema {
		return nil, fmt.Errorf("%s: %w", path, newer(f.Schema))
	}
	return f, nil
}
