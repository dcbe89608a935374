package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
	"cpbench/worker/llm/stream/chat"
)

const path = "/v1/chat/completions"

// over makes a client for a handler on loopback.
func over(t *testing.T, h http.Handler, o stream.Options) *stream.Client {
	t.Helper()
	live, err := llmtest.Listen(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	c, err := stream.New(live.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// piped makes a client for a handler in virtual time. The returned function ends both.
func piped(t *testing.T, h http.Handler, o stream.Options) (*stream.Client, func()) {
	t.Helper()
	live := llmtest.Pipe(h)
	if o.Dial == nil {
		o.Dial = live.Dial
	}
	c, err := stream.New(live.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		c.Close()
		live.Close()
	}
}

// Rule 21: four bounds, each with an error of its own.
func TestFourTimeouts(t *testing.T) {
	t.Parallel()
	never := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	bounds := stream.Timeouts{Connect: time.Second, FirstByte: 5 * time.Second, Idle: 2 * time.Second, Total: 20 * time.Second}
	ping := llmtest.Step{After: 1500 * time.Millisecond, Write: ":\n\n"}
	many := make([]llmtest.Step, 60)
	for i := range many {
		many[i] = ping
	}
	for _, c := range []struct {
		name   string
		dial   func(ctx context.Context, network, address string) (net.Conn, error)
		script llmtest.Script
		want   error
		end    time.Duration
	}{
		{"connect", never, llmtest.Script{}, stream.ErrConnectTimeout, time.Second},
		{"first byte without a header", nil, llmtest.Script{Silent: true}, stream.ErrFirstByteTimeout, 5 * time.Second},
		{"first byte behind a header", nil, llmtest.Script{Steps: []llmtest.Step{{}}, Hang: true}, stream.ErrFirstByteTimeout, 5 * time.Second},
		{"idle", nil, llmtest.Script{Steps: []llmtest.Step{ping, ping}, Hang: true}, stream.ErrIdleTimeout, 5 * time.Second},
		{"total", nil, llmtest.Script{Steps: many}, stream.ErrTotalTimeout, 20 * time.Second},
		{"none", nil, llmtest.Script{Steps: many[:8]}, nil, 12 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, done := piped(t, c.script, stream.Options{Dial: c.dial, Timeouts: bounds})
				defer done()
				x := client.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")})
				if !errors.Is(x.Err, c.want) || (x.Err == nil) != (c.want == nil) {
					t.Errorf("%v", x.Err)
				}
				if got := x.End.Sub(x.Start); got != c.end {
					t.Errorf("ended after %v", got)
				}
				for _, other := range []error{stream.ErrConnectTimeout, stream.ErrFirstByteTimeout, stream.ErrIdleTimeout, stream.ErrTotalTimeout} {
					if !errors.Is(other, c.want) && errors.Is(x.Err, other) {
						t.Errorf("%v is also %v", x.Err, other)
					}
				}
			})
		})
	}
}

// Rule 2: the instants of one request, each at its exact place.
func TestInstants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		var inner func(ctx context.Context, network, address string) (net.Conn, error)
		slow := func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(30 * ms)
			return inner(ctx, network, address)
		}
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(50 * ms)
			llmtest.Frames(100*ms, 10*ms, llmtest.Role(), llmtest.Content("a"), llmtest.Done).ServeHTTP(w, r)
		})
		live := llmtest.Pipe(h)
		defer live.Close()
		inner = live.Dial
		c, err := stream.New(live.URL, stream.Options{Dial: slow})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		burst := c.Ready(t.Context(), stream.Request{Path: path, Body: []byte("{}")})
		time.Sleep(time.Second) // it waits behind the barrier
		opened := burst.Release()
		x := burst.Wait()[0]
		at := func(when time.Time) time.Duration { return when.Sub(x.Start) }
		got := map[string]time.Duration{
			"open": at(x.Open), "conn": at(x.Conn.Got), "connect": x.Conn.Connect, "wrote": at(x.Wrote), "first": at(x.FirstByte),
			"headers": at(x.Headers), "end": at(x.End), "since epoch": x.Start.Sub(c.Epoch()),
		}
		for i, r := range x.Reads {
			got[fmt.Sprint("read ", i)] = r.At
		}
		want := map[string]time.Duration{
			"open": 0, "conn": 30 * ms, "connect": 30 * ms, "wrote": 30 * ms, "first": 80 * ms, "headers": 80 * ms, "end": 200 * ms,
			"since epoch": time.Second, "read 0": 180 * ms, "read 1": 190 * ms, "read 2": 200 * ms,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if !opened.Equal(x.Open) || x.Conn.Reused || x.Conn.Ahead || x.Conn.Count != 1 || x.Protocol != "HTTP/1.1" || x.Status != 200 {
			t.Errorf("%+v", x)
		}
		if want := llmtest.Role() + llmtest.Content("a") + llmtest.Done; string(x.Raw) != want {
			t.Errorf("%q", x.Raw)
		}
		// The same connection serves the next request.
		if x := c.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")}); !x.Conn.Reused || x.Conn.Connect != 0 {
			t.Errorf("%+v", x.Conn)
		}
		time.Sleep(3 * time.Second) // and is not kept for longer than that
		if x := c.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")}); x.Conn.Reused || x.Err != nil {
			t.Errorf("%+v", x.Conn)
		}
	})
}

