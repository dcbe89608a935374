package host

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder/foldertest"
	"cpbench/worker"
	"cpbench/worker/llm/server"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// TestMain makes this program the server of the tests as well.
func TestMain(m *testing.M) {
	kind := os.Getenv("HOST_TEST_SERVER")
	if kind == "" {
		os.Exit(m.Run())
	}
	fmt.Println(kind, len(os.Getenv("CPBENCH_TOKEN")), os.Getenv("SWEPT"))
	if kind == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	if kind != "broken" {
		http.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
		fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil)) //nolint:gosec // a test
	}
	os.Exit(3)
}

// stage is an open host with the setting of its only point. Tests do not run in parallel: a server's end is that of all
// descendants of this process.
type stage struct {
	*Host
	dir     string // of the logs
	setting plan.Setting
}

func open(t *testing.T, kind, more string) *stage {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "it's a sweep")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "version: 1\nname: own\nenv: {SWEPT: \"it's {way}\"}\nmatrix: {way: [5]}\nworkload:\n  kind: llm\n  label: A\n  cache: cold\n  data: synth\n  ctx: 0\n  concurrency: 1\n  max_tokens: 1\n" +
		"  server: {command: ['" + self + "'], env: {PORT: '{port}', HOST_TEST_SERVER: " + kind + "}}\n" + more
	run := foldertest.New(t, text, foldertest.Options{Runs: dir, Source: filepath.Join(dir, "sweep.yaml"), Binary: self})
	task, err := run.Task(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	job := worker.Job{Run: run, Task: task, LogDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	h, err := Open(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		if left, err := tree.Descendants(); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
	setting, err := run.Plan.At(task.Pairs[0].Point, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &stage{h, job.LogDir, setting}
}

func (s *stage) log(t *testing.T, n int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("server-%d.log", n)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStart(t *testing.T) {
	s := open(t, "plain", "")
	for n := 1; n <= 2; n++ {
		r, err := s.Start(t.Context(), s.setting)
		if err != nil {
			t.Fatal(err)
		}
		if doubt := r.Stop(10 * time.Second); doubt != "" || r.Dead() == nil {
			t.Errorf("after its stop: %q", doubt)
		}
		if got := s.log(t, n); got != "plain 32 it's 5\n" {
			t.Errorf("server %d: %q", n, got)
		}
	}
}

func TestStubborn(t *testing.T) {
	s := open(t, "stubborn", "")
	r, err := s.Start(t.Context(), s.setting)
	if err != nil {
		t.Fatal(err)
	}
	if doubt := r.Stop(200 * time.Millisecond); !strings.Contains(doubt, "ignored TERM") {
		t.Errorf("%q", doubt)
	}
}

func TestBroken(t *testing.T) {
	s := open(t, "broken", "")
	_, err := s.Start(t.Context(), s.setting)
	if dead := new(server.Dead); !errors.As(err, &dead) || !strings.Contains(dead.Tail, "broken") {
		t.Errorf("%v", err)
	}
}

// withGPUs puts the stand-in for nvidia-smi first on PATH.
func withGPUs(t *testing.T, foreign bool) {
	t.Helper()
	text, err := os.ReadFile("../../gpu/source/testdata/nvidia-smi")
	if err != nil {
		t.Fatal(err)
	}
	if !foreign {
		text = []byte(strings.Replace(string(text), "echo 'GPU-aaaa, 4242,", ": '", 1))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), text, 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

const twoGPUs = "resources: {gpus_per_node: 2}\n"

func TestUnfit(t *testing.T) {
	withGPUs(t, true)
	s := open(t, "plain", twoGPUs)
	_, err := s.Start(t.Context(), s.setting)
	if unfit := new(Unfit); !errors.As(err, &unfit) || unfit.Outcome != catalogue.DirtyGPU || !strings.Contains(unfit.Evidence, "4242") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "server-1.log")); err == nil {
		t.Error("a server was started")
	}
}

func TestDuring(t *testing.T) {
	withGPUs(t, false)
	s := open(t, "plain", twoGPUs)
	r, err := s.Start(t.Context(), s.setting)
	if err != nil {
		t.Fatal(err)
	}
	res := &result.Result{Metrics: map[string]*float64{}, Provenance: map[string]string{}}
	s.Enter(res, 1, r)
	done := false
	r.During(t.Context(), func() { done = true }).Into(res)
	if doubt := r.Stop(10 * time.Second); doubt != "" {
		t.Error(doubt)
	}
	if v := res.Metrics[catalogue.TemperatureMax]; !done || v == nil || *v != 40 || res.Provenance["gpu"] != "Fake H200" {
		t.Errorf("%v %v %v", done, v, res.Provenance)
	}
}
