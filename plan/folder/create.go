package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cpbench/plan"

	"github.com/google/renameio/v2"
)

// stampForm is the UTC stamp in the name of a run.
const stampForm = "20060102T150405Z"

// RunName is the name of the run of a sweep that is made now, unless that is taken.
func RunName(sweep string, now time.Time) string { return sweep + "-" + now.UTC().Format(stampForm) }

// Create freezes a plan: it makes parent/<sweep>-<stamp> with the spec, the plan, its tasks, the frozen files and a
// copy of the cpbench binary, and of the GPU helper if that stands beside it. lib are further files that the run gets beside the frozen ones. plan.json is
// written last: without it a folder is no run.
func Create(parent string, now time.Time, p *plan.Plan, spec []byte, binary string, lib ...LibFile) (*Run, error) {
	abs, err := filepath.Abs(parent)
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(filepath.Join(abs, RunName(p.Name, now)))
	if err != nil {
		return nil, fmt.Errorf("run folder: %w; choose another place with --runs DIR", err)
	}
	r := &Run{Dir: dir, Plan: p}
	tag := sha256.Sum256([]byte(dir + now.Format(time.RFC3339Nano)))
	p.Tag = hex.EncodeToString(tag[:3])
	if err := r.fill(spec, binary, lib); err != nil {
		return nil, fmt.Errorf("run folder %s: %w", dir, errors.Join(err, os.RemoveAll(dir)))
	}
	p.Bind(dir, r.Binary())
	return r, nil
}

// LibFile is a file of cpbench's own in the lib folder of a run.
type LibFile struct {
	Name string
	Text []byte
}

// makeDir makes a folder that did not exist, with a counter behind the name where it is taken.
func makeDir(base string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		dir := base
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", base, n)
		}
		err := os.Mkdir(dir, 0o755)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
}

func (r *Run) fill(spec []byte, binary string, lib []LibFile) error {
	for _, sub := range []string{"bin", "lib", "logs", "results"} {
		if err := os.Mkdir(r.path(sub), 0o755); err != nil {
			return err
		}
	}
	if err := copyFile(binary, r.Binary(), 0o755); err != nil {
		return err
	}
	err := copyFile(filepath.Join(filepath.Dir(binary), gpuHelper), r.GPUHelper(), 0o755)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := r.freeze(lib); err != nil {
		return err
	}
	if err := writeFile(r.path("sweep.yaml"), spec); err != nil {
		return err
	}
	for i := range r.Plan.Arrays {
		a := &r.Plan.Arrays[i]
		lines, lengths, err := encode(a.Tasks)
		if err != nil {
			return err
		}
		a.Lengths = lengths
		if err := writeFile(r.tasksFile(i), lines); err != nil {
			return err
		}
	}
	r.Plan.Seal()
	head, err := json.Marshal(r.Plan)
	if err != nil {
		return err
	}
	return writeFile(r.PlanFile(), append(head, '\n'))
}

// freeze fills the lib folder: cpbench's own files, and the workload's as they were hashed.
func (r *Run) freeze(lib []LibFile) error {
	for _, f := range lib {
		if err := writeFile(filepath.Join(r.Lib(), f.Name), f.Text); err != nil {
			return err
		}
	}
	for _, f := range r.Plan.Files {
		name := filepath.Base(f.Name)
		if slices.ContainsFunc(lib, func(l LibFile) bool { return l.Name == name }) {
			return fmt.Errorf("workload.files: %s is a name of cpbench's own in lib; rename the file", f.Name)
		}
		from, to := source(r.Plan.Dir, f.Name), filepath.Join(r.Lib(), name)
		mode := os.FileMode(0o644)
		if info, err := os.Stat(from); err == nil && info.Mode()&0o111 != 0 {
			mode = 0o755 // a script that is run by its name
		}
		if err := copyFile(from, to, mode); err != nil {
			return err
		}
		if sum, err := hashFile(to); err != nil || sum != f.SHA256 {
			return errors.Join(fmt.Errorf("%s changed while the sweep was planned; plan it again", from), err)
		}
	}
	return nil
}

// CheckFiles makes sure that the frozen files still are what was hashed.
func (r *Run) CheckFiles() error {
	for _, f := range r.Plan.Files {
		path := filepath.Join(r.Lib(), filepath.Base(f.Name))
		switch sum, err := hashFile(path); {
		case err != nil:
			return fmt.Errorf("frozen file: %w; plan the sweep again", err)
		case sum != f.SHA256:
			return fmt.Errorf("%s has changed since it was planned; plan the sweep again", path)
		}
	}
	return nil
}

// HashFiles hashes the files that a workload freezes. dir is the spec's folder.
func HashFiles(dir string, names []string) ([]plan.File, error) {
	var files []plan.File
	for _, name := range names {
		sum, err := hashFile(source(dir, name))
		if err != nil {
			return nil, fmt.Errorf("workload.files: %w", err)
		}
		files = append(files, plan.File{Name: name, SHA256: sum})
	}
	return files, nil
}

func source(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // read only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyFile copies content. A hard link would be cheaper, but a binary that is overwritten in place would change
// under the run.
func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // read only
	out, err := renameio.NewPendingFile(to, renameio.WithPermissions(mode))
	if err != nil {
		return err
	}
	defer out.Cleanup() //nolint:errcheck // the copy's own error counts
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.CloseAtomicallyReplace()
}

func writeFile(path string, data []byte) error {
	return renameio.WriteFile(path, data, 0o644)
}
