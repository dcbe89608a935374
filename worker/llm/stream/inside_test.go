package stream

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The log keeps every byte in its place, whatever the reads were.
func TestLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := newLog(rapid.IntRange(0, 40_000).Draw(t, "room"))
		var want []byte
		for i := range rapid.IntRange(0, 120).Draw(t, "reads") {
			into := g.room()
			if len(into) < leastRoom {
				t.Fatalf("room for %d bytes", len(into))
			}
			n := rapid.IntRange(1, min(len(into), 60_000)).Draw(t, "n")
			for k := range n {
				into[k] = byte(i + k)
			}
			want = append(want, into[:n]...)
			g.add(0, n)
		}
		if !bytes.Equal(want, g.bytes()) {
			t.Fatal("bytes were lost or moved")
		}
		at := 0
		for _, r := range g.all() {
			if r.Off != at {
				t.Fatalf("read at %d begins at %d", at, r.Off)
			}
			at += r.Len
		}
		if at != len(want) {
			t.Fatalf("reads have %d of %d bytes", at, len(want))
		}
	})
}

// Reads are kept in blocks as well.
func TestLogOfManyReads(t *testing.T) {
	t.Parallel()
	g := newLog(0)
	const n = 2*blockReads + 1
	for i := range n {
		g.room()[0] = byte(i)
		g.add(time.Duration(i), 1)
	}
	if len(g.times) != 3 || len(g.all()) != n || len(g.bytes()) != n || g.last != n-1 {
		t.Errorf("%d blocks, %d reads, %d bytes", len(g.times), len(g.all()), len(g.bytes()))
	}
	for i, r := range g.all() {
		if r.At != time.Duration(i) || r.Off != i || r.Len != 1 || g.bytes()[i] != byte(i) {
			t.Fatalf("read %d: %+v", i, r)
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	if (&log{size: MaxAnswer}).full() || !(&log{size: MaxAnswer + 1}).full() || !(&log{reads: maxReads + 1}).full() {
		t.Error("no bound")
	}
}

func TestSaidDone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"data: [DONE]\n\n": true, "data:[DONE]\r\n\r\n": true, "x\ndata: [DONE]": true, "data: [DONE]\n\n:\n\n": false,
		"": false, "[DONE]": false, `data: {"content":"data: [DONE]"}` + "\n\n": false, "data: [DONE": false,
	} {
		g := newLog(0)
		g.add(0, copy(g.room(), text))
		if got := g.saidDone(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Rules 2 and 17: a request is one piece, made before the barrier, and asks for no compression: nothing that could be read again, or encoded while others wait.
func TestMessage(t *testing.T) {
	t.Parallel()
	c, err := New("http://host/base/", Options{Key: NewSecret("sk-1")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.message("/v1/chat/completions?a=b%20c", []byte("{\"a\":\"\u00e9\"}"))
	want := "POST /base/v1/chat/completions?a=b%20c HTTP/1.1\r\nHost: host\r\nUser-Agent: cpbench\r\nContent-Length: 10\r\n" +
		"Accept-Encoding: identity\r\nAuthorization: Bearer sk-1\r\nContent-Type: application/json\r\n\r\n{\"a\":\"\u00e9\"}"
	if string(got) != want || err != nil {
		t.Errorf("%v:\n%s", err, got)
	}
	if c.pool.address != "host:80" {
		t.Error(c.pool.address)
	}
	if got, err := c.message("/", nil); !bytes.Contains(got, []byte("Content-Length: 0\r\n")) || err != nil {
		t.Errorf("%v: %q", err, got)
	}
}

// Rule 27: what is garbage before the barrier is collected before it.
func TestReadyCollects(t *testing.T) {
	c, err := New("http://127.0.0.1:1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b := c.Ready(ctx, Request{})
	runtime.ReadMemStats(&after)
	if after.NumForcedGC == before.NumForcedGC {
		t.Error("nothing was collected")
	}
	cancel()
	if x := b.Wait()[0]; x.Err == nil || x.Conn.Count != 0 {
		t.Errorf("%+v", x)
	}
}

// TLS is part of opening a connection, and so comes before the barrier.
func TestTLS(t *testing.T) {
	t.Parallel()
	server, roots := certified(t)
	c, err := New(server.URL, Options{Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.pool.tls.RootCAs = roots
	if err := c.Dial(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for _, x := range c.Ready(t.Context(), Request{Body: []byte("a")}, Request{Body: []byte("b")}).Wait() {
		if x.Err != nil || !x.Conn.Ahead || x.Conn.Connect <= 0 || x.Protocol != "HTTP/1.1" || len(x.Raw) == 0 {
			t.Errorf("%+v", x)
		}
	}
	other, err := New(server.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if x := other.Do(t.Context(), Request{}); x.Err == nil {
		t.Error("a certificate of nobody was taken")
	}
}
