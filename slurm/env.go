package slurm

import (
	"slices"
	"strings"
)

// Overrides returns the entries NAME=value of environ that beat the directives of every script given to sbatch from
// there, sorted: an SBATCH_PARTITION left behind by a module wins against the script's own --partition. Variables that
// only change what sbatch prints or reads are left out.
func Overrides(environ []string) []string {
	var found []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "SBATCH_DEBUG", "SBATCH_IGNORE_PBS":
			continue
		}
		if strings.HasPrefix(name, "SBATCH_") {
			found = append(found, entry)
		}
	}
	slices.Sort(found)
	return found
}

// Clean returns environ without the variables through which Slurm's commands take options (SBATCH_*, SQUEUE_*,
// SCANCEL_*, SACCT_*, SINFO_*) and without the SLURM_* that a surrounding job left: a nested sbatch would inherit its task index
// and its GPUs. What leads to the controller stays: SLURM_CONF, and SLURM_JWT, which is the user's pass at some sites.
func Clean(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		if name == "SLURM_CONF" || name == "SLURM_JWT" {
			return false
		}
		for _, prefix := range []string{"SBATCH_", "SLURM_", "SQUEUE_", "SCANCEL_", "SACCT_", "SINFO_"} {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	})
}
