package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cpbench/worker/llm/account/peer"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/rejudge"
)

// rejudged runs rejudge with --json.
func (s *serving) rejudged(want int, args ...string) rejudge.Table {
	s.Helper()
	out, errs, code := s.run(append([]string{"rejudge", "--json"}, args...)...)
	if code != want {
		s.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	var t rejudge.Table
	if err := json.Unmarshal([]byte(out), &t); err != nil {
		s.Fatal(err)
	}
	return t
}

func figure(r rejudge.Row, name peer.Name) rejudge.Figure {
	for _, f := range r.Figures {
		if f.Name == name {
			return f
		}
	}
	return rejudge.Figure{}
}

// TestRejudge makes the numbers of a sweep again: by our own definitions exactly the stored ones, by others' with a
// reason for each difference; out of a copy of the folder, of which nothing is changed.
func TestRejudge(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{CountCached: true, TokensPerFrame: 2, DraftTokens: 2, ReasoningTokens: 4, PerFrame: 2 * time.Millisecond})
	s.spec("repeats: 2", "  server: {url: URL}\n  cache: [cold, warm]\n  ctx: [400]\n  concurrency: [2]\n  max_tokens: 20\n")
	if out, errs, code := s.run("run", "sweep.yaml"); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	runs, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	copied := filepath.Join(t.TempDir(), "it's a copy")
	if err := os.CopyFS(copied, os.DirFS(runs[0])); err != nil {
		t.Fatal(err)
	}
	before := s.hashed(copied)
	for _, tool := range append([]peer.Tool{rejudge.Ours}, peer.Tools()...) {
		table := s.rejudged(exitDone, copied, "--as", string(tool))
		var labels []string
		for _, r := range table.Rows {
			labels = append(labels, fmt.Sprintf("%s %d", r.Cache, r.N))
			if requests := figure(r, peer.Requests); *requests.Ours != 2 || *requests.Other != 2 {
				t.Errorf("%s: %+v", tool, requests)
			}
			if tokens := figure(r, peer.Tokens); *tokens.Ours != 40 || *tokens.Other != 40 {
				t.Errorf("%s: %+v", tool, tokens)
			}
			ttft := figure(r, peer.TTFT)
			// vLLM's ends with the role frame, GuideLLM's begins with the connection; both may be the same instant.
			less, earlier := *ttft.Other < *ttft.Ours, tool == peer.VLLM || tool == peer.GuideLLM
			if less && !earlier || *ttft.Other > *ttft.Ours || less != (len(ttft.Why) > 0) {
				t.Errorf("%s: %+v %v", tool, ttft, *ttft.Other-*ttft.Ours)
			}
			if tool != rejudge.Ours {
				continue
			}
			for _, f := range r.Figures {
				if f.Ours == nil != (f.Other == nil) || f.Ours != nil && *f.Ours != *f.Other || len(f.Why) > 0 {
					t.Errorf("made again: %+v", f)
				}
			}
		}
		if got := strings.Join(labels, ", "); got != "cold 2, cold 1, warm_repeat 1" {
			t.Errorf("%s: rows %s", tool, got)
		}
	}
	if s.hashed(copied) != before {
		t.Error("rejudge has changed the folder of the run")
	}
	s.checkRejudgeWords(copied)
	s.checkBrokenLog(copied)
	s.checkAttempts(runs[0])
	s.checkRequests(runs[0])
}

