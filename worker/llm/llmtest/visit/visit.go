// Package visit goes to the simulated server for tests of what is made of its answers: Script plays one answer to one
// request, Server starts a whole server and finds out what it is, and Real finds a real one.
package visit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"cpbench/plan/suite"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
)

// Script sends one request to a script, in the virtual time of a synctest bubble if the test is in one, and returns what
// was recorded, with the epoch of the client.
func Script(t *testing.T, s llmtest.Script) (x *stream.Exchange, epoch time.Time) {
	t.Helper()
	server := llmtest.Pipe(s)
	defer server.Close()
	c, err := stream.New(server.URL, stream.Options{Dial: server.Dial, Timeouts: stream.Timeouts{
		Connect: time.Second, FirstByte: llmtest.FirstByteBound, Idle: llmtest.IdleBound, Total: llmtest.TotalBound,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Do(t.Context(), stream.Request{Path: dialect.ChatPath, Body: []byte(`{"stream":true}`)}), c.Epoch()
}

// Real is the folder of a real vLLM for CPUs. A test of it takes minutes: it is left out unless CPBENCH_TEST_LLM is set or
// CPBENCH_TEST_REQUIRE has llm.
func Real(t *testing.T) string {
	t.Helper()
	if os.Getenv("CPBENCH_TEST_LLM") == "" && !suite.Required("llm") {
		t.Skip("takes minutes: CPBENCH_TEST_LLM=1 or make llm-server-test runs it")
	}
	root := os.Getenv("XDG_CACHE_HOME")
	if root == "" {
		root = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	root = filepath.Join(root, "cpbench", "llm")
	if _, err := os.Stat(filepath.Join(root, "made")); err != nil {
		t.Fatalf("no real LLM server: %v; make llm-server installs it", err)
	}
	return root
}

// Server starts a simulated server on the loopback interface, until the test ends, and finds out what it is.
func Server(t *testing.T, c llmtest.Config) (*llmtest.Server, *dialect.Server) {
	t.Helper()
	server := llmtest.New(c)
	live, err := llmtest.Listen(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	seen, err := dialect.Detect(t.Context(), dialect.Options{URL: live.URL})
	if err != nil {
		t.Fatal(err)
	}
	return server, seen
}
