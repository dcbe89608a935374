package main

import (
	"fmt"
	"os"
	"path/filepath"

	"cpbench/plan"
)

// absent names what a sweep needs in its tasks and what is not there now, for a spec in dir. These are doubts and no
// mistakes: a file may lie on a disk of the node, and a variable may be set before the job is submitted.
func absent(spec *plan.Spec, dir string) []string {
	var out []string
	for _, file := range spec.PromptFiles(dir) {
		if _, err := os.Stat(file); err != nil {
			out = append(out, fmt.Sprintf("the prompts of %s are not there: a task that does not find the file has no prompts (workload.data_dir is the folder, relative to the spec)", file))
		}
	}
	w := &spec.Workload
	if name := w.APIKeyEnv; name != "" && os.Getenv(name) == "" {
		out = append(out, fmt.Sprintf("workload.api_key_env names %s, which is not set here: set it and export it before the run or the submission", name))
	}
	if file := w.APIKeyFile; file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if _, err := os.Stat(file); err != nil {
			out = append(out, fmt.Sprintf("workload.api_key_file: %s is not there", file))
		}
	}
	return out
}
