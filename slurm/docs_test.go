package slurm_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDocsDirectives: a site's administrator finds every option of our scripts, but for the user's own in slurm.extra.
func TestDocsDirectives(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/slurm.md")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("testdata/script/*.sbatch")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no golden scripts: %v", err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^#SBATCH (--[a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
			switch m[1] {
			case "--switches", "--contiguous", "--wckey":
				continue
			}
			if !regexp.MustCompile("[`( ]" + m[1] + "[`= )]").Match(doc) {
				t.Errorf("%s: docs/slurm.md does not tell of %s", script, m[1])
			}
		}
	}
}
