package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/llmtest/visit"

	"github.com/google/go-cmp/cmp"
)

// realServer is the command of a real vLLM, on the CPU, in the form of a YAML list that flags of vLLM can be added to.
func realServer(t *testing.T) string {
	t.Helper()
	visit.Real(t)
	start, err := filepath.Abs("../../worker/llm/llmtest/server/start.sh")
	if err != nil {
		t.Fatal(err)
	}
	return "bash, " + quoted(start) + ", " + quoted(filepath.Join(t.TempDir(), "server")) + ", '{port}'"
}

// TestLLMServer runs a sweep on a real vLLM that the sweep starts by itself with drafts by n-gram. The model is tiny and
// knows nothing; what is looked at is that every claim about the numbers holds.
func TestLLMServer(t *testing.T) {
	t.Parallel()
	command := realServer(t)
	s := newServing(t, llmtest.Config{})
	s.spec("repeats: 2\nresources: {time: 15m}", "  server:\n    command: ["+command+`, --speculative-config,
      '{{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":3,"prompt_lookup_min":1}}']
  cache: [cold, warm]
  ctx: [1500]
  concurrency: [1, 2, 3]
  mixed: {short_ctx: 400, delay: 50ms}
  max_tokens: 600
  sampling: {temperature: 0, ignore_eos: true}
`)
	out, errs, code := s.run("run", "sweep.yaml")
	if code != exitDone {
		t.Fatalf("exit %d\n%s%s%v", code, out, errs, outcomes(s.results()))
	}
	rs := s.results()
	if len(rs) != 2*4*2 {
		t.Errorf("%d results: %v", len(rs), outcomes(rs))
	}
	for key, r := range rs {
		label, warm := "cold", strings.HasPrefix(key, "warm") && strings.HasSuffix(key, "r2")
		if warm {
			label = "warm_repeat"
		}
		if r.Outcome != catalogue.OK || r.Group.Cache != label || r.Group.Audit != "clean" {
			t.Errorf("%s: %s %s %+v", key, r.Outcome, r.Reason, r.Group)
			continue
		}
		if share := *r.Metrics[catalogue.CachedFraction]; (share > 0.8) != warm || (share == 0) == warm {
			t.Errorf("%s: %v of the prompt came from the cache", key, share)
		}
		if n, used := r.Metrics[catalogue.PromptMeasuredTokens], r.Metrics[catalogue.PromptUsedTokens]; *n != *used {
			t.Errorf("%s: %v tokens measured and %v used", key, *n, *used)
		}
		if p := r.Group.PerPosition; len(p) != 3 || *r.Metrics[catalogue.AcceptedPerRound] > 3 {
			t.Errorf("%s: accepted per position %v", key, p)
		}
	}
}

// TestLLMServerKilled kills the server in the midst of the second group: that group has failed and says why, its streams
// are in the log, and another server carries on with the third.
func TestLLMServerKilled(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{})
	s.spec("repeats: 3\nresources: {time: 15m}", "  server: {command: ["+realServer(t)+"]}\n  warmup: 0\n  cache: cold\n  ctx: 400\n  concurrency: 2\n"+
		"  max_tokens: 1500\n  sampling: {temperature: 0, ignore_eos: true}\n")
	ctx, over := context.WithCancel(t.Context())
	killed := make(chan error, 1)
	go func() { killed <- s.killAfter(ctx, 1) }()
	out, errs, code := s.run("run", "sweep.yaml")
	over()
	if err := <-killed; err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	want := map[string]string{"cold 400 2 r1": "ok", "cold 400 2 r2": "error: the server ended: signal: killed during the group", "cold 400 2 r3": "ok"}
	if d := cmp.Diff(want, outcomes(s.results())); d != "" || code != exitIncomplete {
		t.Errorf("exit %d\n%s\n%s%s", code, d, out, errs)
	}
	if requests, groups := len(s.lines("request")), len(s.lines("group")); requests != 3*2 || groups != 3 {
		t.Errorf("%d requests and %d groups are in the log", requests, groups)
	}
}

// killAfter kills the server of the task when so many groups have ended and requests of the next one run.
func (s *serving) killAfter(ctx context.Context, groups int) error {
	client := &http.Client{Transport: &http.Transport{}} // no proxy
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		if strings.Count(s.soFar("requests.jsonl"), `"kind":"group"`) < groups {
			continue
		}
		address := regexp.MustCompile(`ready (http://127\.0\.0\.1:(\d+))`).FindStringSubmatch(s.soFar("server-1.log"))
		if address == nil {
			return errors.New("the log of the server does not tell its address")
		}
		r, err := client.Get(address[1] + "/metrics")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return err
		}
		if !regexp.MustCompile(`(?m)^vllm:num_requests_running\{.*\} [1-9]`).Match(text) {
			continue
		}
		out, err := exec.CommandContext(ctx, "pgrep", "-f", "api_server .*--port "+address[2]+" ").Output()
		pid, bad := strconv.Atoi(strings.TrimSpace(string(out)))
		if err = errors.Join(err, bad); err != nil {
			return fmt.Errorf("the process of the server: %w", err)
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	return errors.New("the run has ended before")
}

// soFar is what a log of the only task holds; empty before there is one.
func (s *serving) soFar(name string) string {
	found, _ := filepath.Glob(filepath.Join(s.dir, "cpbench-runs/*/logs/*", name))
	if len(found) != 1 {
		return ""
	}
	text, _ := os.ReadFile(found[0])
	return string(text)
}

// quoted is a text in a YAML list.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
