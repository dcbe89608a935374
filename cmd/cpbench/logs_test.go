package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
)

func TestAssignments(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Axes: []plan.Axis{
		{Name: "cp", Values: []string{"1", "4"}}, {Name: "args", Values: []string{"a", "a,b=1", "a,b=1,c"}}, {Name: "tokens", Values: []string{"16"}},
	}}
	for text, want := range map[string]map[int]string{
		"3f2a":                        nil,
		"cp=4":                        {0: "4"},
		"cp=4,tokens=max-fit":         {0: "4", 2: "max-fit"},
		" cp = 4 , tokens=16":         {0: "4", 2: "16"},
		"args=a,b=1,cp=1":             {0: "1", 1: "a,b=1"},
		"cp=1,args=a,b=1,c,tokens=16": {0: "1", 1: "a,b=1,c", 2: "16"},
	} {
		got, err := assignments(p, text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"gpus=4":         `unknown axis "gpus"`,
		"cp=4,gpus=1":    `unknown axis "gpus"`,
		"cp=4,cp=1":      "gives cp twice",
		"cp=2":           `cp has no value "2"`,
		"cp=1,args=a,z":  `unknown axis "z"`,
		"cp=1,args=a,b":  `args has no value "a,b"`,
		"=,":             `unknown axis ""`,
		"tokens=max-fit": "",
	} {
		_, err := assignments(p, text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestEventText(t *testing.T) {
	t.Parallel()
	tr := &trail{of: chosen{Pair: plan.Pair{Point: plan.Point{ID: "aa"}, Repeat: 1}}}
	for line, want := range map[string]string{
		`{"time":"2026-11-30T13:00:00.123456+01:00","level":"INFO","msg":"start","job":"7_0","pid":12,"restart":0}`: "2026-11-30T12:00:00Z start job=7_0 pid=12 restart=0",
		`{"time":"x","level":"ERROR","msg":"no way","error":"a \"b\" c"}`:                                           `x ERROR no way error="a \"b\" c"`,
		`{"level":"INFO","msg":"result","point":"aa","repeat":1,"outcome":"ok"}`:                                    " result outcome=ok",
		`{"level":"INFO","msg":"result","point":"bb","repeat":1,"outcome":"ok"}`:                                    "",
		`{"level":"INFO","msg":"result","point":"aa","repeat":2,"outcome":"ok"}`:                                    "",
		`{"level":"INFO","msg":"cut o`:                                             `{"level":"INFO","msg":"cut o`,
		`{"level":"INFO","msg":"run","what":"0123456789abcdef-r1-run-1"}`:          "",
		`{"level":"INFO","msg":"launch","what":"point 0123456789abcdef repeat 1"}`: "",
		`no JSON`: "no JSON",
	} {
		if got := string(tr.eventText([]byte(line))); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestTrailFollowsLines: a line is printed when it is whole, each file's behind its name, and what belongs to another
// point is not.
func TestTrailFollowsLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tr := &trail{of: chosen{Pair: plan.Pair{Point: plan.Point{ID: "aa"}, Repeat: 1}}, out: &out, read: map[string]int64{}, others: map[string]bool{}}
	path := filepath.Join(t.TempDir(), "rank-0.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	look := func(last bool) {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() // read only
		if _, err := tr.printFile(f, logFile{path, labelled("1", tr.section(path))}, last); err != nil {
			t.Fatal(err)
		}
	}
	write("== point bb repeat 1, now\nof another\n== point aa repeat 10, now\nof another\n== point aa repeat 1, now\n0: of rank 0\n1: of ra")
	look(false)
	write("nk 1\n")
	look(false)
	write("no label, no end")
	look(false)
	look(true)
	want := "==> " + path + " <==\n== point aa repeat 1, now\n1: of rank 1\nno label, no end\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
