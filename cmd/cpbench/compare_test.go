package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/collect/compare"
	"cpbench/collect/compare/cell"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/llmtest"
)

// compareRuns compares, and returns the report, what was said, and the exit code.
func (s *serving) compareRuns(args ...string) (*compare.Report, string, int) {
	s.Helper()
	out, errs, code := s.run(append([]string{"compare", "--json"}, args...)...)
	r := &compare.Report{}
	if out != "" {
		if err := json.Unmarshal([]byte(out), r); err != nil {
			s.Fatalf("%v: %s", err, out)
		}
	}
	return r, errs, code
}

// TestCompareServers goes from a spec with two servers to a verdict: B answers four times as fast, in turns with A.
func TestCompareServers(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{CountCached: true, Prefill: 60 * time.Millisecond, PerFrame: 8 * time.Millisecond})
	fast := llmtest.New(llmtest.Config{CountCached: true, Prefill: 15 * time.Millisecond, PerFrame: 2 * time.Millisecond})
	live, err := llmtest.Listen(fast)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	s.variants("zip: [{label: [A, B], at: [\""+s.url+"\", \""+live.URL+"\"]}]\nrepeats: 4", "  server: {url: \"{at}\"}\n  cache: cold\n  ctx: [0, 300]\n  concurrency: 2\n  max_tokens: 12\n")
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	r, errs, code := s.compareRuns(s.onlyRun(), "--by", "label")
	if code != exitDone || len(r.Rows) != 2 || r.A.Name != "A" {
		t.Fatalf("exit %d, %d rows\n%s", code, len(r.Rows), errs)
	}
	for _, row := range r.Rows {
		for _, c := range row.Cells {
			switch c.Metric {
			case catalogue.TTFTSeconds, catalogue.DecodeTokensPerSecond:
				if c.Verdict != cell.Faster || c.Pairs != 4 || c.Method != "paired by repeat of one turn" {
					t.Errorf("%v %s: %s with %d pairs, %s", row.Values, c.Metric, c.Verdict, c.Pairs, c.Method)
				}
			}
		}
		if ratio := *row.Cells[0].Estimate; ratio > 0.6 || row.A.Streams != 8 || row.A.Units != 4 {
			t.Errorf("ratio %v, %+v", ratio, row.A)
		}
	}
	if !r.Order.Interleaved || len(r.Order.Turns) < 4 {
		t.Errorf("order %+v", r.Order)
	}
	page, errs, code := s.run("compare", s.onlyRun()) // by its labels, without being told
	if code != exitDone || !strings.Contains(page, "# Comparison: B against A") || !strings.Contains(page, "`workload.server.url`") && !strings.Contains(page, "Under test: `label`, `at`") {
		t.Errorf("exit %d\n%s%s", code, page, errs)
	}
}

// TestCompareStarts compares servers that the tasks start, of which one drafts tokens and the other does not: that is a
// difference beside the label, and has to be declared.
func TestCompareStarts(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	s.variants("zip: [{label: [A, B], drafts: [0, 3]}]\nrepeats: 2", "  server: {command: [fakellm, -port, '{port}', -drafts, '{drafts}']}\n  starts: 2\n  cache: cold\n  ctx: 0\n  concurrency: 1\n  max_tokens: 12\n")
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	r, errs, code := s.compareRuns(s.onlyRun())
	if code != exitIncomplete || len(r.Rows) != 1 || len(r.Rows[0].Refused) != 1 || r.Rows[0].Refused[0].Text() != "speculation_depth (absent; 3)" {
		t.Fatalf("exit %d: %+v\n%s", code, r.Rows, errs)
	}
	if !strings.Contains(errs, "--accept speculation_depth") {
		t.Errorf("no way out is said: %s", errs)
	}
	r, errs, code = s.compareRuns(s.onlyRun(), "--key", "speculation_depth")
	if code != exitDone {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	row := r.Rows[0]
	if row.A.UnitOf != "start" || row.A.Units != 2 || row.A.Good != 4 || row.Cells[0].Method != "paired by start in one task" {
		t.Errorf("%+v by %s", row.A, row.Cells[0].Method)
	}
	if r.Order.Shared != 2 || r.Order.BaseFirst != 1 {
		t.Errorf("no start has its order turned round: %+v", r.Order)
	}
}

// variants writes sweep.yaml with an axis label in its head.
func (s *serving) variants(head, workload string) {
	s.Helper()
	text := "version: 1\nname: ab\n" + head + "\nworkload:\n  kind: llm\n  metrics_settle: 0s\n  data: synth\n" + workload
	if err := os.WriteFile(filepath.Join(s.dir, "sweep.yaml"), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// onlyRun is the folder of the only run.
func (s *serving) onlyRun() string {
	s.Helper()
	runs, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*"))
	if err != nil || len(runs) != 1 {
		s.Fatal(runs, err)
	}
	return runs[0]
}
