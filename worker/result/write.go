package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/google/renameio/v2"
)

// Ext is the ending of a result file, and SamplesExt that of the sidecar beside it.
const (
	Ext        = ".json"
	SamplesExt = ".samples.jsonl"
)

// Name returns the name, without ending, of the files of one attempt: <point>-r<repeat>-a<attempt>.<restart>.
// ParseName is its inverse.
func Name(point string, repeat, attempt, restart int) string {
	return fmt.Sprintf("%s-r%d-a%d.%d", point, repeat, attempt, restart)
}

// Path returns where the result r lies below dir, the results folder of a run: in a shard that is named after the
// first two characters of the point's id. A point id that could lead out of dir is an error.
func (r *Result) Path(dir string) (string, error) {
	if !validID(r.Point) {
		return "", fmt.Errorf("point id %q is not made of at least two letters and digits", r.Point)
	}
	if r.Repeat < 1 || r.Attempt < 1 || r.Restart < 0 {
		return "", fmt.Errorf("point %s: repeat %d and attempt %d count from 1, restart %d from 0", r.Point, r.Repeat, r.Attempt, r.Restart)
	}
	return filepath.Join(dir, r.Point[:2], Name(r.Point, r.Repeat, r.Attempt, r.Restart)+Ext), nil
}

// validID reports whether id may stand in a file name: letters and digits only, so that no id leaves the folder.
func validID(id string) bool {
	if len(id) < 2 || len(id) > 128 {
		return false
	}
	for _, c := range []byte(id) {
		digit, lower, upper := c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z'
		if !digit && !lower && !upper {
			return false
		}
	}
	return true
}

// Write puts r into its file below dir, the results folder of a run: under a temporary name in the same folder,
// synced, then renamed. It cuts long texts in r so that the file keeps within MaxBytes and says so in a warning.
// It refuses a result that is not valid, and with an error that is fs.ErrExist it refuses to replace a good result
// of the same attempt by one that is not good: a process that outlived its job must not undo what was measured.
func Write(dir string, r *Result) error {
	path, err := r.Path(dir)
	if err != nil {
		return err
	}
	if err := r.Validate(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	data, err := fit(r)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if old, err := Read(path); err == nil && old.Outcome.Fits() && !r.Outcome.Fits() {
		return fmt.Errorf("%s: a good result of the same attempt is there already: %w", path, fs.ErrExist)
	}
	return replace(path, data)
}

// WriteSamples puts the sidecar of r beside its result: one JSON object per line, in the order given. The worker
// writes one Sample for each timed iteration.
func WriteSamples[T any](dir string, r *Result, lines []T) error {
	path, err := r.Path(dir)
	if err != nil {
		return err
	}
	path = path[:len(path)-len(Ext)] + SamplesExt
	var b bytes.Buffer
	for i, line := range lines {
		data, err := marshal(line)
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", filepath.Base(path), i+1, err)
		}
		b.Write(data)
	}
	return replace(path, b.Bytes())
}

// Sample is one line of the sidecar of a model: one timed iteration.
type Sample struct {
	Iteration     int       `json:"iteration"`                // from 1
	Seconds       []float64 `json:"seconds"`                  // by rank, on the host's clock
	DeviceSeconds []float64 `json:"device_seconds,omitempty"` // by rank, on the device's clock
}

// replace writes a file so that at every moment a reader sees the old one, the new one or none, and so that the
// name survives a crash of the machine: the folder is synced as well.
func replace(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	// Without WithTempDir renameio may take TMPDIR, which is the node's own disk.
	if err := renameio.WriteFile(path, data, 0o666, renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some network file systems refuse to sync a folder; the rename itself has succeeded there.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// Encode returns the text of r as it stands in a file: one line of JSON, the fields of a newer version at its end
// in the order of their names. A NaN or an infinity anywhere is an error.
func Encode(r *Result) ([]byte, error) {
	c := *r
	if c.Metrics == nil {
		c.Metrics = map[string]*float64{}
	}
	if c.Warnings == nil {
		c.Warnings = []Warning{} // an empty list is written, not left out
	}
	if c.Params == nil {
		c.Params = []Param{}
	}
	if c.Provenance == nil {
		c.Provenance = map[string]string{}
	}
	data, err := marshal(&c)
	if err != nil || len(c.Unknown) == 0 {
		return data, err
	}
	data = bytes.TrimSuffix(data, []byte("}\n"))
	for _, name := range slices.Sorted(maps.Keys(c.Unknown)) {
		key, err := marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(c.Unknown[name])
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		data = append(data, ',')
		data = append(data, bytes.TrimSpace(key)...)
		data = append(data, ':')
		data = append(data, bytes.TrimSpace(value)...)
	}
	return append(data, "}\n"...), nil
}

// marshal is json.Marshal with a newline and without the escapes for HTML, which cost six bytes for each `<` of a
// log text.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
