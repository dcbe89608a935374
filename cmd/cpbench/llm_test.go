package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/result"

	"github.com/google/go-cmp/cmp"
)

// fakeLLM is a server that a sweep starts by its command: the simulated vLLM on a port. With -die it ends in the midst
// of that answer, unless the file -once is there, which it makes.
func fakeLLM() {
	port := flag.String("port", "", "")
	die := flag.Int("die", 0, "")
	once := flag.String("once", "", "")
	deaf := flag.Bool("deaf", false, "")
	drafts := flag.Int("drafts", 0, "tokens proposed in each round")
	slow := flag.Bool("slow", false, "")
	mute := flag.Bool("mute", false, "never ready")
	refuse := flag.Int("refuse", 0, "the request that is not answered")
	tell := flag.String("tell", "", "variables, separated by commas")
	flag.Parse()
	fmt.Printf("fake server begins with %q\n", os.Args[1:])
	for name := range strings.SplitSeq(*tell, ",") {
		fmt.Printf("%s is %q\n", name, os.Getenv(name))
	}
	if *deaf {
		fmt.Println("no such device")
		os.Exit(7)
	}
	pace := time.Millisecond
	if *slow {
		pace = 300 * time.Millisecond
	}
	server := llmtest.New(llmtest.Config{CountCached: true, PerFrame: pace, DraftTokens: *drafts, TokensPerFrame: *drafts})
	var chats int
	var handler http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		if *mute {
			http.Error(w, "loading", http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/v1/chat/completions" {
			if chats++; chats == *refuse {
				server.Play(llmtest.Script{Status: 500, Steps: []llmtest.Step{{Write: `{"error":{"message":"it compiles","type":"x"}}`}}})
			}
			if chats == *die {
				if f, err := os.OpenFile(*once, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
					_ = f.Close()
					fmt.Println("CUDA error: device-side assert triggered")
					os.Exit(9)
				}
			}
		}
		server.ServeHTTP(w, r)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+*port)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(http.Serve(l, handler)) //nolint:gosec // a test
}

// serving is a folder with cpbench and the fake server on its PATH, and a simulated server that is there already.
type serving struct {
	*testing.T
	dir, bin string
	server   *llmtest.Server
	url      string
}

func newServing(t *testing.T, c llmtest.Config) *serving {
	t.Helper()
	server := llmtest.New(c)
	live, err := llmtest.Listen(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	s := &serving{t, filepath.Join(t.TempDir(), "it's a sweep"), t.TempDir(), server, live.URL}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpbench", "fakellm"} { // see TestMain
		if err := os.Symlink(self, filepath.Join(s.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// spec writes sweep.yaml. URL in it is the address of the simulated server.
func (s *serving) spec(head, workload string) {
	s.Helper()
	text := "version: 1\nname: serving\n" + head + "\nworkload:\n  kind: llm\n  metrics_settle: 0s\n  label: A\n  data: synth\n" + workload
	if err := os.WriteFile(filepath.Join(s.dir, "sweep.yaml"), []byte(strings.ReplaceAll(text, "URL", s.url)), 0o600); err != nil {
		s.Fatal(err)
	}
}

// run runs cpbench and returns what it printed and its exit code.
func (s *serving) run(args ...string) (out, errs string, code int) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "cpbench", args...)
	cmd.Path, cmd.Dir = filepath.Join(s.bin, "cpbench"), s.dir
	cmd.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"), "SERVING_KEY=sesame-open-now")
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// results are those of the only run, by the values of their point and their repeat.
func (s *serving) results() map[string]*result.Result {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/results/*/*-a*.json"))
	if err != nil {
		s.Fatal(err)
	}
	by := map[string]*result.Result{}
	for _, file := range files {
		r, err := result.Read(file)
		if err != nil {
			s.Fatal(err)
		}
		var parts []string
		for _, p := range r.Params {
			if p.Name != "label" && p.Name != "data" {
				parts = append(parts, p.Value)
			}
		}
		by[fmt.Sprintf("%s r%d", strings.Join(parts, " "), r.Repeat)] = r
	}
	return by
}

// outcomes are the outcomes of results, with the reason of those that are not good.
func outcomes(rs map[string]*result.Result) map[string]string {
	out := map[string]string{}
	for key, r := range rs {
		if out[key] = string(r.Outcome); r.Reason != "" {
			out[key] += ": " + r.Reason
		}
	}
	return out
}

// lines are the lines of a kind in the records of the only task.
func (s *serving) lines(kind string) []map[string]any {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*/requests.jsonl"))
	if err != nil || len(files) == 0 {
		s.Fatal("no records", err)
	}
	var list []map[string]any
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				s.Fatal(err)
			}
			if v["kind"] == kind {
				list = append(list, v)
			}
		}
	}
	return list
}

