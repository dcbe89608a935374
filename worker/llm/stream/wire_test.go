package stream_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
)

// raw is a server that reads whole requests and writes what it is told, byte by byte, one answer a request. An answer
// that ends with "CLOSE" closes the connection.
func raw(t *testing.T, answers ...string) (c *stream.Client, served *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	served = new(atomic.Int32)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					n := int(served.Add(1)) - 1
					if n >= len(answers) {
						return
					}
					text, closes := strings.CutSuffix(answers[n], "CLOSE")
					if _, err := io.WriteString(conn, text); err != nil || closes {
						return
					}
				}
			}()
		}
	}()
	c, err = stream.New("http://"+l.Addr().String(), stream.Options{Timeouts: stream.Timeouts{FirstByte: time.Minute, Idle: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, served
}

const events = "data: {\"a\":1}\n\ndata: [DONE]\n\n"

// TestBodies: how a body is delimited decides whether its end is one, and whether the connection is used again.
func TestBodies(t *testing.T) {
	t.Parallel()
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	const ok, sse = "HTTP/1.1 200 OK\r\n", "Content-Type: text/event-stream\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(events))
	for _, c := range []struct {
		name, answer string
		want         string
		cut, again   bool
	}{
		{"chunked", ok + sse + "Transfer-Encoding: chunked\r\n\r\n" + chunk(events) + "0\r\n\r\n", events, false, true},
		{"chunks cut frames anywhere", ok + sse + "Transfer-Encoding: chunked\r\n\r\n" + chunk(events[:3]) + chunk(events[3:8]) + chunk(events[8:]) + "0\r\n\r\n", events, false, true},
		{"trailers", ok + sse + "Transfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n" + chunk(events) + "0\r\nX-A: 1\r\n\r\n", events, false, true},
		{"extensions of chunks", ok + sse + "Transfer-Encoding: chunked\r\n\r\n" + strings.Replace(chunk(events), "\r\n", ";a=b\r\n", 1) + "0\r\n\r\n", events, false, true},
		{"content length", ok + sse + length + events, events, false, true},
		{"until the end", ok + sse + "Connection: close\r\n\r\n" + events + "CLOSE", events, false, false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n" + events + "CLOSE", events, false, false},
		{"the server will close", ok + "Connection: close\r\n" + length + events, events, false, false},
		{"nothing", ok + "Content-Length: 0\r\n\r\n", "", false, true},
		{"interim responses", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + length + events, events, false, true},
		{"chunks without their end", ok + sse + "Transfer-Encoding: chunked\r\n\r\n" + chunk(events) + "CLOSE", events, true, false},
		{"a chunk that is cut", ok + sse + "Transfer-Encoding: chunked\r\n\r\n" + chunk(events)[:9] + "CLOSE", events[:5], true, false},
		{"fewer bytes than announced", ok + "Content-Length: 1000\r\n\r\n" + events + "CLOSE", events, true, false},
		{"no response", "CLOSE", "", true, false},
		{"half a header", ok + "Content-Ty" + "CLOSE", "", true, false},
		{"no HTTP", "hello\r\n\r\nCLOSE", "", true, false},
		{"interim responses without end", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 9) + "CLOSE", "", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, served := raw(t, c.answer, ok+"Content-Length: 0\r\n\r\n")
			x := client.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")})
			if string(x.Raw) != c.want || (x.Err != nil) != c.cut || served.Load() != 1 {
				t.Errorf("%d requests, %v: %q", served.Load(), x.Err, x.Raw)
			}
			if x := client.Do(t.Context(), stream.Request{Path: path}); x.Conn.Reused != c.again || x.Err != nil {
				t.Errorf("again: %v %+v", x.Err, x.Conn)
			}
		})
	}
}

// Rule 20: a connection that the server closed while it was not used fails the request, and nothing is sent twice.
func TestClosedWhileUnused(t *testing.T) {
	t.Parallel()
	client, served := raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nCLOSE", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	if x := client.Do(t.Context(), stream.Request{Path: path}); x.Err != nil {
		t.Fatal(x.Err)
	}
	if x := client.Do(t.Context(), stream.Request{Path: path}); x.Err == nil || !x.Conn.Reused || served.Load() != 1 {
		t.Errorf("%d requests: %+v", served.Load(), x)
	}
	if x := client.Do(t.Context(), stream.Request{Path: path}); x.Err != nil || x.Conn.Reused {
		t.Errorf("the broken connection was kept: %+v", x)
	}
}

// A server that refuses a large request before it has read it: what it said is kept, not that the writing failed.
func TestRefusedEarly(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.CopyN(io.Discard, conn, 1000)
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlong")
	}()
	c, err := stream.New("http://"+l.Addr().String(), stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := c.Do(t.Context(), stream.Request{Path: path, Body: make([]byte, 32<<20)})
	var refused *stream.StatusError
	if !errors.As(x.Err, &refused) || refused.Status != 413 || string(refused.Body) != "long" || !x.Wrote.IsZero() {
		t.Errorf("%v", x.Err)
	}
}

// What the server sends behind the body of an answer is no part of it, nor of the next answer.
func TestBytesBehindTheBody(t *testing.T) {
	t.Parallel()
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(events))
	client, _ := raw(t, "HTTP/1.1 200 OK\r\n"+length+events+"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew")
	if x := client.Do(t.Context(), stream.Request{Path: path}); x.Err != nil || string(x.Raw) != events {
		t.Fatalf("%v %q", x.Err, x.Raw)
	}
	if x := client.Do(t.Context(), stream.Request{Path: path}); string(x.Raw) != "new" {
		t.Errorf("%v %q", x.Err, x.Raw)
	}
}

// Rules 1 and 3: the stamps of the reads never go back, and every byte belongs to one of them.
func TestReadsAreInOrder(t *testing.T) {
	t.Parallel()
	frames := make([]string, 500)
	for i := range frames {
		frames[i] = llmtest.Content(strings.Repeat("x", i))
	}
	c := over(t, llmtest.Frames(0, 0, frames...), stream.Options{})
	x := c.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}"), Room: 1})
	end, last := 0, time.Duration(0)
	for i, r := range x.Reads {
		if r.Off != end || r.Len < 1 || r.At < last {
			t.Fatalf("read %d: %+v behind %d at %v", i, r, end, last)
		}
		end, last = r.Off+r.Len, r.At
	}
	if end != len(x.Raw) || string(x.Raw) != strings.Join(frames, "") || x.Start.Add(last).After(x.End) {
		t.Errorf("%d of %d bytes", end, len(x.Raw))
	}
}
