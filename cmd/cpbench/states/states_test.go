package states

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/slurm/record"
	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// answers makes a scheduler that asks commands written by hand about a run of three tasks, two attempts of it.
func answers(t *testing.T, squeue, sacct string, subs ...submission) (*Told, *folder.Run) {
	t.Helper()
	bin := t.TempDir()
	for name, rows := range map[string]string{"squeue": squeue, "sacct": sacct} {
		body := "#!/bin/sh\ncat <<'EOF'\n" + rows + "\nEOF\n"
		if rows == "down" {
			body = "#!/bin/sh\necho 'sacct: error: Problem talking to the database: Connection refused' >&2\nexit 1\n"
		}
		slurmtest.Executable(t, filepath.Join(bin, name), body)
	}
	run := &folder.Run{Dir: t.TempDir(), Plan: &plan.Plan{Arrays: []plan.Array{{Lengths: []int{1, 1, 1}}}}}
	endings, err := collect.ReadEndings(run)
	if err != nil {
		t.Fatal(err)
	}
	c := &Told{Taken: time.Now(), runs: map[*folder.Run]*submissions{
		run: {endings: endings, arrays: [][]submission{subs}},
	}}
	c.Snapshot, c.Err = record.Ask(t.Context(), &slurm.Slurm{Bin: bin}, record.Query{Names: []string{"a1", "a2"}})
	return c, run
}

const (
	oldEnd      = "|7_0|7|FAILED|1:0|2026-11-30T10:00:00|2026-11-30T10:00:01|2026-11-30T10:00:09|00:10:00|n1|gpu|4G|None|a1"
	running     = "|8|0|8|RUNNING|0|1|2026-11-30T11:00:00|2026-11-30T11:00:01|N/A|10:00|n2|gpu|4G|None|a2|"
	waiting     = "|8|0|8|PENDING|0|1|2026-11-30T11:00:00|N/A|N/A|10:00||gpu|4G|JobHeldUser|a2|"
	runaway     = "|8_0|8|RUNNING|0:0|2026-11-30T11:00:00|2026-11-30T11:00:01|Unknown|00:10:00|n2|gpu|4G|None|a2"
	special     = "|8|0|8|SPECIAL_EXIT|0|1|2026-11-30T11:00:00|2026-11-30T11:00:01|2026-11-30T23:00:00|10:00||gpu|4G|job requeued in held state|a2|"
	other       = "|8|1|9|RUNNING|0|0|2026-11-30T11:00:00|2026-11-30T11:00:01|N/A|10:00|n2|gpu|4G|None|a2|"
	otherBooked = "|8_1|9|RUNNING|0:0|2026-11-30T11:00:00|2026-11-30T11:00:01|Unknown|00:10:00|n2|gpu|4G|None|a2"
	requeued    = "|8_0|8|REQUEUED|0:0|2026-11-30T11:00:00|2026-11-30T11:00:01|2026-11-30T11:00:05|00:10:00|n2|gpu|4G|None|a2"
)

