// Package templates holds the text files that cpbench fills in or writes out.
package templates

import _ "embed" // the files below

// JobScript is the template of an array's batch script.
//
//go:embed job.sbatch.tmpl
var JobScript string

// Setup defines the template "setup" of the other scripts: the site's set-up lines, each checked.
//
//go:embed setup.sbatch.tmpl
var Setup string

// ProbeScript is the template of the batch script by which cpbench doctor looks at a compute node.
//
//go:embed probe.sbatch.tmpl
var ProbeScript string

// StarterModel is the sweep that `cpbench init` writes.
//
//go:embed starter-model.yaml
var StarterModel string

// StarterLLM is the sweep that `cpbench init --kind llm` writes.
//
//go:embed starter-llm.yaml
var StarterLLM string

// CpbenchTorch is the rank side of the protocol for PyTorch models. Every run folder holds it in lib.
//
//go:embed python/cpbench_torch.py
var CpbenchTorch []byte

// CollectScript is the template of the batch script that collects a run.
//
//go:embed collect.sbatch.tmpl
var CollectScript string
