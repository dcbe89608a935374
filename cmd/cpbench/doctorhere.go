package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/plan/folder"
	"cpbench/slurm"
	slurmsite "cpbench/slurm/site"

	"golang.org/x/sys/unix"
)

// lookHere looks at this machine: the place of the runs, and the GPUs.
func (d *doctor) lookHere(ctx context.Context) {
	d.lookAtRuns()
	self, err := os.Executable()
	if err != nil {
		d.add("gpus", warn, "", "the place of cpbench is not known: %v", err)
		return
	}
	names, from, doubt := gpusHere(ctx, filepath.Dir(self))
	if _, err := os.Stat(filepath.Join(filepath.Dir(self), "cpbench-nvml")); err != nil {
		d.add("nvml", warn, "install it there; without it GPU readings come from nvidia-smi, or not at all", "the helper cpbench-nvml does not stand beside %s", self)
	} else {
		d.add("nvml", good, "", "the helper cpbench-nvml stands beside cpbench and is copied into every run")
	}
	switch {
	case len(names) > 0:
		d.add("gpus", good, "", "on this node, by %s: %s", from, strings.Join(names, ", "))
	case d.here.Config != nil:
		d.add("gpus", good, "", "none on this node, which a login node need not have (%s)", doubt)
	default:
		d.add("gpus", warn, "fine for programs that need none", "no readings on this machine: %s", doubt)
	}
}

// localFS are file systems that belong to one machine, by the magic number of statfs(2).
var localFS = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.RAMFS_MAGIC: "ramfs", 0x2fc12fc1: "zfs",
}

// lookAtRuns looks at the place where runs are kept: it has to be writable, and to be seen by the compute nodes.
func (d *doctor) lookAtRuns() {
	dir, err := filepath.Abs(d.runs)
	if err != nil {
		d.add("runs", bad, "", "%v", err)
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
		d.add("runs", bad, "name another place with --runs DIR", "no run can be written to %s: %v", dir, err)
		return
	}
	if err := errors.Join(trial.Close(), os.Remove(trial.Name())); err != nil {
		d.add("runs", bad, "name another place with --runs DIR", "a file in %s cannot be removed again: %v", there, err)
		return
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(there, &fs); err != nil {
		d.add("runs", warn, "", "%s can be written, but its file system is not known: %v", dir, err)
		return
	}
	free := fmt.Sprintf("%.3g GiB free", float64(fs.Bavail)*float64(fs.Bsize)/(1<<30))
	switch kind, local := localFS[int64(fs.Type)]; { //nolint:unconvert // the type differs between architectures
	case local && d.here.Config != nil && (d.here.Partitions == nil || nodes(d.here) > 1):
		d.add("runs", warn, "put runs on a shared file system with --runs DIR; --job shows whether a compute node sees this one", "%s can be written (%s), but %s is most often a machine's own: compute nodes may not see it", dir, free, kind)
	default:
		d.add("runs", good, "", "%s can be written (%s)", dir, free)
	}
}

// nodes is the largest number of nodes in a partition.
func nodes(s *slurmsite.Site) int {
	most := 0
	for _, p := range s.Partitions {
		most = max(most, p.TotalNodes)
	}
	return most
}

// mismatches are what a plan asks for and a site does not allow, each once although arrays share most of it.
func mismatches(here *slurmsite.Site, src *source) []slurmsite.Finding {
	var found []slurmsite.Finding
	for i := range src.plan.Arrays {
		for _, f := range here.Check(slurmsite.RequestOf(slurm.Job{Run: &folder.Run{Plan: src.plan}, Array: i, Attempt: 1})) {
			if !slices.Contains(found, f) {
				found = append(found, f)
			}
		}
	}
	return found
}

// compareSpec compares what a spec asks for with what the site has.
func (d *doctor) compareSpec() {
	name := filepath.Base(d.src.path)
	if d.here.Config == nil {
		d.add("spec", good, "", "%s is well formed; there is no site to compare it with", name)
		return
	}
	found := mismatches(d.here, d.src)
	for _, f := range found {
		d.add("spec", bad, f.Advice, "%s: %s: %s", name, f.Key, f.Text)
	}
	if len(found) == 0 {
		d.add("spec", good, "cpbench validate "+shellWord(d.src.path)+" --slurm has sbatch check its scripts as well", "%s asks for nothing that this site does not have", name)
	}
}
