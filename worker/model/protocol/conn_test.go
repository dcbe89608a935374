package protocol_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cpbench/worker/model/protocol"

	"github.com/google/go-cmp/cmp"
)

// pair returns two ends of a TCP connection on loopback.
func pair(tb testing.TB) (net.Conn, net.Conn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestReceive(t *testing.T) {
	t.Parallel()
	long := `{"type":"error","text":"` + strings.Repeat("x", 100_000) + `"}` + "\n"
	tests := map[string]struct {
		sent    string
		want    []string // types received before the error
		wantErr error
	}{
		"end after a line":  {"{\"type\":\"alive\"}\n", []string{"alive"}, io.EOF},
		"nothing":           {"", nil, io.EOF},
		"unterminated":      {"{\"type\":\"alive\"}\n{\"type\":\"alive\"}", []string{"alive"}, io.ErrUnexpectedEOF},
		"long lines":        {long + long, []string{"error", "error"}, io.EOF},
		"unterminated long": {long[:len(long)-1], nil, io.ErrUnexpectedEOF},
		"too long":          {strings.Repeat("y", protocol.MaxLine+1), nil, protocol.ErrLineTooLong},
		"longest":           {`{"type":"stop"}` + strings.Repeat(" ", protocol.MaxLine-16) + "\n", []string{"stop"}, io.EOF},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t)
			go func() {
				_, _ = io.WriteString(a, tt.sent)
				a.Close()
			}()
			c := protocol.NewConn(b)
			var got []string
			for {
				m, err := c.Receive()
				if err != nil {
					if !errors.Is(err, tt.wantErr) {
						t.Errorf("got %v, want %v", err, tt.wantErr)
					}
					break
				}
				got = append(got, m.Type())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReceiveGoesOnAfterAnUnknownType(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	if _, err := io.WriteString(a, "{\"type\":\"newer\"}\nrubbish\n{\"type\":\"ready\"}\n"); err != nil {
		t.Fatal(err)
	}
	c := protocol.NewConn(b)
	if _, err := c.Receive(); !errors.Is(err, protocol.ErrUnknownType) {
		t.Errorf("first: %v", err)
	}
	if m, err := c.Receive(); err == nil || errors.Is(err, protocol.ErrUnknownType) {
		t.Errorf("second: %v, %v", m, err)
	}
	if m, err := c.Receive(); err != nil || m.Type() != "ready" {
		t.Errorf("third: %v, %v", m, err)
	}
}

func TestSendFromManyGoroutines(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	const senders, each = 8, 50
	from := protocol.NewConn(a)
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for range each {
				if err := from.Send(protocol.Error{Text: fmt.Sprint(i, strings.Repeat("z", 20_000))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { wg.Wait(); from.Close() }()
	to, seen := protocol.NewConn(b), 0
	for {
		m, err := to.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("line %d: %v", seen, err)
			}
			break
		}
		if e, ok := m.(*protocol.Error); !ok || len(e.Text) < 20_000 {
			t.Errorf("torn line: %T", m)
		}
		seen++
	}
	if seen != senders*each {
		t.Errorf("%d lines, want %d", seen, senders*each)
	}
}

func TestCloseWakesReceiveAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	_, b := pair(t)
	c := protocol.NewConn(b)
	ended := make(chan error, 1)
	go func() { _, err := c.Receive(); ended <- err }()
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want net.ErrClosed", err)
	}
}

func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv(protocol.EnvConnect, l.Addr().String())
	t.Setenv(protocol.EnvToken, "secret")
	c, err := protocol.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Token() != "secret" {
		t.Errorf("token %q", c.Token())
	}
	for _, unset := range []string{protocol.EnvConnect, protocol.EnvToken} {
		t.Run(unset, func(t *testing.T) {
			t.Setenv(unset, "")
			if _, err := protocol.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), unset) {
				t.Errorf("got %v, want an error that names %s", err, unset)
			}
		})
	}
}

// BenchmarkRoundTrip is one step as worker and rank see it: Step there, Memory and Steps back. The design bounds
// p50-µs by 50.
func BenchmarkRoundTrip(b *testing.B) {
	x, y := pair(b)
	worker, rank := protocol.NewConn(x), protocol.NewConn(y)
	go func() {
		for {
			if _, err := rank.Receive(); err != nil {
				return
			}
			peak := protocol.Peak{Allocated: ptr(int64(1) << 30)}
			if rank.Send(protocol.Memory{Cold: peak, Warm: peak}) != nil ||
				rank.Send(protocol.Steps{Seconds: []float64{0.123456789}, Finite: ptr(true)}) != nil {
				return
			}
		}
	}()
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := worker.Send(protocol.Step{Phase: "timed", Count: 1}); err != nil {
			b.Fatal(err)
		}
		for range 2 {
			if _, err := worker.Receive(); err != nil {
				b.Fatal(err)
			}
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/1e3, "p50-µs")
}