// Rules 5 and 25: connections are opened before the barrier, one for each stream, and nothing is sent before it opens.
func TestBarrier(t *testing.T) {
	t.Parallel()
	const streams = 12
	var opened, arrived atomic.Int32
	all := make(chan struct{})
	live, err := llmtest.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if arrived.Add(1) == streams {
			close(all)
		}
		<-all // every stream is here at the same time, or nobody goes on
		_, _ = io.WriteString(w, llmtest.Done)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	c, err := stream.New(live.URL, stream.Options{Concurrency: streams, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		opened.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	requests := make([]stream.Request, streams)
	for i := range requests {
		requests[i] = stream.Request{Path: path, Body: fmt.Appendf(nil, `{"stream":%d}`, i)}
	}
	burst := c.Ready(t.Context(), requests...)
	if err := c.Dial(t.Context(), streams); err != nil {
		t.Fatal(err)
	}
	if opened.Load() != streams || arrived.Load() != 0 {
		t.Errorf("%d connections and %d requests before the barrier", opened.Load(), arrived.Load())
	}
	at := burst.Release()
	if !burst.Release().Equal(at) {
		t.Error("the barrier opened twice")
	}
	locals := map[string]bool{}
	for i, x := range burst.Wait() {
		if x.Err != nil || x.Start.Before(at) || !x.Conn.Ahead || x.Conn.Reused || x.Conn.Count != 1 {
			t.Errorf("stream %d: %+v", i, x)
		}
		locals[x.Conn.Local] = true
	}
	if len(locals) != streams || opened.Load() != streams {
		t.Errorf("%d connections served %d streams; %d were opened", len(locals), streams, opened.Load())
	}
}

// Rule 25: what was opened ahead is not used when it has become old.
func TestOldConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, done := piped(t, llmtest.Frames(0, 0, llmtest.Done), stream.Options{})
		defer done()
		if err := c.Dial(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if x := c.Do(t.Context(), stream.Request{Path: path}); x.Conn.Ahead || x.Err != nil {
			t.Errorf("%+v", x)
		}
	})
}

