// Package templates holds the text files that cpbench fills in or writes out.
package templates

import _ "embed" // the files below

// JobScript is the template of an array's batch script.
//
//go:embed job.sbatch.tmpl
var JobScript string

// StarterModel is the sweep that `cpbench init` writes.
//
//go:embed starter-model.yaml
var StarterModel string