// TestServing goes from a URL to a table: cold, warm and mixed groups of two sizes.
func TestServing(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{Key: "sesame-open-now", CountCached: true, DraftTokens: 2, TokensPerFrame: 2, PerFrame: 5 * time.Millisecond})
	s.spec("repeats: 2", "  server: {url: URL}\n  api_key_env: SERVING_KEY\n  cache: [cold, warm]\n  ctx: [400]\n  concurrency: [1, 2]\n"+
		"  mixed: {short_ctx: 250, delay: 20ms}\n  max_tokens: 120\n  keep_text: true\n  sampling: {temperature: 0}\n")
	out, errs, code := s.run("run", "sweep.yaml")
	if code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	rs := s.results()
	if len(rs) != 12 {
		t.Errorf("%d results: %v", len(rs), outcomes(rs))
	}
	for key, r := range rs {
		if r.Outcome != catalogue.OK || r.Group == nil || r.Group.Audit != "clean" {
			t.Errorf("%s: %s %s %s %+v", key, r.Outcome, r.Reason, r.Evidence, r.Group)
			continue
		}
		label, warm := "cold", strings.HasPrefix(key, "warm") && strings.HasSuffix(key, "r2")
		if warm {
			label = "warm_repeat"
		}
		if r.Group.Cache != label || (*r.Metrics[catalogue.CachedTokens] > 0) != warm {
			t.Errorf("%s: cache %q, cached %v", key, r.Group.Cache, *r.Metrics[catalogue.CachedTokens])
		}
		for _, name := range []string{catalogue.TTFTSeconds, catalogue.DecodeTokensPerSecond, catalogue.AggregateTokensPerSecond, catalogue.AcceptedPerRound, catalogue.PromptMeasuredTokens} {
			if r.Metrics[name] == nil {
				t.Errorf("%s: no %s", key, name)
			}
		}
		if mixed := strings.Contains(key, "mixed"); mixed != (r.Group.Overlap != nil && *r.Group.Overlap) || mixed != (r.Metrics[catalogue.LongTTFTSeconds] != nil) || mixed == (r.Metrics[catalogue.BarrierSkewSeconds] != nil) {
			t.Errorf("%s: overlap %v, skew %v", key, r.Group.Overlap, r.Metrics[catalogue.BarrierSkewSeconds])
		}
	}
	s.checkRecords(out + errs)
	s.checkResumed()
}