func TestOf(t *testing.T) {
	t.Parallel()
	clock := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	first, second := submission{attempt: 1, name: "a1"}, submission{attempt: 2, name: "a2"}
	long := clock("2026-11-30T09:00:00Z")
	tests := []struct {
		name          string
		squeue, sacct string
		subs          []submission
		files         collect.State
		want          collect.State
	}{
		{
			"a newer attempt runs", running, oldEnd,
			[]submission{second, first},
			collect.State{},
			collect.State{Word: "RUNNING", Started: true, Node: "n2", Since: clock("2026-11-30T11:00:01Z"), Attempt: 2, Restart: 1, Submitted: true, Memory: "4G"},
		},
		{
			"it is held", waiting, oldEnd,
			[]submission{second, first},
			collect.State{},
			collect.State{Word: "PENDING", Attempt: 2, Restart: 1, Submitted: true, Memory: "4G", Reason: "it is held (JobHeldUser)", Advice: "scontrol release 8 lets it go", WontStart: true},
		},
		{
			"cancelled while it waited", other, otherBooked,
			[]submission{{attempt: 2, name: "a2", tasks: []int{0, 1}, asked: time.Now()}},
			collect.State{},
			collect.State{Word: "CANCELLED", Submitted: true, Attempt: 2},
		},
		{
			"not known to accounting, which is silent", other, "down",
			[]submission{{attempt: 2, name: "a2", tasks: []int{0, 1}, asked: long}},
			collect.State{},
			collect.State{},
		},
		{
			"the controller has lost the whole job", "", otherBooked,
			[]submission{{attempt: 2, name: "a2", tasks: []int{0, 1}, asked: long}},
			collect.State{},
			collect.State{Submitted: true, Attempt: 2},
		},
		{
			"no newer attempt has this task", "", oldEnd,
			[]submission{second, first},
			collect.State{},
			collect.State{Word: "FAILED", Exit: "1:0", Started: true, Node: "n1", Since: clock("2026-11-30T10:00:01Z"), Attempt: 1, Submitted: true, Memory: "4G"},
		},
		{
			"the books have not heard of its end", "", runaway,
			[]submission{second},
			collect.State{},
			collect.State{Started: true, Node: "n2", Since: clock("2026-11-30T11:00:01Z"), Attempt: 2, Submitted: true, Memory: "4G"},
		},
		{
			"requeued, as the books tell", "", requeued,
			[]submission{second},
			collect.State{Started: true, Attempt: 2, Node: "n2", Since: long},
			collect.State{Started: true, Node: "n2", Since: clock("2026-11-30T11:00:01Z"), Attempt: 2, Restart: 1, Submitted: true, Memory: "4G"},
		},
		{
			"a later attempt has run here", running, oldEnd,
			[]submission{{attempt: 3, here: true}, second, first},
			collect.State{Started: true, Attempt: 3, Node: "here"},
			collect.State{Started: true, Attempt: 3, Node: "here"},
		},
		{
			"an attempt here had other tasks", "", oldEnd,
			[]submission{{attempt: 3, here: true}, first},
			collect.State{},
			collect.State{Word: "FAILED", Exit: "1:0", Started: true, Node: "n1", Since: clock("2026-11-30T10:00:01Z"), Attempt: 1, Submitted: true, Memory: "4G"},
		},
		{
			"forgotten, by the worker's log", "", "",
			[]submission{first},
			collect.State{Started: true, Attempt: 1, Node: "n1", Since: long},
			collect.State{Started: true, Attempt: 1, Node: "n1", Since: long, Submitted: true},
		},
		{
			"forgotten, and accounting is silent", "", "down",
			[]submission{first},
			collect.State{Started: true, Attempt: 1, Node: "n1", Since: long},
			collect.State{Started: true, Attempt: 1, Node: "n1", Since: long},
		},
		{
			"forgotten, by the ledger", "", "",
			[]submission{{attempt: 1, name: "a1", tasks: []int{0, 1}, asked: long}},
			collect.State{},
			collect.State{Submitted: true, Attempt: 1},
		},
		{
			"not known, and accounting is silent", "", "down",
			[]submission{{attempt: 1, name: "a1", tasks: []int{0, 1}, asked: long}},
			collect.State{},
			collect.State{},
		},
		{
			"cancelled by cpbench before its start", "", "",
			[]submission{{attempt: 1, name: "a1", tasks: []int{0}, cancelled: true}},
			collect.State{},
			collect.State{Word: "CANCELLED", Submitted: true, Attempt: 1},
		},
		{"not among the tasks that were given", "", "", []submission{{attempt: 1, name: "a1", tasks: []int{1, 2}, asked: long}}, collect.State{}, collect.State{}},
		{"never submitted for certain", "", "", []submission{first}, collect.State{}, collect.State{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, run := answers(t, tt.squeue, tt.sacct, tt.subs...)
			if diff := cmp.Diff(tt.want, c.Of(run, 0, 0, tt.files)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHeldAgain: what an administrator has put back into the queue and holds there has not ended, so that its end is not
// known before it has another one.
func TestHeldAgain(t *testing.T) {
	t.Parallel()
	c, run := answers(t, special, "", submission{attempt: 2, name: "a2"})
	s := c.Of(run, 0, 0, collect.State{})
	if outcome, why := collect.Verdict(nil, s); outcome != catalogue.Pending || why != "will not start: job requeued in held state" {
		t.Errorf("%s: %s", outcome, why)
	}
	if e, kept := c.runs[run].endings.Of(collect.Attempt{Attempt: 2}); kept {
		t.Errorf("kept: %+v", e)
	}
}

// TestAnotherName: what a person has given to sbatch under another name is found by that and its id, once it has begun.
func TestAnotherName(t *testing.T) {
	t.Parallel()
	bin, run := t.TempDir(), &folder.Run{Dir: t.TempDir(), Plan: &plan.Plan{Arrays: []plan.Array{{Lengths: []int{1}}}}}
	slurmtest.Executable(t, filepath.Join(bin, "sacct"), "#!/bin/sh\n")
	slurmtest.Executable(t, filepath.Join(bin, "squeue"), "#!/bin/sh\ncat <<'EOF'\n|12|0|12|RUNNING|0|0|2026-11-30T11:00:00|2026-11-30T11:00:01|N/A|10:00|n2|gpu|4G|None|mine|\n"+
		"|13|0|13|FAILED|256|0|2026-11-30T11:00:00|2026-11-30T11:00:01|2026-11-30T11:00:02|10:00|n1|gpu|4G|None|mine|\nEOF\n")
	dir := run.LogDir(0, 0, 1, 0)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		run.Script(0, 1): "#!/bin/bash\n", filepath.Join(dir, folder.EventsFile): `{"msg":"start","job":"12_0","name":"mine","node":"n2","pid":7}` + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	subs := submissionsOf(run)
	if diff := cmp.Diff([]string{"mine"}, subs.names(run)); diff != "" {
		t.Fatalf("names (-want +got):\n%s", diff)
	}
	snap, err := record.Ask(t.Context(), &slurm.Slurm{Bin: bin}, record.Query{Names: subs.names(run)})
	if err != nil {
		t.Fatal(err)
	}
	c := &Told{Snapshot: snap, Taken: time.Now(), runs: map[*folder.Run]*submissions{run: subs}}
	if s := c.Of(run, 0, 0, collect.FolderState(run, 0, 0)); s.Word != "RUNNING" || s.Node != "n2" {
		t.Errorf("%+v", s)
	}
}

// TestForeign: a site may hide the jobs of others, so its silence about another user's run means nothing.
func TestForeign(t *testing.T) {
	t.Parallel()
	c, run := answers(t, "", "", submission{attempt: 1, name: "a1", tasks: []int{0}})
	if s := c.Of(run, 0, 0, collect.State{}); !s.Submitted {
		t.Errorf("one's own: %+v", s)
	}
	c.runs[run].hidden = true
	if s := c.Of(run, 0, 0, collect.State{}); s != (collect.State{}) {
		t.Errorf("another user's: %+v", s)
	}
	begun := collect.State{Started: true, Attempt: 1, Since: time.Now().Add(-time.Hour)}
	if s := c.Of(run, 0, 0, begun); s != begun {
		t.Errorf("another user's that has begun: %+v", s)
	}
}

// TestMeasuredLater: what was measured by a later attempt on this machine is no matter of Slurm's, whatever
// became of the attempt before.
func TestMeasuredLater(t *testing.T) {
	t.Parallel()
	c, run := answers(t, "", "|7_0|7|OUT_OF_MEMORY|0:125|2026-11-30T10:00:00|2026-11-30T10:00:01|2026-11-30T10:00:09|00:10:00|n1|gpu|4G|None|a1", submission{attempt: 2, here: true}, submission{attempt: 1, name: "a1"})
	measured := collect.State{Started: true, Attempt: 2}
	if s := c.Of(run, 0, 0, measured); s != measured {
		t.Errorf("%+v", s)
	}
}

// TestHere: without Slurm a task runs while its process does.
func TestHere(t *testing.T) {
	t.Parallel()
	c, run := answers(t, "", "", submission{attempt: 1, here: true})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dir := run.LogDir(0, 0, 1, 0)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mine := collect.State{Started: true, Attempt: 1, Node: host}
	for name, tt := range map[string]struct {
		node string
		pid  int
		word string
	}{
		"it is there": {host, os.Getpid(), "RUNNING"}, "it is gone": {host, gone.Process.Pid, ""}, "on another machine": {"not-" + host, os.Getpid(), ""},
	} {
		line := fmt.Sprintf(`{"msg":"start","job":"","node":%q,"pid":%d}`+"\n", tt.node, tt.pid)
		if err := os.WriteFile(filepath.Join(dir, folder.EventsFile), []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
		want := mine
		want.Word = tt.word
		if got := c.Of(run, 0, 0, mine); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestGrace: right after a submission Slurm may not show it.
func TestGrace(t *testing.T) {
	t.Parallel()
	c, run := answers(t, "", "", submission{attempt: 1, name: "a1", tasks: []int{0}, asked: time.Now()})
	if s := c.Of(run, 0, 0, collect.State{}); !s.InGrace || !s.Submitted {
		t.Errorf("%+v", s)
	}
}

// TestKeeps: a final state outlives Slurm's memory, but not a later restart of the task.
func TestKeeps(t *testing.T) {
	t.Parallel()
	c, run := answers(t, "|7|0|7|NODE_FAIL|0|0|2026-11-30T10:00:00|2026-11-30T10:00:01|2026-11-30T10:00:09|10:00|n1|gpu|4G|NodeDown|a1|", "", submission{attempt: 1, name: "a1"})
	want := c.Of(run, 0, 0, collect.State{})
	if want.Word != "NODE_FAIL" || want.InGrace {
		t.Fatalf("%+v", want)
	}
	if doubts := c.Doubts(t.Context()); doubts != nil {
		t.Fatalf("%q", doubts)
	}
	later := Remember([]*folder.Run{run})
	later.runs[run].arrays[0] = []submission{{attempt: 1, name: "a1"}}
	if diff := cmp.Diff(want, later.Of(run, 0, 0, collect.State{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	restarted := collect.State{Started: true, Attempt: 1, Restart: 1, Node: "n3"}
	if got := later.Of(run, 0, 0, restarted); got.Word != "" || got.Node != "n3" {
		t.Errorf("of an older run: %+v", got)
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "it's.out")
	if got := lastLine(path); got != "" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x\n", 5000)+"  the last one \n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := lastLine(path); got != "the last one" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("ü", 4000)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := lastLine(path); len([]rune(got)) != 203 || !strings.HasSuffix(got, "...") {
		t.Errorf("%d runes: %q", len([]rune(got)), got)
	}
}