// Opening ahead has the bound of connecting, and leaves nothing behind.
func TestDialInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		c, err := stream.New("http://host", stream.Options{Timeouts: stream.Timeouts{Connect: time.Second}, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			opened++
			return nil, ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := c.Dial(t.Context(), 1); !errors.Is(err, stream.ErrConnectTimeout) || time.Since(begun) != time.Second || opened != 1 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestNoConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c, err := stream.New("http://"+address, stream.Options{Timeouts: stream.Timeouts{Connect: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Dial(t.Context(), 3); !errors.Is(err, stream.ErrConnect) || !strings.Contains(err.Error(), address) {
		t.Errorf("%v", err)
	}
	if x := c.Do(t.Context(), stream.Request{Path: path}); !errors.Is(x.Err, stream.ErrConnect) || x.Conn.Count != 0 {
		t.Errorf("%+v", x)
	}
}

// Rule 20: a request that fails is not sent again: neither on a connection that breaks, nor after a redirect.
func TestOnePostOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		fail func(http.ResponseWriter)
	}{
		{"broken at once", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
		{"redirect", func(w http.ResponseWriter) {
			w.Header().Set("Location", "/again")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
		{"unavailable", func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int32
			client := over(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if posts.Add(1) == 1 { // good, so that the next one goes over a connection that was used before
					return
				}
				c.fail(w)
			}), stream.Options{})
			if x := client.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")}); x.Err != nil {
				t.Fatal(x.Err)
			}
			x := client.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")})
			if x.Err == nil || !x.Conn.Reused || x.Conn.Count != 1 || posts.Load() != 2 {
				t.Errorf("%d posts: %+v", posts.Load(), x)
			}
		})
	}
}

func TestOnTheWire(t *testing.T) {
	t.Parallel()
	server := llmtest.New(llmtest.Config{Key: "sk-very-secret"})
	c := over(t, server, stream.Options{Key: stream.NewSecret("sk-very-secret")})
	body := `{"messages":[{"role":"user","content":"a \"b\" é"}],"stream":true,"max_tokens":1}`
	if x := c.Do(t.Context(), stream.Request{Path: path, Body: []byte(body)}); x.Err != nil {
		t.Fatal(x.Err)
	}
	got := server.Requests(path)
	want := http.Header{
		"Accept-Encoding": {"identity"}, "Authorization": {"Bearer sk-very-secret"}, "Content-Length": {fmt.Sprint(len(body))},
		"Content-Type": {"application/json"}, "User-Agent": {"cpbench"},
	}
	if len(got) != 1 || got[0].Body != body {
		t.Fatalf("%+v", got)
	}
	if d := cmp.Diff(want, got[0].Header); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The key is shown nowhere, also when the server sends it back.
func TestSecret(t *testing.T) {
	t.Parallel()
	const key = "sk-very-secret"
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := "the key " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + " is wrong"
		if r.URL.Path == "/stream" {
			_, _ = io.WriteString(w, llmtest.Content(text))
			return
		}
		if r.URL.Path == "/moved" {
			w.Header().Set("Location", "/login?from="+text)
			w.WriteHeader(http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		if r.URL.Path == "/long" { // the key lies across the end of what is kept
			text = strings.Repeat("-", stream.MaxErrorBody-len(`{"error":{"message":"the key sk-very`)) + text
		}
		_, _ = io.WriteString(w, `{"error":{"message":"`+text+`"}}`)
	})
	o := stream.Options{Key: stream.NewSecret(key)}
	c := over(t, echo, o)
	refused := c.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")})
	streamed := c.Do(t.Context(), stream.Request{Path: "/stream", Body: []byte("{}")})
	moved := c.Do(t.Context(), stream.Request{Path: "/moved", Body: []byte("{}")})
	cut := new(stream.StatusError)
	long := c.Do(t.Context(), stream.Request{Path: "/long", Body: []byte("{}")})
	asJSON, err := json.Marshal(map[string]any{"key": o.Key})
	if refused.Err == nil || moved.Err == nil || !errors.As(long.Err, &cut) || err != nil {
		t.Fatal(refused.Err, moved.Err, long.Err, err)
	}
	for _, text := range []string{
		fmt.Sprint(moved.Err), string(cut.Body),
		fmt.Sprint(refused.Err), fmt.Sprintf("%+v", refused.Err), string(streamed.Raw), string(asJSON), fmt.Sprintf("%+v", c),
		fmt.Sprint(o), fmt.Sprintf("%+v", o), fmt.Sprintf("%#v", o), o.Key.String(), fmt.Sprintf("%s %v %#v", o.Key, o.Key, o.Key),
	} {
		if strings.Contains(text, key) || strings.Contains(text, "very") {
			t.Errorf("the key is in %q", text)
		}
	}
	if want := llmtest.Content("the key ************** is wrong"); string(streamed.Raw) != want {
		t.Errorf("%q", streamed.Raw)
	}
	if _, err := stream.New("http://x", stream.Options{Key: stream.NewSecret("a\nb")}); err == nil || strings.Contains(err.Error(), "a\nb") {
		t.Errorf("%v", err)
	}
}

// Rule 20: what a refusal says is kept.
func TestStatus(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<p>", 5000)
	for _, c := range []struct {
		name, body string
		want       stream.StatusError
		text       string
	}{
		{
			"understood", `{"error":{"message":"try later","type":"rate_limit","code":"busy"}}`,
			stream.StatusError{Status: 429, RetryAfter: "3", Detail: &chat.Error{Message: "try later", Type: "rate_limit", Code: "busy"}},
			`status 429: rate_limit: "try later"`,
		},
		{"text", "<b>\nno", stream.StatusError{Status: 502}, `status 502: "<b>"`},
		{"long", long, stream.StatusError{Status: 500}, `status 500: "` + long[:200] + `"`},
		{"nothing", "", stream.StatusError{Status: 404}, `status 404`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := over(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.want.RetryAfter != "" {
					w.Header().Set("Retry-After", c.want.RetryAfter)
				}
				w.WriteHeader(c.want.Status)
				_, _ = io.WriteString(w, c.body)
			}), stream.Options{})
			x := client.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")})
			var got *stream.StatusError
			if !errors.As(x.Err, &got) {
				t.Fatal(x.Err)
			}
			c.want.Body = []byte(c.body[:min(len(c.body), stream.MaxErrorBody)])
			if d := cmp.Diff(&c.want, got, cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got.Error() != c.text {
				t.Errorf("%q", got.Error())
			}
			// The rest of the body was read, so the connection is used again.
			if x := client.Do(t.Context(), stream.Request{Path: path, Body: []byte("{}")}); !x.Conn.Reused {
				t.Error("the connection was lost")
			}
		})
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, done := piped(t, llmtest.Script{Steps: []llmtest.Step{{After: time.Second, Write: llmtest.Role()}}, Hang: true}, stream.Options{})
		defer done()
		why := errors.New("the job is being ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(why) })
		x := c.Do(ctx, stream.Request{Path: path, Body: []byte("{}")})
		if !errors.Is(x.Err, why) || x.End.Sub(x.Start) != 2*time.Second || len(x.Reads) != 1 {
			t.Errorf("%+v", x)
		}
	})
}

