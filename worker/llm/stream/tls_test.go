package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// certified is a server with a certificate for 127.0.0.1, ::1 and example.com, and who vouches for it.
func certified(t *testing.T) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server, roots
}

// TestNames: the name in an address is the one that the certificate has to have, however it is written.
func TestNames(t *testing.T) {
	t.Parallel()
	server, roots := certified(t)
	for _, c := range []struct {
		base, address, host string
		bad                 bool
	}{
		{"https://127.0.0.1", "127.0.0.1:443", "127.0.0.1", false},
		{"https://[::1]", "[::1]:443", "[::1]", false},
		{"https://[::1]:8443/v1", "[::1]:8443", "[::1]:8443", false},
		{"https://example.com:444", "example.com:444", "example.com:444", false},
		{"https://example.com.", "example.com.:443", "example.com.", false},
		{"https://other.example", "other.example:443", "", true},
		{"https://[::2]", "[::2]:443", "", true},
	} {
		var asked string
		client, err := New(c.base, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			asked = address
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}})
		if err != nil {
			t.Fatal(err)
		}
		client.pool.tls.RootCAs = roots
		x := client.Do(t.Context(), Request{Path: "/v1/chat/completions"})
		if asked != c.address || string(x.Raw) != c.host || errors.Is(x.Err, ErrConnect) != c.bad || (x.Err == nil) == c.bad {
			t.Errorf("%s: dialled %q, Host %q: %v", c.base, asked, x.Raw, x.Err)
		}
		client.Close()
	}
}

// A request that is given up while the server does not read ends at once: TLS would take leave for 5 s.
func TestGivenUpOverTLS(t *testing.T) {
	t.Parallel()
	server, roots := certified(t)
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() { _ = tls.Server(theirs, server.TLS).Handshake() }()
		client, err := New("https://example.com", Options{Dial: func(context.Context, string, string) (net.Conn, error) { return ours, nil }})
		if err != nil {
			t.Fatal(err)
		}
		client.pool.tls.RootCAs = roots
		why := errors.New("the job is being ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(why) })
		x := client.Do(ctx, Request{Body: make([]byte, 1<<20)})
		if took := x.End.Sub(x.Start); took != 2*time.Second || !errors.Is(x.Err, why) || x.Conn.Count != 1 {
			t.Errorf("ended after %v: %v", took, x.Err)
		}
	})
}
