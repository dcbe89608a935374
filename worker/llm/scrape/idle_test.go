package scrape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// state is a metrics text with two engines.
func state(running0, running1, waiting, generated int) string {
	return fmt.Sprintf(`vllm:num_requests_running{engine="0"} %d
vllm:num_requests_running{engine="1"} %d
vllm:num_requests_waiting{engine="0"} %d
vllm:num_requests_waiting{engine="1"} 0
vllm:generation_tokens_total{engine="0"} %d
`, running0, running1, waiting, generated)
}

func at(t *testing.T, seconds float64, text string) Snapshot {
	s := parse(t, text)
	s.At = time.Unix(0, int64(seconds*1e9))
	return s
}

func TestIdle(t *testing.T) {
	t.Parallel()
	none := `vllm:generation_tokens_total{engine="0"} 5` + "\n"
	oneWaits := strings.Replace(state(0, 0, 0, 5), "vllm:num_requests_waiting{engine=\"1\"} 0\n", "", 1)
	for name, tc := range map[string]struct {
		first, second string
		seconds       float64
		want          string // empty: idle
		stale         bool
	}{
		"idle":                     {state(0, 0, 0, 5), state(0, 0, 0, 5), 1, "", false},
		"too close":                {state(0, 0, 0, 5), state(0, 0, 0, 5), 0.99, "only 990ms lie between", false},
		"second engine busy":       {state(0, 1, 0, 5), state(0, 1, 0, 9), 1, "4 tokens were generated", false},
		"busy between gauges of 0": {state(0, 0, 0, 5), state(0, 0, 0, 6), 1, "1 tokens were generated", false},
		"waiting":                  {state(0, 0, 0, 5), state(0, 0, 2, 5), 1, `num_requests_waiting{engine="0"} is 2`, false},
		"stuck":                    {state(0, 3, 0, 5), state(0, 3, 0, 5), 1, `stale gauge: vllm:num_requests_running{engine="1"} is 3`, true},
		"only now at rest":         {state(2, 0, 0, 5), state(0, 0, 0, 5), 1, "until just now", false},
		"restarted":                {state(0, 0, 0, 5), state(0, 0, 0, 4), 1, "its counters began anew", false},
		"no gauges":                {none, none, 1, "no gauge of running requests", false},
		"one engine without gauge": {oneWaits, oneWaits, 1, `the engine {engine="1"} has no gauge of waiting requests`, false},
		"tokens are not counted":   {strings.Replace(state(0, 0, 0, 5), "vllm:generation", "vllm:other", 1), strings.Replace(state(0, 0, 0, 5), "vllm:generation", "vllm:other", 1), 1, "does not count the tokens", false},
		"gauge gone in the second": {state(0, 0, 0, 5), none, 1, "no gauge of running requests", false},
	} {
		err := Idle(at(t, 0, tc.first), at(t, tc.seconds, tc.second))
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var busy *NotIdle
		if !errors.As(err, &busy) || !strings.Contains(err.Error(), tc.want) || busy.Stale != tc.stale {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

func TestIdleOfEveryServer(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"vllm-2025-04.txt", "vllm-2026.txt", "vllm-old-engine.txt", "sglang-colon.txt", "sglang-underscore.txt", "llamacpp-b10519.txt", "tgi-3.txt", "trtllm-prometheus.txt"} {
		first, second := load(t, file), load(t, file)
		first.At, second.At = time.Unix(0, 0), time.Unix(1, 0)
		if err := Idle(first, second); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// answers is a transport that gives one text after the other, the last one for ever.
type answers struct {
	texts []string
	calls int
	delay time.Duration
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	text := a.texts[min(a.calls, len(a.texts)-1)]
	a.calls++
	select {
	case <-time.After(a.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func TestWaitIdle(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		texts    []string
		delay    time.Duration
		patience time.Duration
		calls    int
		took     time.Duration
		want     string
	}{
		"slow answers":      {[]string{state(1, 0, 0, 5), state(0, 0, 0, 5)}, 1500 * time.Millisecond, 6 * time.Second, 3, 6500 * time.Millisecond, ""},
		"idle at once":      {[]string{state(0, 0, 0, 5)}, 0, 0, 2, time.Second, ""},
		"idle in the end":   {[]string{state(1, 0, 0, 5), state(1, 0, 0, 8), state(0, 0, 0, 9), state(0, 0, 0, 9)}, 0, 10 * time.Second, 4, 3 * time.Second, ""},
		"stale for 30 s":    {append(repeat(state(1, 0, 0, 5), 30), state(0, 0, 0, 5)), 0, 40 * time.Second, 32, 31 * time.Second, ""},
		"patience at end":   {[]string{state(1, 0, 0, 5)}, 0, 3 * time.Second, 4, 3 * time.Second, "stale gauge"},
		"slow first answer": {[]string{state(0, 0, 0, 5)}, 300 * time.Millisecond, 0, 2, 1600 * time.Millisecond, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			transport := &answers{texts: tc.texts, delay: tc.delay}
			source := Source{Client: &http.Client{Transport: transport}, URLs: []string{"http://127.0.0.1:1/metrics"}}
			start := time.Now()
			last, err := source.WaitIdle(t.Context(), tc.patience)
			if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", name, err)
			}
			if transport.calls != tc.calls || time.Since(start) != tc.took || last.sum(generationTokens) == nil {
				t.Errorf("%s: %d reads in %v, want %d in %v", name, transport.calls, time.Since(start), tc.calls, tc.took)
			}
		})
	}
}

func repeat(text string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = text
	}
	return out
}

func TestWaitIdleEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2500*time.Millisecond, errors.New("the task ends"))
		defer cancel()
		source := Source{Client: &http.Client{Transport: &answers{texts: []string{state(1, 0, 0, 5)}}}, URLs: []string{"http://127.0.0.1:1/metrics"}}
		if _, err := source.WaitIdle(ctx, time.Hour); err == nil || err.Error() != "the task ends" {
			t.Errorf("error %v", err)
		}
	})
}

