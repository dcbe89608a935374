package inside

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/tree"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	got := settings(map[string]string{"A": "1", "B": "2", "GONE": "3"}, "A=1\nB=other = x\nC=4\n")
	if diff := cmp.Diff(map[string]string{"setting A": "1", "setting B": "other = x", "setting GONE": "(not set)"}, got); diff != "" {
		t.Error(diff)
	}
}

// Not parallel: a look that is cut off ends all descendants of this process.
func TestLook(t *testing.T) {
	env := exec.Command("env")
	env.Env = []string{"PATH=/usr/bin:/bin", "SWEPT=it's 5"}
	got, err := Look(t.Context(), env, map[string]string{"SWEPT": "x"})
	if err != nil || got["setting SWEPT"] != "it's 5" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Look(t.Context(), exec.Command("sh", "-c", "echo no such image >&2; exit 255"), nil); err == nil || !strings.Contains(err.Error(), "exit status 255: no such image") {
		t.Errorf("a container that does not start: %v", err)
	}
	if _, err := Look(t.Context(), exec.Command("/nowhere/apptainer"), nil); err == nil || !strings.Contains(err.Error(), "/nowhere/apptainer") {
		t.Errorf("a runtime that is not there: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := Look(ctx, exec.Command("sleep", "60"), nil); err == nil || err.Error() != "enough" {
		t.Errorf("cut off: %v", err)
	}
	if left, err := tree.Descendants(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
