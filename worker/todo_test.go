package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
)

func TestWhatIsRunAgain(t *testing.T) {
	t.Parallel()
	type past struct {
		attempt, restart int
		outcome          catalogue.Outcome
	}
	tests := []struct {
		name             string
		past             []past // of the point n=2
		attempt, restart int
		again            []string
		want             bool
	}{
		{"nothing yet", nil, 1, 0, nil, true},
		{"ok", []past{{1, 0, catalogue.OK}}, 2, 0, nil, false},
		{"out of memory is an answer", []past{{1, 0, catalogue.OOMDevice}}, 2, 0, nil, false},
		{"error", []past{{1, 0, catalogue.Error}}, 2, 0, nil, false},
		{"cancelled", []past{{1, 0, catalogue.Cancelled}}, 2, 0, nil, true},
		{"infra", []past{{1, 0, catalogue.Infra}}, 2, 0, nil, true},
		{"dirty GPU", []past{{1, 0, catalogue.DirtyGPU}}, 2, 0, nil, true},
		{"cancelled, then restarted by the scheduler", []past{{1, 0, catalogue.Cancelled}}, 1, 1, nil, true},
		{"ok, then restarted by the scheduler", []past{{1, 0, catalogue.OK}}, 1, 1, nil, false},
		{"error asked for by name", []past{{1, 0, catalogue.Error}}, 2, 0, []string{"error"}, true},
		{"another outcome asked for", []past{{1, 0, catalogue.Error}}, 2, 0, []string{"timeout"}, false},
		{"failed asked for", []past{{1, 0, catalogue.Error}}, 2, 0, []string{"failed"}, true},
		{"failed is no answer", []past{{1, 0, catalogue.OOMDevice}}, 2, 0, []string{"failed"}, false},
		{"ok asked for", []past{{1, 0, catalogue.OK}}, 2, 0, []string{"ok"}, true},
		{"asked for and done in this attempt before a restart", []past{{1, 0, catalogue.Error}, {2, 0, catalogue.Error}}, 2, 1, []string{"error"}, false},
		{"ok counts although a later attempt was cancelled", []past{{1, 0, catalogue.OK}, {2, 0, catalogue.Cancelled}}, 3, 0, nil, false},
		{"the newest of two that are not ok counts", []past{{1, 1, catalogue.Error}, {1, 2, catalogue.Cancelled}}, 2, 0, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, small)
			for i := range 3 {
				if i != 1 {
					leave(t, run, pairAt(t, run, 0, i), 1, 0, catalogue.Skipped, nil)
				}
			}
			for _, p := range tt.past {
				leave(t, run, pairAt(t, run, 0, 1), p.attempt, p.restart, p.outcome, nil)
			}
			f := newFake(t, run)
			cfg := f.config()
			cfg.Attempt, cfg.Alloc.Restart, cfg.Again = tt.attempt, tt.restart, tt.again
			if err := Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			want := "" // nothing to do: the workload is not even opened
			if tt.want {
				want = "open n=2 close"
			}
			if got := f.order(); got != want {
				t.Errorf("order = %q, want %q", got, want)
			}
		})
	}
}

