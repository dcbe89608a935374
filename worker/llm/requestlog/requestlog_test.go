package requestlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cpbench/worker/llm/requestlog"
)

// head is the identity of a line, as it stands at its beginning.
func head(kind, run string, repeat int) string {
	return fmt.Sprintf(`{"schema":1,"kind":%q,"run":%q,"plan":"d1","label":"A","point":"p1","params":[{"name":"label","value":"A"},{"name":"ctx","value":"400"}],"repeat":%d,"attempt":1,"restart":0`, kind, run, repeat)
}

func stream(run string, repeat, n int) string {
	return head("request", run, repeat) + fmt.Sprintf(`,"stream":%d,"role":"stream","facts":{"schema":1,"kinds":"0"},"numbers":{}}`, n) + "\n"
}

func summary(run string, repeat, streams int) string {
	return head("group", run, repeat) + fmt.Sprintf(`,"begun":"2026-11-30T10:00:00Z","outcome":"","group":{"streams":%d}}`, streams) + "\n"
}

// write makes a file in a folder with a blank and a quote in its name.
func write(t *testing.T, name, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "it's a log")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRead: what cannot be read is told with its line, and the rest is kept.
func TestRead(t *testing.T) {
	t.Parallel()
	one := stream("r", 1, 0) + stream("r", 1, 1) + summary("r", 1, 2)
	two := stream("r", 2, 0) + summary("r", 2, 1)
	for _, c := range []struct {
		name, text string
		groups     []int // their repeats
		problems   []string
	}{
		{"whole", head("preflight", "r", 1) + "}\n" + one + two, []int{1, 2}, nil},
		{"a broken line of a stream", strings.Replace(one, `"stream":1`, `"stream":}`, 1) + two, []int{2}, []string{":2: no line of a request log", ":3: the group has 2 streams, and 1 lines"}},
		{"a broken line of another kind", "what?\n" + one + two, []int{1, 2}, []string{":1: no line of a request log"}},
		{"cut off", one + two[:len(two)-30], []int{1}, []string{":5: the last line is cut off", ":4: 1 streams have no summary"}},
		{"a newer line", strings.Replace(one, `"schema":1,"kind":"group"`, `"schema":2,"kind":"group"`, 1) + two, []int{2}, []string{":3: the line has schema 2, and this cpbench reads 1: it was written by a newer version", ":1: 2 streams have no summary"}},
		{"newer facts", strings.Replace(one, `"facts":{"schema":1`, `"facts":{"schema":2`, 1) + two, []int{2}, []string{":1: the request has schema 2", ":3: the group has 2 streams, and 1 lines"}},
		{"of another type", strings.Replace(one, `"streams":2`, `"streams":"two"`, 1) + two, []int{2}, []string{":3: no line of a request log"}},
		{"empty", "", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, "requests.jsonl", c.text)
			groups, problems, err := requestlog.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			var repeats []int
			for _, g := range groups {
				repeats = append(repeats, g.Repeat)
				if len(g.Requests) != g.Sum.Streams || g.File != path || g.Line == 0 {
					t.Errorf("%+v", g)
				}
			}
			if d := cmp.Diff(c.groups, repeats); d != "" {
				t.Error(d)
			}
			if len(problems) != len(c.problems) {
				t.Fatalf("%v", problems)
			}
			for i, p := range problems {
				if !strings.HasPrefix(p.String(), path+c.problems[i]) {
					t.Errorf("%s", p)
				}
			}
		})
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	one := stream("r", 1, 0) + stream("r", 1, 1) + summary("r", 1, 2)
	two := stream("r", 2, 0) + summary("r", 2, 1)
	old := strings.ReplaceAll(strings.ReplaceAll(two, `"plan":"d1","label":"A",`, ""), `"schema":1,"kind"`, `"kind"`)
	other := strings.ReplaceAll(one, `"run":"r"`, `"run":"other"`)
	for _, c := range []struct {
		name, present string
		logs          []string
		want          string // added
		err, hint     string
		problems      int
	}{
		{"a new file", "", []string{head("preflight", "r", 1) + "}\n" + one, two}, one + two, "", "", 0},
		{"behind another run", other, []string{one}, one, "", "", 0},
		{"a text never goes in", "", []string{one + head("text", "r", 1) + `,"content":"secret words"}` + "\n"}, one, "", "", 0},
		{"a line that is none is left out", "", []string{"what?\n" + one}, one, "", "", 1},
		{"lines of an older version", "", []string{old}, strings.ReplaceAll(old, `{"kind"`, `{"label":"A","plan":"d1","kind"`), "", "", 0},
		{"of an older version and there", two, []string{old}, "", "stream 0 of run r, label ", "", 0},
		{"there", other + one, []string{one}, "", "stream 0 of run r, label A, ctx=400, repeat 1, attempt 1.0 is in FILE:4 already, so nothing was written", "", 0},
		{"some are there", other + one, []string{one, two}, "", "is in FILE:4 already", fmt.Sprintf("if the export of run r broke off, truncate -s %d takes", len(other)), 0},
		{"a group alone is there", summary("r", 2, 1), []string{two}, "", "the group of run r", "truncate -s 0", 0},
		{"twice among the sources", "", []string{one, one}, "", "stream 0 of run r", "", 0},
		{"the last line is cut off", other + one[:len(one)-9], []string{two}, "", "FILE:6: the last line is cut off", fmt.Sprintf("if the export of run r broke off, truncate -s %d takes", len(other)), 0},
		{"cut off in a file that is not ours", "what?\n" + one[:9], []string{two}, "", "FILE:2: the last line is cut off", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, "all.jsonl", c.present)
			var sources []requestlog.Source
			for _, text := range c.logs {
				sources = append(sources, requestlog.Source{Path: write(t, "requests.jsonl", text), Plan: "d1"})
			}
			n, problems, err := requestlog.Append(t.Context(), path, sources)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(c.err, "FILE", path))) {
				t.Errorf("%v", err)
			}
			hint := ""
			var dup *requestlog.Duplicate
			var torn *requestlog.Torn
			if errors.As(err, &dup) {
				hint = dup.Partial
			}
			if errors.As(err, &torn) {
				hint = torn.Partial
			}
			if (c.hint == "") != (hint == "") || !strings.Contains(hint, c.hint) {
				t.Errorf("hint %q", hint)
			}
			if len(problems) != c.problems {
				t.Errorf("%v", problems)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.present+c.want, string(got)); d != "" || n != strings.Count(c.want, "\n") {
				t.Errorf("%d lines: %s", n, d)
			}
		})
	}
}

