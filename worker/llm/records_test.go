package llm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/plan"
	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/llmtest/visit"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/rejudge"
	"cpbench/worker/llm/requestlog"
	"cpbench/worker/result"
)

// exchange plays a script to one request, in virtual time.
func exchange(t *testing.T, s llmtest.Script) group.Line {
	t.Helper()
	x, epoch := visit.Script(t, s)
	f, texts := account.Observe(x, epoch, account.Rules{NeedDone: true})
	return group.Line{Role: "stream", Record: account.Record{Facts: f}, Texts: texts}
}

// wrote writes groups into the log of a new process and returns its file.
func wrote(t *testing.T, dir string, keep bool, reports ...*group.Report) string {
	t.Helper()
	rs, err := openRecords(dir, keep)
	if err != nil {
		t.Fatal(err)
	}
	l := &living{seen: &dialect.Server{Kind: dialect.VLLM, Model: dialect.Card{ID: "tiny", Root: "org/tiny"}, Models: []dialect.Card{{ID: "tiny", Root: "org/tiny"}}}}
	var w plan.Workload
	w.MaxTokens = 40
	for i, rep := range reports {
		r := &result.Result{
			Run: "it's a run", Plan: "d1", Key: "k1", Point: "0123456789abcdef", Params: []result.Param{{Name: "label", Value: "A"}, {Name: "ctx", Value: "400"}},
			Repeat: i + 1, Attempt: 1, Provenance: map[string]string{"cpbench": "v1"},
		}
		if err := rs.group(w, l, 0, rep, nil, r, ending{}); err != nil {
			t.Fatal(err)
		}
	}
	name := rs.lines.Name()
	if err := rs.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestLogIsComplete makes every number again from the file alone, for every shape that a server has shown, each as a
// group by itself, and for all of them as one group: they are exactly those that are stored.
func TestLogIsComplete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reports []*group.Report
		all := &group.Report{Begun: time.Now()}
		for _, shape := range llmtest.Shapes() {
			line := exchange(t, shape.Script)
			one := &group.Report{Begun: time.Now(), Lines: []group.Line{line}}
			one.Sum()
			reports = append(reports, one)
			all.Lines = append(all.Lines, line)
		}
		all.Sum()
		file := wrote(t, t.TempDir(), false, append(reports, all)...)
		groups, problems, err := requestlog.Read(file)
		if err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		if len(groups) != len(reports)+1 || len(groups[len(reports)].Requests) != len(reports) {
			t.Fatalf("%d groups of %d", len(groups), len(reports)+1)
		}
		row := rejudge.Row{Counted: true}
		for i := range groups {
			row.Groups = append(row.Groups, &groups[i])
		}
		rows := []rejudge.Row{row}
		rejudge.Again(rows)
		for _, p := range rows[0].Changed {
			t.Error(p)
		}
		// A number that is not the one of the log is found.
		groups[0].Requests[0].Numbers.TTFT = nil
		rows[0].Changed = nil
		if rejudge.Again(rows); len(rows[0].Changed) != 1 || !strings.Contains(rows[0].Changed[0].Text, "ttft_s is null in the file and 0.11 now") {
			t.Errorf("%v", rows[0].Changed)
		}
	})
}

// TestLineOfAGroup: the summary of a group has what the contract asks for, and no text.
func TestLineOfAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := exchange(t, llmtest.Frames(llmtest.First, llmtest.Pace, llmtest.Role(), llmtest.Content("hello"), llmtest.Finish("stop"), llmtest.UsageFrame(7, 2), llmtest.Done))
		n := 7
		line.Request = group.Request{Prompt: prompt.Prompt{SHA256: "abc", Target: 8, Tokens: &n}, Salt: "s1", MaxTokens: 40}
		rep := &group.Report{Begun: time.Now(), Lines: []group.Line{line}, Cache: group.CacheCheck{Label: group.Cold}}
		rep.Sum()
		dir := t.TempDir()
		file := wrote(t, dir, true, rep)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "hello") {
			t.Error("the log holds text")
		}
		var got struct {
			Schema                    int
			Plan, Label, Key, Cpbench string
			Server                    struct{ Models []dialect.Card }
			Settings                  struct{ Max_tokens int }     //nolint:revive // named as in the file
			Cache                     struct{ Cache_label string } //nolint:revive // named as in the file
			Requests                  []briefLine
			Group                     account.Group
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
			t.Fatal(err)
		}
		two, seven := int64(2), int64(7)
		want := got
		want.Schema, want.Plan, want.Label, want.Key, want.Cpbench = 1, "d1", "A", "k1", "v1"
		want.Server.Models = []dialect.Card{{ID: "tiny", Root: "org/tiny"}}
		want.Settings.Max_tokens, want.Cache.Cache_label = 40, "cold"
		want.Requests = []briefLine{{Role: "stream", Salt: "s1", Reserved: 40, SHA256: "abc", Target: 8, Measured: &n, Usage: &account.Usage{Prompt: &seven, Completion: &two}}}
		if d := cmp.Diff(want, got); d != "" || got.Group.Streams != 1 {
			t.Error(d)
		}
		texts, err := os.ReadFile(filepath.Join(dir, "texts.jsonl"))
		if err != nil || !strings.Contains(string(texts), "hello") {
			t.Errorf("%s %v", texts, err)
		}
	})
}

// A second process under the same attempt, of a script that was given to sbatch twice, leaves lines of another identity.
func TestTakes(t *testing.T) {
	t.Parallel()
	rep := &group.Report{Begun: time.Now().Add(-time.Hour)}
	rep.Sum()
	later := &group.Report{Begun: time.Now()}
	later.Sum()
	dir := filepath.Join(t.TempDir(), "it's a log")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	first, second := wrote(t, dir, true, rep), wrote(t, dir, true, later)
	if d := cmp.Diff([]string{first, second}, requestlog.Files(dir)); d != "" || first == second {
		t.Fatal(d)
	}
	var all []requestlog.Group
	for _, file := range requestlog.Files(dir) {
		groups, problems, err := requestlog.Read(file)
		if err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		all = append(all, groups...)
	}
	if len(all) != 2 || all[0].Take != 0 || all[1].Take != 2 {
		t.Fatalf("%+v", all)
	}
	for take, at := range map[int]time.Time{0: rep.Begun, 2: later.Begun} {
		g := requestlog.Find(all, "0123456789abcdef", 1, 1, 0, at.Add(-time.Minute), at.Add(time.Minute))
		if g == nil || g.Take != take {
			t.Errorf("the result of take %d has %+v", take, g)
		}
	}
}
