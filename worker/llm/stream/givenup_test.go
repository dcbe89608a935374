package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
)

// TestCancelAnywhere: the end of the caller ends a request at once wherever it is, with the caller's reason, and leaves
// no goroutine behind, for which synctest would wait.
func TestCancelAnywhere(t *testing.T) {
	t.Parallel()
	never := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	deaf := func(context.Context, string, string) (net.Conn, error) {
		ours, _ := net.Pipe() // nobody reads at its other end
		return ours, nil
	}
	for _, c := range []struct {
		name  string
		serve llmtest.Script
		dial  func(ctx context.Context, network, address string) (net.Conn, error)
		body  int
		reads int
	}{
		{"connecting", llmtest.Script{}, never, 2, 0},
		{"writing", llmtest.Script{}, deaf, 1 << 20, 0},
		{"waiting for the header", llmtest.Script{Silent: true}, nil, 2, 0},
		{"waiting for the body", llmtest.Script{Steps: []llmtest.Step{{}}, Hang: true}, nil, 2, 0},
		{"reading", llmtest.Script{Steps: []llmtest.Step{{Write: llmtest.Role()}}, Hang: true}, nil, 2, 1},
		{"waiting for the body's end", llmtest.Script{Steps: []llmtest.Step{{After: 1500 * time.Millisecond, Write: llmtest.Done}}, Hang: true}, nil, 2, 1},
		{"reading what a refusal says", llmtest.Script{Status: 500, Steps: []llmtest.Step{{Write: "no"}}, Hang: true}, nil, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, done := piped(t, c.serve, stream.Options{Dial: c.dial})
				defer done()
				why := errors.New("the job is being ended")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(2*time.Second, func() { cancel(why) })
				x := client.Do(ctx, stream.Request{Path: path, Body: make([]byte, c.body)})
				var refused *stream.StatusError
				if took := x.End.Sub(x.Start); took != 2*time.Second || len(x.Reads) != c.reads || !errors.Is(x.Err, why) && !errors.As(x.Err, &refused) {
					t.Errorf("ended after %v with %d reads: %v", took, len(x.Reads), x.Err)
				}
			})
		})
	}
}

// A server that refuses a large request and does not read on: what it said is kept, not that nothing came in time.
func TestRefusedAndDeaf(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]error{
		"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nlong": &stream.StatusError{},
		"": stream.ErrFirstByteTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() {
				_, _ = io.CopyN(io.Discard, theirs, 1000)
				_, _ = io.WriteString(theirs, answer)
			}()
			c, err := stream.New("http://host", stream.Options{
				Timeouts: stream.Timeouts{FirstByte: 5 * time.Second},
				Dial:     func(context.Context, string, string) (net.Conn, error) { return ours, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			x := c.Do(t.Context(), stream.Request{Path: path, Body: make([]byte, 1<<20)})
			var refused *stream.StatusError
			if errors.As(want, &refused) {
				if !errors.As(x.Err, &refused) || refused.Status != 413 || string(refused.Body) != "long" {
					t.Error(x.Err)
				}
			} else if !errors.Is(x.Err, want) {
				t.Error(x.Err)
			}
			if took := x.End.Sub(x.Start); took < 5*time.Second || took > 6*time.Second {
				t.Errorf("after %v", took)
			}
		})
	}
}
