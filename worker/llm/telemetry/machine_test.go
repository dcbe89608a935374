package telemetry

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/worker/llm/telemetry/reading"
)

// TestSocketDir: a folder for the sockets of ssh is private, short, gone afterwards, and made only where ssh is used.
func TestSocketDir(t *testing.T) {
	for name, tmp := range map[string]string{"as it is": os.TempDir(), "not there": "/tmp/there is no such", "long": filepath.Join(t.TempDir(), strings.Repeat("x", 60))} {
		if name == "long" {
			if err := os.Mkdir(tmp, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("TMPDIR", tmp)
		w, err := Begin(Options{Hosts: []Host{{Name: "gone", SSH: "127.0.0.1:1"}}, Interval: time.Hour, Timeout: time.Millisecond, MaxParallel: 1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if info, err := os.Stat(w.dir); err != nil || info.Mode().Perm() != 0o700 || len(w.dir) > 90 {
			t.Errorf("%s: %s: %v %v", name, w.dir, info, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(w.dir); err == nil {
			t.Errorf("%s is left", w.dir)
		}
	}
}

// This machine is read for real, without ssh and what it needs.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	w, err := Begin(Options{Hosts: []Host{{Name: "here", Host: reading.Host{NICs: []string{"lo"}}}}, Interval: time.Hour, Timeout: time.Minute, MaxParallel: 1, Lines: &lines})
	if err != nil {
		t.Fatal(err)
	}
	if w.dir != "" {
		t.Errorf("the folder %s is for nobody", w.dir)
	}
	w.targets[0].mu.Lock()
	more, kept := w.targets[0].more, w.targets[0].kept
	w.targets[0].mu.Unlock()
	if len(kept) == 0 {
		<-more
	}
	began := time.Now()
	win := w.Over(t.Context(), began, began)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	var last Sample
	for line := range strings.Lines(lines.String()) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatal(err)
		}
		if len(last.Errors) > 0 {
			t.Error(last.Errors)
		}
	}
	if !last.Terminal || last.Memory["MemTotal"] == 0 || last.NICs[0].Interval == nil || last.NICs[0].Kernel["rx_bytes"].Delta == nil {
		t.Errorf("%+v", last)
	}
	if len(win.Targets) != 1 || win.Errors != 0 {
		t.Errorf("%+v", win)
	}
}
