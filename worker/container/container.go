// Package container has a workload's programs run in the container of the spec, while the worker itself stays outside:
// it starts them, ends them and reads what they leave, so paths have to be the same on both sides. Use Inside around
// the command of whatever starts on this node, and Step for the options of a job step; at most one of both does
// anything.
//
// Nothing here passes through a shell, and no value through a list with commas: an image's variables lose against those
// of the sweep because apptainer takes APPTAINERENV_NAME and pyxis the names that --container-env lists.
package container

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cpbench/plan"
	"cpbench/plan/folder"
)

// Box is the container of a run. That of `runtime: none` changes nothing.
type Box struct {
	spec   plan.Container
	image  string   // as the runtime takes it
	file   bool     // it is a file
	mounts []string // SOURCE:TARGET or SOURCE:TARGET:ro
	owned  map[string]bool
	lib    string // PYTHONPATH inside, unless the sweep or the job is to say
}

// Of is the container of a run.
func Of(run *folder.Run) Box {
	p := run.Plan
	b := Box{spec: p.Spec.Container, image: p.Spec.Container.Image, owned: map[string]bool{}}
	if b.spec.Runtime == "none" || b.spec.Runtime == "" {
		return Box{}
	}
	if path, file := b.spec.ImageFile(p.Dir); file {
		b.image, b.file = path, true
	}
	own := []string{run.Dir, p.Dir}
	if filepath.IsAbs(p.Spec.Workload.Workdir) {
		own = append(own, p.Spec.Workload.Workdir)
	}
	for _, dir := range own {
		b.mounts = append(b.mounts, dir+":"+dir)
	}
	slices.Sort(b.mounts)
	b.mounts = slices.Compact(b.mounts)
	for _, m := range b.spec.Mounts {
		if !filepath.IsAbs(m) {
			m = filepath.Join(p.Dir, m[:strings.IndexByte(m, ':')]) + m[strings.IndexByte(m, ':'):]
		} else if !strings.Contains(m, ":") {
			m += ":" + m
		}
		b.mounts = append(b.mounts, m)
	}
	for _, env := range []map[string]string{p.Spec.Env, p.Spec.Workload.Server.Env} {
		for name := range env {
			b.owned[name] = true
		}
	}
	for _, name := range b.spec.EnvPassthrough {
		b.owned[name] = true
	}
	if !b.owned["PYTHONPATH"] {
		b.lib = run.Lib() // what modules have added is for the Python of the host
	}
	for _, name := range claimed {
		b.owned[name] = true
	}
	return b
}

// claimed are the variables by which a launcher and the worker tell a rank what it is, beside CPBENCH_*.
var claimed = []string{
	"PYTHONPATH", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
}

// None reports whether programs run without a container.
func (b Box) None() bool { return b.spec.Runtime == "" }

// Image is the image as the runtime takes it, and empty without a container.
func (b Box) Image() string { return b.image }

// InStep reports whether only a job step can start the container, which needs a Slurm job.
func (b Box) InStep() bool { return b.spec.Runtime == "pyxis" }

// Check says what keeps the container from starting on this node: an image that is not there, a folder that cannot be
// mounted, a runtime that is not installed.
func (b Box) Check() error {
	if b.None() {
		return nil
	}
	if b.file {
		if _, err := os.Stat(b.image); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the container's image %s is not there", b.image)
		} else if err != nil {
			return fmt.Errorf("the container's image: %w", err)
		}
	}
	for _, m := range b.mounts {
		source, target, _ := strings.Cut(m, ":")
		if strings.Contains(m, ",") || strings.Count(m, ":") > 2 || !strings.HasPrefix(target, "/") {
			return fmt.Errorf("%q cannot be mounted in a container: a comma or a colon in a path would be read as the end of it", m)
		}
		if _, err := os.Stat(source); err != nil {
			return fmt.Errorf("mount into the container: %w", err)
		}
	}
	if b.InStep() {
		if os.Getenv("SLURM_JOB_ID") == "" {
			return errors.New("container.runtime: pyxis starts containers by srun, but this is no Slurm job; submit the script with sbatch, or use apptainer")
		}
		return nil
	}
	_, _, err := program()
	return err
}

