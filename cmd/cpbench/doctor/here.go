package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cpbench/slurm/site"

	"golang.org/x/sys/unix"
)

// lookHere looks at this machine: the place of the runs, and the GPUs.
func (d *Doctor) lookHere(ctx context.Context) {
	d.lookAtRuns()
	self, err := os.Executable()
	if err != nil {
		d.add("gpus", Warn, "", "the place of cpbench is not known: %v", err)
		return
	}
	names, from, doubt := gpusHere(ctx, filepath.Dir(self))
	if _, err := os.Stat(filepath.Join(filepath.Dir(self), "cpbench-nvml")); err != nil {
		d.add("nvml", Warn, "install it there; without it GPU readings come from nvidia-smi, or not at all", "the helper cpbench-nvml does not stand beside %s", self)
	} else {
		d.add("nvml", Good, "", "the helper cpbench-nvml stands beside cpbench and is copied into every run")
	}
	switch {
	case len(names) > 0:
		d.add("gpus", Good, "", "on this node, by %s: %s", from, strings.Join(names, ", "))
	case d.site.Config != nil:
		d.add("gpus", Good, "", "none on this node, which a login node need not have (%s)", doubt)
	default:
		d.add("gpus", Warn, "fine for programs that need none", "no readings on this machine: %s", doubt)
	}
}

// localFS are file systems that belong to one machine, by the magic number of statfs(2).
var localFS = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.RAMFS_MAGIC: "ramfs", 0x2fc12fc1: "zfs",
}

// lookAtRuns looks at the place where runs are kept: it has to be writable, and to be seen by the compute nodes.
func (d *Doctor) lookAtRuns() {
	dir, err := filepath.Abs(d.runs)
	if err != nil {
		d.add("runs", Bad, "", "%v", err)
		return
	}
	there := dir
	for { // the folder itself is made by the first plan
		if _, err := os.Stat(there); err == nil || filepath.Dir(there) == there {
			break
		}
		there = filepath.Dir(there)
	}
	trial, err := os.CreateTemp(there, ".cpbench-doctor-")
	if err != nil {
		d.add("runs", Bad, "name another place with --runs DIR", "no run can be written to %s: %v", dir, err)
		return
	}
	if err := errors.Join(trial.Close(), os.Remove(trial.Name())); err != nil {
		d.add("runs", Bad, "name another place with --runs DIR", "a file in %s cannot be removed again: %v", there, err)
		return
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(there, &fs); err != nil {
		d.add("runs", Warn, "", "%s can be written, but its file system is not known: %v", dir, err)
		return
	}
	free := fmt.Sprintf("%.3g GiB free", float64(fs.Bavail)*float64(fs.Bsize)/(1<<30))
	switch kind, local := localFS[int64(fs.Type)]; { //nolint:unconvert // the type differs between architectures
	case local && d.site.Config != nil && (d.site.Partitions == nil || nodes(d.site) > 1):
		d.add("runs", Warn, "put runs on a shared file system with --runs DIR; --job shows whether a compute node sees this one", "%s can be written (%s), but %s is most often a machine's own: compute nodes may not see it", dir, free, kind)
	default:
		d.add("runs", Good, "", "%s can be written (%s)", dir, free)
	}
}

// nodes is the largest number of nodes in a partition.
func nodes(s *site.Site) int {
	most := 0
	for _, p := range s.Partitions {
		most = max(most, p.TotalNodes)
	}
	return most
}

// compareSpec compares what a spec asks for with what the site has.
func (d *Doctor) compareSpec() {
	name := filepath.Base(d.spec.Path)
	if d.site.Config == nil {
		d.add("spec", Good, "", "%s is well formed; there is no site to compare it with", name)
		return
	}
	found := d.site.CheckPlan(d.spec.Plan)
	for _, f := range found {
		d.add("spec", Bad, f.Advice, "%s: %s: %s", name, f.Key, f.Text)
	}
	if len(found) == 0 {
		d.add("spec", Good, "cpbench validate "+word(d.spec.Path)+" --slurm has sbatch check its scripts as well", "%s asks for nothing that this site does not have", name)
	}
}