func TestFetch(t *testing.T) {
	t.Parallel()
	json, err := os.ReadFile("testdata/trtllm-metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/rank0", "/rank1":
			if got := r.Header.Get("Accept"); got != "text/plain;version=0.0.4" {
				t.Errorf("Accept is %q", got)
			}
			if r.Header.Get("Authorization") != "Bearer k" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, state(0, 0, 0, 5))
		case "/json":
			_, _ = w.Write(json)
		case "/typed":
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		case "/broken":
			_, _ = io.WriteString(w, "vllm:prompt_tokens_total{")
		default:
			http.Error(w, "no \"metrics\" here", http.StatusNotFound)
		}
	}))
	defer server.Close()
	source := func(paths ...string) *Source {
		s := &Source{Client: server.Client(), Authorize: func(r *http.Request) { r.Header.Set("Authorization", "Bearer k") }}
		for _, p := range paths {
			s.URLs = append(s.URLs, server.URL+p)
		}
		return s
	}
	got, err := source("/rank0", "/rank1").Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v := got.sum(generationTokens); v == nil || *v != 10 || got.At.IsZero() {
		t.Errorf("two ranks: %v at %v", v, got.At)
	}
	if n := len(got.engines(running)); n != 4 {
		t.Errorf("two ranks of two engines have %d engines", n)
	}
	for path, want := range map[string]string{
		"/json": "/prometheus/metrics", "/typed": "/prometheus/metrics", "/broken": "text format parsing error", "/none": `404 Not Found: "no \"metrics\" here"`,
	} {
		if _, err := source("/rank0", path).Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
	if _, err := source("/json").Fetch(t.Context()); !errors.Is(err, ErrJSON) {
		t.Errorf("error %v", err)
	}
	if _, err := source().Fetch(t.Context()); err == nil {
		t.Error("no address is no error")
	}
	bad := &Source{Client: server.Client(), URLs: []string{"http://user:pass%20word@127.0.0.1:1/metrics"}}
	if _, err := bad.Fetch(t.Context()); err == nil || strings.Contains(err.Error(), "pass") {
		t.Errorf("a password in an error: %v", err)
	}
}

func TestRecordsAreJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Between(load(t, "tgi-3.txt"), load(t, "tgi-3.txt")))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"prompt_tokens":0,"generation_tokens":0,"requests_finished":0,"requests_preempted":null,"cache_queries":null,"cache_hits":null,"spec_rounds":null,"spec_proposed":null,"spec_accepted":null,"spec_accepted_per_position":null}`
	if string(text) != want {
		t.Errorf("got %s", text)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]Load{
		"vllm-2025-04.txt":     {ptr(0.0), ptr(0.0), ptr(0.0)},
		"vllm-2026.txt":        {ptr(0.0), ptr(0.0), ptr(0.25)},
		"vllm-openmetrics.txt": {ptr(1.0), ptr(2.0), nil},
		"llamacpp-b6700.txt":   {ptr(1.0), ptr(3.0), nil},
	} {
		s := load(t, file)
		if diff := cmp.Diff(want, s.Load()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestBlockSize(t *testing.T) {
	t.Parallel()
	const name = "vllm:cache_config_info"
	for text, want := range map[string]*int{
		name + "{block_size=\"16\",engine=\"0\"} 1.0\n" + name + "{block_size=\"32\",engine=\"1\"} 1.0\n": ptr(32),
		name + "{block_size=\"None\"} 1.0\n": nil,
		"vllm:prompt_tokens_total 1\n":       nil,
	} {
		s := parse(t, text)
		if diff := cmp.Diff(want, s.BlockSize()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
