package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
)

// boxed is a stage with the stand-in for apptainer on PATH and an image that sets those variables itself.
func boxed(t *testing.T, text, image string) *stage {
	t.Helper()
	fake, err := filepath.Abs("../container/testdata/apptainer")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(fake, filepath.Join(bin, "apptainer")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	st := newStage(t, text+"container: {runtime: apptainer, image: model.sif}\n")
	if image != "" {
		if err := os.WriteFile(filepath.Join(st.dir, "model.sif"), []byte(image), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func TestContainer(t *testing.T) {
	st := boxed(t, spec("env", `env: {NCCL_ALGO: "Ring,Tree x={tokens}"}`), "NCCL_ALGO=of the image\nOWN=of the image\nPATH=/bin:/usr/bin\n")
	r, _, _ := st.perform(t.Context(), 0)
	if r.Outcome != catalogue.OK {
		t.Fatalf("%s: %s", r.Outcome, r.Evidence)
	}
	if got := r.Provenance["setting NCCL_ALGO"]; got != "Ring,Tree x=16" {
		t.Errorf("the container saw %q", got)
	}
	log := st.logs()["r1-run-1"]
	for _, want := range []string{"NCCL_ALGO=Ring,Tree x=16\n", "OWN=of the image\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("the program did not see %q:\n%s", want, log)
		}
	}
}

func TestContainerThatDoesNotStart(t *testing.T) {
	st := boxed(t, spec("env"), "PATH=/nowhere\n") // no env in it
	r, _, _ := st.perform(t.Context(), 0)
	if r.Outcome != catalogue.Error || r.Reason != "the container could not be started" || !strings.Contains(r.Evidence, "env") {
		t.Errorf("%s: %s: %s", r.Outcome, r.Reason, r.Evidence)
	}
}

func TestContainerWithoutImage(t *testing.T) {
	st := boxed(t, spec("env"), "")
	if _, err := Open(t.Context(), st.job); err == nil || !strings.Contains(err.Error(), "model.sif is not there") {
		t.Errorf("opened: %v", err)
	}
}