// Each attempt and each restart leaves files of its own.
func TestAttemptsAreKeptApart(t *testing.T) {
	t.Parallel()
	run := newRun(t, small)
	f := newFake(t, run)
	for _, at := range [][2]int{{1, 0}, {1, 1}, {2, 0}} {
		cfg := f.config()
		cfg.Attempt, cfg.Alloc.Restart, cfg.Again = at[0], at[1], []string{"ok"}
		cfg.Setup = "1:3" // leaves an error for every pair that is not done
		if at[0] == 1 {
			cfg.Setup = "1:143" // cancelled
		}
		if err := Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	id := pairAt(t, run, 0, 0).ID
	for _, name := range []string{"1.0", "1.1", "2.0"} {
		if _, err := os.Stat(filepath.Join(run.ResultsDir(), id[:2], id+"-r1-a"+name+".json")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(run.LogsDir(), "0-0-a"+name, folder.EventsFile)); err != nil {
			t.Error(err)
		}
	}
	if got := outcomes(t, run); got != "error error error" {
		t.Errorf("outcomes = %s", got)
	}
}

// A file that is no result, or one of another plan, counts as none.
func TestLastIgnoresWhatIsNoResult(t *testing.T) {
	t.Parallel()
	run := newRun(t, small)
	pair := pairAt(t, run, 0, 0)
	shard := filepath.Join(run.ResultsDir(), pair.ID[:2])
	leave(t, run, pair, 1, 0, catalogue.OK, nil)
	path := filepath.Join(shard, pair.ID+"-r1-a1.0.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"cut off":         text[:len(text)/2],
		"of another plan": bytes.ReplaceAll(text, []byte(run.Plan.Digest), []byte("0123456789abcdef")),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Last(run, pair); err != nil || r != nil {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Last(run, pair); err != nil || r == nil {
		t.Errorf("the whole file: got %v, %v", r, err)
	}
}

func TestSetupFailed(t *testing.T) {
	t.Parallel()
	spec := small + "setup: [\"module purge\", \"module load cuda/99 # it's gone\"]\n"
	tests := []struct {
		where    string
		want     string
		reason   string
		evidence string
		err      string
	}{
		{"2:1", "error error error", "set-up line 2 ended with exit code 1", "module load cuda/99 # it's gone", ""},
		{"1:127", "error error error", "set-up line 1 ended with exit code 127", "module purge", ""},
		{"2:143", "cancelled cancelled cancelled", "stopped by a signal in set-up line 2", "module load cuda/99 # it's gone", ""},
		{"2:140", "cancelled cancelled cancelled", "stopped by a signal in set-up line 2", "module load cuda/99 # it's gone", ""},
		{"2:137", "error error error", "set-up line 2 ended with exit code 137", "module load cuda/99 # it's gone", ""},
		{"9:1", "error error error", "set-up line 9 ended with exit code 1", "", ""},
		{"2", "- - -", "", "", `--setup-failed "2" is not LINE:RC`},
		{"x:1", "- - -", "", "", `--setup-failed "x:1" is not LINE:RC`},
	}
	for _, tt := range tests {
		t.Run(tt.where, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, spec)
			f := newFake(t, run)
			cfg := f.config()
			cfg.Setup = tt.where
			if err := Run(t.Context(), cfg); fmt.Sprint(err) != tt.err && (err != nil || tt.err != "") {
				t.Fatalf("error = %v, want %q", err, tt.err)
			}
			if got := outcomes(t, run); got != tt.want || f.order() != "" {
				t.Errorf("outcomes = %s, want %s; phases %q", got, tt.want, f.order())
			}
			if tt.err != "" {
				return
			}
			if r := only(t, run, 0, 1); r.Reason != tt.reason || r.Evidence != tt.evidence {
				t.Errorf("reason %q, evidence %q", r.Reason, r.Evidence)
			}
		})
	}
}

// What cannot work is refused in one line, before anything is started or written.
func TestRefuses(t *testing.T) {
	t.Parallel()
	inTheWay := func(dir string) func(*testing.T, *folder.Run) {
		return func(t *testing.T, run *folder.Run) { // root may write anywhere, but not below a file
			t.Helper()
			path := filepath.Join(run.Dir, dir)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name   string
		edit   func(*Config)
		damage func(*testing.T, *folder.Run)
		want   string
	}{
		{"digest of another plan", func(c *Config) { c.Digest = "0123" }, nil, "the script was written for plan 0123, but"},
		{"array", func(c *Config) { c.Array = 1 }, nil, "array 1 is not in the plan, which has 1"},
		{"negative array", func(c *Config) { c.Array = -1 }, nil, "array -1 is not in the plan"},
		{"task", func(c *Config) { c.Index = 1 }, nil, "task 1 is not in array 0 of the plan, which has 1 tasks"},
		{"kind of a later version", func(c *Config) { c.Workload = nil }, nil, `does not know workload.kind "model"`},
		{"logs", nil, inTheWay("logs"), "the run folder cannot be written here: "},
		{"results", nil, inTheWay("results"), "the run folder cannot be written here: "},
		{"tasks are cut off", nil, func(t *testing.T, run *folder.Run) {
			if err := os.Truncate(filepath.Join(run.Dir, "tasks-0.jsonl"), 40); err != nil {
				t.Fatal(err)
			}
		}, "is cut off at task 0"},
		{"tasks are gone", nil, func(t *testing.T, run *folder.Run) {
			if err := os.Remove(filepath.Join(run.Dir, "tasks-0.jsonl")); err != nil {
				t.Fatal(err)
			}
		}, "tasks-0.jsonl"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t, small)
			f := newFake(t, run)
			cfg := f.config()
			if tt.edit != nil {
				tt.edit(&cfg)
			}
			if tt.damage != nil {
				tt.damage(t, run)
			}
			err := Run(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %v, want one line with %q", err, tt.want)
			}
			if got := f.order(); got != "" {
				t.Errorf("phases: %s", got)
			}
			for _, dir := range []string{run.LogsDir(), run.ResultsDir()} {
				if left, _ := os.ReadDir(dir); len(left) > 0 { // a file in its place holds nothing
					t.Errorf("%s holds %v", dir, left)
				}
			}
		})
	}
}

// The first line of the events tells collect where and when a task started.
func TestEvents(t *testing.T) {
	t.Parallel()
	run := newRun(t, small)
	f := newFake(t, run)
	cfg := f.config()
	cfg.Attempt = 3
	cfg.Alloc = Allocation{Job: "17_4", Restart: 2, Partition: "gpu", Nodes: "n[1-2]"}
	if err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(run.LogDir(0, 0, 3, 2), folder.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	var start map[string]any
	if err := json.Unmarshal(first, &start); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"msg": "start", "job": "17_4", "node": host, "attempt": 3.0, "restart": 2.0, "pid": float64(os.Getpid())} {
		if start[key] != want {
			t.Errorf("%s = %v, want %v", key, start[key], want)
		}
	}
	if n := bytes.Count(text, []byte(`"msg":"result"`)); n != 3 {
		t.Errorf("%d results are told, want 3", n)
	}
	r := only(t, run, 0, 0)
	for key, want := range map[string]string{"host": host, "slurm_job": "17_4", "slurm_partition": "gpu", "slurm_nodes": "n[1-2]", "cpbench": "v0"} {
		if r.Provenance[key] != want {
			t.Errorf("provenance %s = %q, want %q", key, r.Provenance[key], want)
		}
	}
	if _, ok := r.Provenance["node_shared"]; ok {
		t.Error("node_shared is told although the node was not asked for as a whole")
	}
	if r.Attempt != 3 || r.Restart != 2 || r.Plan != run.Plan.Digest || r.Key != run.Plan.Key || r.Run != run.Name() || len(r.Params) != 1 || r.Params[0].Value != "1" {
		t.Errorf("identity: %+v", r)
	}
}

func TestDoubts(t *testing.T) {
	t.Parallel()
	run := newRun(t, strings.Replace(small, "{time: 5m}", "{time: 5m, cpus_per_task: 100000}", 1))
	f := newFake(t, run)
	cfg := f.config()
	cfg.Alloc.Count = 7
	if err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range only(t, run, 0, 2).Warnings {
		got = append(got, string(w.Code))
	}
	if s := strings.Join(got, " "); s != "few_cpus array_differs" {
		t.Errorf("warnings = %s", s)
	}
}