// program finds apptainer, or the older program of the same form, and the beginning of the variables that it hands on.
func program() (path, prefix string, err error) {
	for _, p := range [][2]string{{"apptainer", "APPTAINERENV_"}, {"singularity", "SINGULARITYENV_"}} {
		if path, err := exec.LookPath(p[0]); err == nil {
			return path, p[1], nil
		}
	}
	return "", "", errors.New("apptainer is not installed on this node, or not on PATH; load it in setup")
}

// Inside is the program argv, with the environment env and the folder dir, as it is to be started so that it runs in
// the container; for pyxis, behind a job step with the options of Step. gpus says whether it may use this node's GPUs.
func (b Box) Inside(argv, env []string, dir string, gpus bool) (wrapped, environ []string) {
	environ = slices.Clone(env)
	if b.lib != "" {
		environ = append(environ, "PYTHONPATH="+b.lib)
	}
	if b.spec.Runtime != "apptainer" {
		return argv, environ
	}
	path, prefix, err := program()
	if err != nil {
		path, prefix = "apptainer", "APPTAINERENV_" // starting it then fails with its name
	}
	wrapped = []string{path, "exec"}
	if gpus {
		wrapped = append(wrapped, "--nv")
	}
	wrapped = append(wrapped, "--no-home", "--pwd", dir)
	for _, m := range b.binds(dir) {
		wrapped = append(wrapped, "--bind", m)
	}
	wrapped = append(append(wrapped, b.image), argv...)
	values := b.values(environ)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		environ = append(environ, prefix+name+"="+values[name])
	}
	return wrapped, environ
}

// Step is what a job step needs to start the program in the container, for srun before the program's own words: nil
// unless the runtime is pyxis. The environment is that of srun.
func (b Box) Step(env []string, dir string) []string {
	if !b.InStep() {
		return nil
	}
	return []string{
		"--container-image=" + b.image, "--container-mounts=" + strings.Join(b.binds(dir), ","), "--container-workdir=" + dir,
		"--no-container-mount-home", "--container-env=" + strings.Join(slices.Sorted(maps.Keys(b.values(env))), ","),
	}
}

// Alone is Inside for a program that starts once on this node and is no launcher: with pyxis, a job step of cpus CPUs
// stands before it. hosts are the nodes of the job, this one first; nil where there is only this one.
func (b Box) Alone(argv, env []string, dir string, gpus bool, cpus int, hosts []string) (wrapped, environ []string) {
	wrapped, environ = b.Inside(argv, env, dir, gpus)
	if !b.InStep() {
		return wrapped, environ
	}
	// --overlap: the clean-up of the step before would otherwise keep this one waiting, and that time would be measured.
	step := []string{"srun", "-N", "1", "-n", "1", "-c", strconv.Itoa(max(cpus, 1)), "--overlap", "--export=ALL", "--unbuffered"}
	if len(hosts) > 1 { // the step has to be where the worker is
		step = append(step, "--nodelist="+hosts[0])
	}
	return append(append(step, b.Step(environ, dir)...), wrapped...), environ
}

// binds are the mounts and the folder in which the program starts.
func (b Box) binds(dir string) []string {
	for _, m := range b.mounts {
		source, target, _ := strings.Cut(m, ":")
		if rel, err := filepath.Rel(source, dir); err == nil && source == target && rel != ".." && !strings.HasPrefix(rel, "../") {
			return b.mounts
		}
	}
	return append(slices.Clone(b.mounts), dir+":"+dir)
}

// values are the variables that win over those of the image. Of two of one name in env the last counts.
func (b Box) values(env []string) map[string]string {
	values := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if b.owned[name] || strings.HasPrefix(name, "CPBENCH_") {
			values[name] = value
		}
	}
	return values
}
