package table

import (
	"slices"
	"strings"
)

// needed are the facts without which a number cannot be repeated by others: always, on GPUs, and with PyTorch.
var (
	needed      = []string{"host", "kernel", "cpu", "cpus_allowed", "node_shared", "cpbench", "device"}
	neededGPU   = []string{"gpu", "driver", "vbios", "ecc", "persistence", "power_limit_watts", "clocks_locked"}
	neededTorch = []string{"python", "torch"}
)

// publishable says whether the conditions of the table are known well enough for its numbers to be published, and if
// not, what is missing. What is not known costs the word, never a row.
func (t *Table) publishable() string {
	if values, _ := t.Set.Facts("reference"); len(values) > 0 {
		return "no: the reference model stands for no real one"
	}
	keys := slices.Clone(needed)
	for _, a := range t.Plan.Arrays {
		if a.Shape.GPUsPerNode > 0 {
			keys = append(keys, neededGPU...)
			break
		}
	}
	if values, _ := t.Set.Facts("torch"); len(values) > 0 {
		keys = append(keys, neededTorch...)
	}
	var lacking []string
	for _, key := range keys {
		if values, lack := t.Set.Facts(key); len(values) == 0 || lack > 0 {
			lacking = append(lacking, strings.ReplaceAll(key, "_", " "))
		}
	}
	if t.Plan.Spec.Workload.DType == "" {
		lacking = append(lacking, "dtype")
	}
	if len(lacking) == 0 {
		return "yes: every condition is known"
	}
	return "no: not known for every row: " + strings.Join(lacking, ", ")
}
