package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/llm/conform"
	"cpbench/worker/llm/llmtest"
)

// TestConform tests a good server and one that ignores salts, from the command line.
func TestConform(t *testing.T) {
	t.Parallel()
	good := llmtest.Config{Key: "sesame-open-now", CountCached: true, Continuous: true, Prefill: 10 * time.Millisecond, PerFrame: 10 * time.Millisecond, MaxModelLen: 1000}
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		s := newServing(t, good)
		out, errs, code := s.run("llm", "conform", s.url, "--api-key-env", "SERVING_KEY", "--model", "tiny")
		if code != exitDone || !strings.Contains(errs, "sends up to 14 requests for up to ") || strings.Contains(out, "  fail ") {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
		for _, want := range []string{"vllm 0.99.0 at " + s.url, "  pass         usage: in 16 of 16 text frames, in the finish frame, in a frame of its own\n", "  not offered  too many requests: "} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if strings.Contains(out+errs, "sesame") {
			t.Error("the key is told")
		}
	})
	t.Run("bad", func(t *testing.T) {
		t.Parallel()
		bad := good
		bad.IgnoreSalt, bad.Key = true, ""
		s := newServing(t, bad)
		out, errs, code := s.run("llm", "conform", s.url+"/v1", "--json")
		var report conform.Report
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitIncomplete {
			t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
		}
		i := slices.IndexFunc(report.Findings, func(f conform.Finding) bool { return f.Verdict == conform.Fail })
		if i < 0 || report.Findings[i].Name != "cold" || report.Findings[i].Why == "" || report.Findings[i].Source == "" {
			t.Errorf("%+v", report.Findings)
		}
	})
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		s := newServing(t, good)
		out, errs, code := s.run("llm", "conform", "--list")
		if code != exitDone || len(strings.Split(strings.TrimSpace(out), "\n")) != 2*len(conform.Checks()) {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
		if n := len(s.server.Requests("/v1/chat/completions")); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("mistakes", func(t *testing.T) {
		t.Parallel()
		s := newServing(t, good)
		s.server.Stale(1, 0)
		for _, c := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"llm", "conform"}, exitUsage, "conform takes the URL of one server"},
			{[]string{"llm", "conform", "a", "b"}, exitUsage, "conform takes the URL of one server"},
			{[]string{"llm", "conform", "ftp://x"}, exitError, "starts with http:// or https://"},
			{[]string{"llm", "conform", s.url, "--api-key-env", "NO_SUCH_KEY"}, exitError, "NO_SUCH_KEY is not set"},
			{[]string{"llm", "conform", s.url, "--api-key-env", "SERVING_KEY", "--model", "other"}, exitError, `no model "other"; it has tiny`},
			{[]string{"llm", "conform", s.url, "--api-key-env", "SERVING_KEY"}, exitError, "hint: ask whoever uses it to hold"},
		} {
			if out, errs, code := s.run(c.args...); code != c.code || !strings.Contains(errs, c.want) || out != "" {
				t.Errorf("%v: exit %d, no %q in %s%s", c.args, code, c.want, out, errs)
			}
		}
	})
}

// TestStarterLLM measures the sweep that init writes, on a simulated server.
func TestStarterLLM(t *testing.T) {
	t.Parallel()
	s := newServing(t, llmtest.Config{CountCached: true, PerFrame: time.Millisecond})
	if out, errs, code := s.run("init", "--kind", "llm", "."); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	path := filepath.Join(s.dir, "sweep.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The address is the user's to change; the rest is, to wait less.
	for _, change := range [][2]string{
		{"http://127.0.0.1:8000", s.url}, {"repeats: 4 ", "repeats: 2 "}, {"metrics_settle: 2s", "metrics_settle: 0s"}, {"concurrency: [1, 4]", "concurrency: [4]"},
	} {
		if !strings.Contains(string(text), change[0]) {
			t.Fatalf("the starter has no %q", change[0])
		}
		text = []byte(strings.Replace(string(text), change[0], change[1], 1))
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := s.run("run", "sweep.yaml")
	if code != exitDone || !strings.Contains(out, "goodput (%)") || !strings.Contains(out, "warm_repeat") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	rs := s.results()
	if len(rs) != 8 {
		t.Errorf("%d results: %v", len(rs), outcomes(rs))
	}
	for key, r := range rs {
		if r.Outcome != catalogue.OK {
			t.Errorf("%s: %s %s %s", key, r.Outcome, r.Reason, r.Evidence)
			continue
		}
		if good, rate, met := r.Metrics[catalogue.GoodFraction], r.Metrics[catalogue.GoodRequestsPerSecond], r.Metrics[catalogue.LimitsMet]; *good != 1 || *rate <= 0 || *met != 1 {
			t.Errorf("%s: goodput %v, %v requests/s, met %v", key, *good, *rate, *met)
		}
	}
	for _, line := range s.lines("group") {
		g, ok := line["goodput"].(map[string]any)
		if !ok || g["ttft_s"] != 2.0 || g["tpot_s"] != 0.2 || g["good"] != 4.0 || g["statistic"] != "max" {
			t.Errorf("record of the goodput: %v", line["goodput"])
		}
	}
}