// checkResumed takes the warm repeats away and runs them again: the server's cache has to be filled again for them, with
// salts of their own.
func (s *serving) checkResumed() {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/results/*/*-r2-a1.0.json"))
	if err != nil || len(files) != 6 {
		s.Fatal(files, err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			s.Fatal(err)
		}
	}
	runs, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*"))
	if err != nil || len(runs) != 1 {
		s.Fatal(runs, err)
	}
	if out, errs, code := s.run("run", "--run", runs[0]); code != exitDone {
		s.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for key, r := range s.results() {
		if warm := strings.HasPrefix(key, "warm") && strings.HasSuffix(key, "r2"); r.Outcome != catalogue.OK || (r.Group.Cache == "warm_repeat") != warm {
			s.Errorf("resumed %s: %s %s %s", key, r.Outcome, r.Reason, r.Evidence)
		}
	}
}

// checkRecords looks at what is in the files of the run, and at what must not be there.
func (s *serving) checkRecords(said string) {
	s.Helper()
	requests := s.lines("request")
	salts, prompts := map[string]int{}, map[string]int{}
	for _, r := range requests {
		salts[fmt.Sprint(r["cache_salt"])]++
		prompts[fmt.Sprint(r["prompt_sha256"])]++
	}
	// Of both caches: 1 + 2 + 3 streams and 2 repeats. Warm repeats have the salts of the first, and all have their text.
	if len(requests) != 24 || len(salts) != 18 || len(prompts) != 6 {
		s.Errorf("%d requests, %d salts, %d prompts", len(requests), len(salts), len(prompts))
	}
	if n := len(s.lines("group")); n != 12 {
		s.Errorf("%d groups", n)
	}
	if n := len(s.lines("preflight")); n != 1 {
		s.Errorf("%d preflights for one server", n)
	}
	for _, r := range s.server.Requests("/v1/chat/completions") {
		var body map[string]any
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil || body["temperature"] != 0.0 {
			s.Fatalf("%v: sent %s", err, r.Body[:200])
		}
	}
	texts, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*/texts.jsonl"))
	if err != nil || len(texts) != 1 {
		s.Fatal(texts, err)
	}
	if info, err := os.Stat(texts[0]); err != nil || info.Mode().Perm() != 0o600 {
		s.Errorf("others can read the texts: %v %v", info.Mode(), err)
	}
	found, err := exec.CommandContext(s.Context(), "grep", "-rlI", "sesame-open-now", s.dir).CombinedOutput()
	if err == nil || len(found) > 0 || strings.Contains(said, "sesame") {
		s.Errorf("the key is in %s or was printed", found)
	}
}

