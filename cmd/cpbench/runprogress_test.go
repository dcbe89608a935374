package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/schollz/progressbar/v3"
)

// TestProgressTellsResults: the bar of a run of one task says how many results have come, and not those of before.
func TestProgressTellsResults(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's a run", "results")
	leave := func(names ...string) {
		for _, name := range names {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Error(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	leave("00/0011-r1-a1.0.json")
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{bar: progressbar.NewOptions(1, progressbar.OptionSetWriter(&out), progressbar.OptionSetVisibility(true))}
		stop := p.watch(dir)
		leave("00/0012-r1-a1.0.json", "ab/ab12-r1-a1.0.json", "ab/ab12-r1-a1.0.samples.jsonl", "ab/.ab12-r2-a1.0.json123")
		time.Sleep(glance + time.Millisecond) // virtual
		synctest.Wait()
		stop()
		if got := out.String(); !strings.Contains(got, "cpbench: 2 results, tasks") {
			t.Errorf("the bar says %q", got)
		}
	})
	if n := countResults(filepath.Join(dir, "nothing")); n != 0 {
		t.Errorf("%d results in a folder that is not there", n)
	}
}
