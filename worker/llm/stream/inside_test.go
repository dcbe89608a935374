package stream

import (
	"bytes"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

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
		for _, r := range g.reads {
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

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	if (&log{size: MaxAnswer}).full() || !(&log{size: MaxAnswer + 1}).full() || !(&log{reads: make([]Read, maxReads+1)}).full() {
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

// The transport must have no way to send a body twice.
func TestRequestCannotBeRepeated(t *testing.T) {
	t.Parallel()
	c, err := New("http://host/base/", Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := c.request(http.MethodPost, "/v1/chat/completions", []byte("{}"))
	if r.GetBody != nil || r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != "" {
		t.Errorf("%+v", r)
	}
	if _, ok := r.Body.(interface{ Len() int }); ok {
		t.Error("the body tells what it is")
	}
	if r.URL.String() != "http://host/base/v1/chat/completions" || c.address != "host:80" {
		t.Errorf("%v %s", r.URL, c.address)
	}
	tr := c.transport
	if tr.Proxy != nil || !tr.DisableCompression || tr.ReadBufferSize < 64<<10 || tr.IdleConnTimeout != idleTime || tr.Protocols.HTTP2() {
		t.Errorf("%+v", tr)
	}
}

// TLS is part of opening a connection, and so comes before the barrier.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c, err := New(server.URL, Options{Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.pool.tls.RootCAs = x509.NewCertPool()
	c.pool.tls.RootCAs.AddCert(server.Certificate())
	if err := c.Dial(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for _, x := range c.Ready(t.Context(), Request{Body: []byte("a")}, Request{Body: []byte("b")}).Wait() {
		if x.Err != nil || !x.Conn.Ahead || x.Conn.Connect <= 0 || x.Protocol != "HTTP/1.1" || len(x.Raw) != 1 {
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