// checkAttempts loses a result and measures it again: what counts then is in the log of the second attempt.
func (s *serving) checkAttempts(run string) {
	s.Helper()
	for key, r := range s.results() {
		if key != "cold 400 2 r2" {
			continue
		}
		path, err := r.Path(filepath.Join(run, "results"))
		if err != nil {
			s.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			s.Fatal(err)
		}
	}
	if out, errs, code := s.run("run", "--run", run); code != exitDone {
		s.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if r := s.results()["cold 400 2 r2"]; r == nil || r.Attempt != 2 {
		s.Fatalf("%+v", r)
	}
	first, err := filepath.Glob(filepath.Join(run, "logs/*-a1.0/requests.jsonl"))
	if err != nil || len(first) != 1 {
		s.Fatal(first, err)
	}
	second := strings.Replace(first[0], "-a1.0", "-a2.0", 1)
	for file, want := range map[string]int{first[0]: 1, second: 1} { // without either, one group of the two is missing
		if err := os.Rename(file, file+".away"); err != nil {
			s.Fatal(err)
		}
		cold := 0
		for _, r := range s.rejudged(exitIncomplete, run, "--as", "vllm").Rows {
			if r.Cache == "cold" && strings.Contains(r.Point, "cache=cold") {
				cold += r.N
			}
		}
		if cold != want {
			s.Errorf("without %s there are %d groups", file, cold)
		}
		if err := os.Rename(file+".away", file); err != nil {
			s.Fatal(err)
		}
	}
}

// hashed are the paths and contents of a folder.
func (s *serving) hashed(dir string) string {
	s.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %d %s", path, len(text), text)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return b.String()
}

// checkRejudgeWords looks at what people and spreadsheets get.
func (s *serving) checkRejudgeWords(run string) {
	s.Helper()
	out, errs, code := s.run("rejudge", run, "--as", "vllm")
	if code != exitDone || errs != "" {
		s.Errorf("exit %d, %s", code, errs)
	}
	for _, want := range []string{"cpbench", "vllm bench serve 0.32.0", "Mean TTFT", "warm_repeat, 1 group", "[1] it ends at the first frame with choices"} {
		if !strings.Contains(out, want) {
			s.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, code = s.run("rejudge", run, "--as", "guidellm", "--csv")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != exitDone || len(lines) != 1+3*len(peer.Names()) || !strings.HasPrefix(lines[0], "point,cache_label,") {
		s.Errorf("exit %d\n%s", code, out)
	}
	if _, errs, code := s.run("rejudge", run, "--as", "VLLM"); code != exitUsage || !strings.Contains(errs, "choose from cpbench, vllm, aiperf, guidellm") {
		s.Errorf("exit %d: %s", code, errs)
	}
}

// checkBrokenLog breaks one line and changes a number in another one: both are told with their place, and the rest is
// kept.
func (s *serving) checkBrokenLog(run string) {
	s.Helper()
	logs, err := filepath.Glob(filepath.Join(run, "logs/*/requests.jsonl"))
	if err != nil || len(logs) != 1 {
		s.Fatal(logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		s.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	broken, changed := 0, 0
	for i, line := range lines {
		switch {
		case broken == 0 && strings.Contains(line, `"kind":"request"`):
			broken = i + 1
			lines[i] = line[:len(line)/2] + "\n"
		case strings.Contains(line, `"kind":"group"`):
			changed = i + 1 // the last one
		}
	}
	lines[changed-1] = strings.Replace(lines[changed-1], `"finish_length":2`, `"finish_length":1`, 1)
	if err := os.WriteFile(logs[0], []byte(strings.Join(lines, "")), 0o600); err != nil {
		s.Fatal(err)
	}
	out, errs, code := s.run("rejudge", run, "--as", "cpbench")
	if code != exitIncomplete || !strings.Contains(out, "TTFT") {
		s.Errorf("exit %d\n%s", code, out)
	}
	for _, want := range []string{
		fmt.Sprintf("requests.jsonl:%d: no line of a request log", broken),
		fmt.Sprintf("requests.jsonl:%d: finish_length is 1 in the file and 2 now", changed),
	} {
		if !strings.Contains(errs, want) {
			s.Errorf("no %q in\n%s", want, errs)
		}
	}
}

// checkRequests gathers the requests of a run in one file, once.
func (s *serving) checkRequests(run string) {
	s.Helper()
	file := filepath.Join(s.dir, "all requests.jsonl")
	out, errs, code := s.run("collect", run, "--requests", file)
	if code != exitDone || !strings.Contains(errs, "added 15 lines to "+file) {
		s.Errorf("exit %d\n%s%s", code, out, errs)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		s.Fatal(err)
	}
	identities := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var l struct {
			Kind, Run, Plan, Label, Point string
			Stream, Repeat, Attempt       int
			Salt                          string `json:"cache_salt"`
			Facts                         any
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			s.Fatal(err)
		}
		if l.Label != "A" || l.Plan == "" || l.Attempt == 0 || l.Kind == "request" && (l.Salt == "" || l.Facts == nil) {
			s.Errorf("%+v", l)
		}
		identities[fmt.Sprint(l.Kind, l.Run, l.Point, l.Stream, l.Repeat, l.Attempt)] = true
	}
	if len(identities) != 15 { // of 4 groups of 2 streams, and one once more
		s.Errorf("%d identities", len(identities))
	}
	if _, errs, code := s.run("collect", run, "--requests", file); code != exitError || !strings.Contains(errs, "label A") || !strings.Contains(errs, "already, so nothing was written") {
		s.Errorf("exit %d: %s", code, errs)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(text) {
		s.Error("the file has changed", err)
	}
}

// TestRejudgeFault shows groups that another tool would have counted: an error within a frame.
func TestRejudgeFault(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{CountCached: true})
	bad := llmtest.Frames(0, time.Millisecond, llmtest.Role(), llmtest.Content("hello"), llmtest.Content(" world"),
		llmtest.Event(`{"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}`), llmtest.Done)
	var chats atomic.Int32
	live, err := llmtest.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" && chats.Add(1) > 3 { // three are the preflight's
			bad.ServeHTTP(w, r)
			return
		}
		s.server.ServeHTTP(w, r)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	s.url = live.URL
	s.spec("repeats: 1", "  server: {url: URL}\n  cache: cold\n  ctx: [300]\n  concurrency: [1]\n  max_tokens: 4\n")
	s.run("run", "sweep.yaml")
	runs, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	for tool, want := range map[peer.Tool]float64{peer.VLLM: 1, peer.AIPerf: 1, peer.GuideLLM: 0} {
		table := s.rejudged(exitDone, runs[0], "--as", string(tool))
		if len(table.Rows) != 1 || table.Rows[0].Counted || !strings.Contains(table.Rows[0].Outcome, "in_band") {
			t.Fatalf("%+v %v", table, outcomes(s.results()))
		}
		if f := figure(table.Rows[0], peer.Requests); *f.Ours != 0 || *f.Other != want || (want != 0) != (len(f.Why) > 0) {
			t.Errorf("%s: %+v", tool, f)
		}
	}
}
