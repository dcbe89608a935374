// Package visit goes to the simulated server for tests of what is made of its answers: Script plays one answer to one
// request, and Server starts a whole server and finds out what it is.
package visit

import (
	"testing"
	"time"

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