// TestServingRefusals are groups that do not count, each for its reason, while the rest goes on.
func TestServingRefusals(t *testing.T) {
	t.Parallel()
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		s := newServing(t, llmtest.Config{MaxModelLen: 1000})
		s.spec("repeats: 1", "  server: {url: URL}\n  cache: cold\n  ctx: [0, 990]\n  concurrency: 1\n  max_tokens: 30\n")
		_, errs, _ := s.run("run", "sweep.yaml")
		want := map[string]string{"cold 0 1 r1": "ok", "cold 990 1 r1": "skipped: does_not_fit"}
		if d := cmp.Diff(want, outcomes(s.results())); d != "" {
			t.Error(d, errs)
		}
	})
	t.Run("a stream that fails", func(t *testing.T) {
		t.Parallel()
		s := newServing(t, llmtest.Config{CountCached: true})
		ok := llmtest.Frames(0, 0, llmtest.Role(), llmtest.Content("hello"), llmtest.Finish("stop"), llmtest.UsageFrame(7, 2), llmtest.Done)
		s.server.Play(ok, ok, llmtest.Script{Status: 429, Steps: []llmtest.Step{{Write: `{"error":{"message":"try later","type":"busy"}}`}}})
		s.spec("repeats: 1\norder: as-written", "  server: {url: URL}\n  cache: cold\n  ctx: [300]\n  concurrency: [1, 2]\n  max_tokens: 4\n")
		out, errs, code := s.run("run", "sweep.yaml")
		if code != exitIncomplete {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
		bad := 0
		for _, r := range s.results() {
			if r.Outcome == catalogue.Error {
				bad++
			}
		}
		if bad == 0 {
			t.Errorf("%v", outcomes(s.results()))
		}
	})
	t.Run("salt ignored", func(t *testing.T) {
		t.Parallel()
		s := newServing(t, llmtest.Config{CountCached: true, IgnoreSalt: true})
		s.spec("repeats: 1", "  server: {url: URL}\n  cache: cold\n  ctx: [300]\n  concurrency: 1\n  max_tokens: 4\n")
		s.run("run", "sweep.yaml")
		if d := cmp.Diff(map[string]string{"cold 300 1 r1": "error: preflight: salt"}, outcomes(s.results())); d != "" {
			t.Error(d)
		}
	})
	t.Run("no metrics", func(t *testing.T) {
		t.Parallel()
		s := newServing(t, llmtest.Config{})
		s.spec("repeats: 1", "  server: {url: URL}\n  metrics_urls: [URL/nothing]\n  cache: cold\n  ctx: [300]\n  concurrency: 1\n  max_tokens: 4\n")
		s.run("run", "sweep.yaml")
		r := s.results()["cold 300 1 r1"]
		if r == nil || r.Reason != "preflight: metrics" || !strings.Contains(r.Evidence, "workload.metrics_urls") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("busy", func(t *testing.T) {
		t.Parallel()
		s := newServing(t, llmtest.Config{})
		s.server.Stale(2, 0)
		s.spec("repeats: 1", "  server: {url: URL}\n  cache: cold\n  ctx: [300]\n  concurrency: 1\n  max_tokens: 4\n")
		s.run("run", "sweep.yaml")
		if d := cmp.Diff(map[string]string{"cold 300 1 r1": "invalid: not_idle"}, outcomes(s.results())); d != "" {
			t.Error(d)
		}
		if n := len(s.server.Requests("/v1/chat/completions")); n != 0 {
			t.Errorf("%d requests went to a busy server", n)
		}
	})
}

// TestServingCommand starts servers of its own: each variant once, a death costs one group, and nothing is left.
func TestServingCommand(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	once := filepath.Join(t.TempDir(), "died once")
	s.spec("repeats: 2\norder: as-written", "  server: {command: [fakellm, -port, '{port}', -die, '6', -once, "+once+"]}\n  warmup: 0\n  starts: 1\n  cache: cold\n  ctx: [300]\n  concurrency: [1, 2]\n  max_tokens: 4\n")
	out, errs, code := s.run("run", "sweep.yaml")
	if code != exitIncomplete {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	good, dead := 0, 0
	for key, r := range s.results() {
		switch {
		case r.Outcome == catalogue.OK:
			good++
		case strings.HasPrefix(r.Reason, "the server ended: exit status 9 during the group") && strings.Contains(r.Evidence, "CUDA error"):
			dead++
		default:
			t.Errorf("%s: %s %s %s", key, r.Outcome, r.Reason, r.Evidence)
		}
	}
	if good != 3 || dead != 1 {
		t.Errorf("%d good, %d of a dead server: %v", good, dead, outcomes(s.results()))
	}
	logs, err := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*/server-*.log"))
	if err != nil || len(logs) != 2 {
		t.Errorf("%d servers were started: %v", len(logs), err)
	}
	if left, _ := exec.CommandContext(t.Context(), "pgrep", "-f", once).Output(); len(left) > 0 {
		t.Errorf("a server is left: %s", left)
	}
}

// A server that dies between the repeats of a warm group is filled again for the rest of them.
func TestServingWarmAfterDeath(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	once := filepath.Join(t.TempDir(), "died once")
	s.spec("repeats: 3", "  server: {command: [fakellm, -port, '{port}', -die, '5', -once, "+once+"]}\n  warmup: 0\n  cache: warm\n  ctx: [300]\n  concurrency: 1\n  max_tokens: 4\n")
	s.run("run", "sweep.yaml") // three requests are the preflight's
	rs := s.results()
	want := map[string]string{"warm 300 1 r1": "ok", "warm 300 1 r2": "error: the server ended: exit status 9 during the group", "warm 300 1 r3": "ok"}
	if d := cmp.Diff(want, outcomes(rs)); d != "" {
		t.Fatal(d)
	}
	if got := rs["warm 300 1 r3"].Group.Cache; got != "warm_repeat" {
		t.Errorf("the repeat after the death is %q", got)
	}
}

// TestServingInterrupted stops a sweep in the midst of a group: the result says so, and the server is gone.
func TestServingInterrupted(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	once := filepath.Join(t.TempDir(), "never")
	s.spec("repeats: 1", "  server: {command: [fakellm, -port, '{port}', -slow, -once, "+once+"]}\n  cache: cold\n  ctx: [300]\n  concurrency: 1\n  max_tokens: 1000\n")
	cmd := exec.CommandContext(t.Context(), "cpbench", "run", "sweep.yaml")
	cmd.Path, cmd.Dir = filepath.Join(s.bin, "cpbench"), s.dir
	cmd.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C { // until the preflight is over: the group has begun
		files, _ := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*/requests.jsonl"))
		if len(files) == 1 {
			if text, err := os.ReadFile(files[0]); err == nil && len(text) > 0 {
				break
			}
		}
		if t.Context().Err() != nil {
			t.Fatal("no group has begun")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("%v", err)
	}
	if got := outcomes(s.results())["cold 300 1 r1"]; !strings.HasPrefix(got, "cancelled: ") {
		t.Errorf("the group is %q", got)
	}
	if left, _ := exec.CommandContext(t.Context(), "pgrep", "-f", once).Output(); len(left) > 0 {
		t.Errorf("a server is left: %s", left)
	}
}

func TestServingNeverReady(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	s.spec("repeats: 2", "  server: {command: [fakellm, -port, '{port}', -deaf]}\n  cache: cold\n  ctx: [0]\n  concurrency: 1\n  max_tokens: 4\n")
	s.run("run", "sweep.yaml")
	for key, r := range s.results() {
		if r.Outcome != catalogue.Error || !strings.HasPrefix(r.Reason, "the server ended: exit status 7") || !strings.Contains(r.Evidence, "no such device") {
			t.Errorf("%s: %s %s %s", key, r.Outcome, r.Reason, r.Evidence)
		}
	}
	if logs, _ := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*/server-*.log")); len(logs) != 1 {
		t.Errorf("a server that cannot start was started %d times", len(logs))
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	const workload = "  server: {url: URL}\n  cache: cold\n  ctx: [300]\n  concurrency: 1\n  max_tokens: 4\n  priority: 10\n"
	s := newServing(t, llmtest.Config{CountCached: true})
	s.spec("repeats: 1", workload)
	out, errs, code := s.run("llm", "preflight", "sweep.yaml", "--dry-run")
	if code != exitDone || !strings.Contains(out, "vllm 0.99.0 serves tiny (root org/tiny)") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, path := range []string{"/v1/chat/completions", "/tokenize"} {
		if n := len(s.server.Requests(path)); n != 0 {
			t.Errorf("a dry run sent %d requests to %s", n, path)
		}
	}
	out, _, code = s.run("llm", "preflight", "sweep.yaml")
	if code != exitIncomplete || !strings.Contains(out, "bad   priority: ") || !strings.Contains(out, "--scheduling-policy priority") {
		t.Errorf("exit %d\n%s", code, out)
	}
	s.spec("repeats: 1", strings.ReplaceAll(workload, "  priority: 10\n", ""))
	if out, _, code = s.run("llm", "preflight", "sweep.yaml"); code != exitDone || !strings.Contains(out, "parity: tokenizer and answer count the same") || !strings.Contains(out, "cache: the same salt finds") {
		t.Errorf("exit %d\n%s", code, out)
	}
	s.spec("repeats: 1", strings.ReplaceAll(workload, "URL", "http://127.0.0.1:1"))
	if out, _, code = s.run("llm", "preflight", "sweep.yaml", "--dry-run"); code != exitIncomplete || !strings.Contains(out, "bad   models: ") {
		t.Errorf("a server that is not there: exit %d\n%s", code, out)
	}
}

func TestSelftest(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	if out, errs, code := s.run("llm", "selftest", "--concurrency", "2"); code != exitDone || !strings.Contains(out, "at 2 streams") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if _, errs, code := s.run("llm", "sing"); code != exitUsage || !strings.Contains(errs, "choose from selftest, preflight") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// TestServingPage holds the first sweep of docs/llm.md to what this version takes.
func TestServingPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/llm.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```yaml\n")
	block, _, closed := strings.Cut(rest, "```")
	if !ok || !closed || !strings.Contains(block, "http://127.0.0.1:8000") {
		t.Fatal("docs/llm.md has no sweep")
	}
	s := newServing(t, llmtest.Config{MaxModelLen: 16384})
	text := strings.ReplaceAll(strings.ReplaceAll(block, "\n   ", "\n"), "http://127.0.0.1:8000", s.url)
	if err := os.WriteFile(filepath.Join(s.dir, "sweep.yaml"), []byte(strings.TrimSpace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"validate", "sweep.yaml"}, {"llm", "preflight", "sweep.yaml", "--dry-run"}, {"llm", "preflight", "sweep.yaml"}} {
		if out, errs, code := s.run(words...); code != exitDone {
			t.Errorf("%q: exit %d\n%s%s", words, code, out, errs)
		}
	}
}