// The mixed case: when the text of both short streams has come, and whether they still generate.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		script := llmtest.Frames(100*ms, 100*ms, ":\n\n", llmtest.Role(), llmtest.Content("a"), llmtest.Content("b"), llmtest.Done)
		script.Hang = true // the body does not end, but the answer has
		c, done := piped(t, script, stream.Options{})
		defer done()
		w := stream.NewWatch(chat.HasText)
		burst := c.Ready(t.Context(), stream.Request{Path: path, Body: []byte("{}"), Watch: w})
		start := burst.Release()
		time.Sleep(250 * ms)
		if w.Open() || !w.FirstText().IsZero() {
			t.Error("a role frame is no text")
		}
		<-w.Text()
		if at := time.Since(start); at != 300*ms || !w.Open() || w.FirstText().Sub(start) != at {
			t.Errorf("text after %v, open %v", at, w.Open())
		}
		<-w.Ended()
		if at := time.Since(start); at != 500*ms || w.Open() {
			t.Errorf("ended after %v, open %v", at, w.Open())
		}
		if x := burst.Wait()[0]; x.Err != nil || !x.Undrained {
			t.Errorf("%+v", x)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, done := piped(t, llmtest.Script{Status: 500}, stream.Options{})
		defer done()
		w := stream.NewWatch(chat.HasText)
		c.Do(t.Context(), stream.Request{Path: path, Watch: w})
		<-w.Ended() // a failure ends it as well
		if w.Open() {
			t.Error("open")
		}
	})
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, want string }{
		{"127.0.0.1:8000", "address of the server"},
		{"ftp://host", "not of the form"},
		{"http://", "not of the form"},
		{"http://me:hunter2@host", "holds a user"},
		{"http://me:hunter2@host:bad:port", "address of the server"},
	} {
		if _, err := stream.New(c.base, stream.Options{}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", c.base, err)
		}
	}
}

// Rule 25: proxies are off, and variables that name one are told of.
func TestProxyVariables(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:9")
	t.Setenv("http_proxy", "http://127.0.0.1:9")
	c := over(t, llmtest.Frames(0, 0, llmtest.Done), stream.Options{})
	if d := cmp.Diff([]string{"http_proxy is set and not used", "HTTPS_PROXY is set and not used"}, c.Warnings()); d != "" {
		t.Error(d)
	}
	if x := c.Do(t.Context(), stream.Request{Path: path}); x.Err != nil {
		t.Error(x.Err)
	}
}
