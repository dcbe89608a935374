package trail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
)

func TestEventText(t *testing.T) {
	t.Parallel()
	tr := &Trail{of: Execution{Pair: plan.Pair{Point: plan.Point{ID: "aa"}, Repeat: 1}}}
	for line, want := range map[string]string{
		`{"time":"2026-11-30T13:00:00.123456+01:00","level":"INFO","msg":"start","job":"7_0","pid":12,"restart":0}`: "2026-11-30T12:00:00Z start job=7_0 pid=12 restart=0",
		`{"time":"x","level":"ERROR","msg":"no way","error":"a \"b\" c"}`:                                           `x ERROR no way error="a \"b\" c"`,
		`{"level":"INFO","msg":"result","point":"aa","repeat":1,"outcome":"ok","reason":""}`:                        " result outcome=ok",
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
	tr := New(nil, Execution{Pair: plan.Pair{Point: plan.Point{ID: "aa"}, Repeat: 1}}, 1, &out, func(path string) string { return path })
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
	write("\n   2: of rank 2 \xff" + strings.Repeat("drawn over ", longest/8) + "\n") // dropped whole
	write("no label, no end")
	look(false)
	look(true)
	if err := tr.out.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "==> " + path + " <==\n== point aa repeat 1, now\n1: of rank 1\n\nno label, no end\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTrailTakesLongLines: a bar that is drawn over and over is one line without an end. It is printed in pieces, each
// once, and is never held as a whole.
func TestTrailTakesLongLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tr := New(nil, Execution{}, AllRanks, &out, func(string) string { return "bar" })
	path := filepath.Join(t.TempDir(), "bar.log")
	bar := strings.Repeat("42% |####    |\r", 20_000)
	if err := os.WriteFile(path, []byte(bar), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, last := range []bool{false, false, true} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.printFile(f, logFile{path, whole}, last); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if held := len(bar) - int(tr.at(path).bytes); held >= longest {
			t.Errorf("%d bytes are held back", held)
		}
	}
	if err := tr.out.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(strings.TrimPrefix(out.String(), "==> bar <==\n"), "\n", ""); got != bar {
		t.Errorf("%d bytes of %d were printed", len(got), len(bar))
	}
}