// Many processes at the same time add each its own run, and of two that add the same one is refused.
func TestAppendTogether(t *testing.T) {
	t.Parallel()
	path := write(t, "all.jsonl", "")
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		log := write(t, "requests.jsonl", stream(fmt.Sprint("run ", i/2), 1, 0)+summary(fmt.Sprint("run ", i/2), 1, 1))
		wg.Go(func() {
			_, _, errs[i] = requestlog.Append(t.Context(), path, []requestlog.Source{{Path: log, Plan: "d1"}})
		})
	}
	wg.Wait()
	for i := 0; i < len(errs); i += 2 {
		if (errs[i] == nil) == (errs[i+1] == nil) {
			t.Errorf("%v and %v", errs[i], errs[i+1])
		}
	}
	groups, problems, err := requestlog.Read(path)
	if err != nil || len(problems) > 0 || len(groups) != len(errs)/2 {
		t.Errorf("%d groups, %v, %v", len(groups), problems, err)
	}
}

// A file that another process holds is waited for until the end of the context, and not touched.
func TestAppendWaits(t *testing.T) {
	t.Parallel()
	path := write(t, "all.jsonl", "")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	log := []requestlog.Source{{Path: write(t, "requests.jsonl", summary("r", 1, 0)), Plan: "d1"}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, err := requestlog.Append(ctx, path, log)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("%s %v", text, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if n, _, err := requestlog.Append(t.Context(), path, log); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
