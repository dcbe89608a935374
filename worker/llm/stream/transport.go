package stream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"time"
)

// readBuffer is the buffer of a connection. The default of 4 KiB would cut an answer into many more reads.
const readBuffer = 64 << 10

// New makes a client for a server, given by the address that stands before /v1. Close it after use.
func New(base string, o Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		var parse *url.Error // whose text has the whole address
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("address of the server: %q holds a user; a key is named by its variable", u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("address of the server: %q is not of the form http://host:port or https://host:port", base)
	}
	if o.Key != nil && strings.ContainsFunc(o.Key(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, errors.New("the key holds a control character, such as a line's end")
	}
	c := &Client{base: u, options: o, pool: &pool{open: o.Dial}, epoch: time.Now(), address: u.Host}
	if c.pool.open == nil {
		c.pool.open = (&net.Dialer{Timeout: o.Timeouts.Connect}).DialContext
	}
	if u.Port() == "" {
		c.address = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if u.Scheme == "https" {
		c.pool.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	c.transport = c.newTransport(max(o.Concurrency, 1))
	c.transport.DialContext, c.transport.DialTLSContext = c.pool.get, c.pool.get
	c.aside = c.newTransport(2)
	c.aside.DialContext = c.pool.open
	c.proxies()
	return c, nil
}

// newTransport is a transport that adds nothing of its own: no second protocol, no compression, no hidden limits.
func (c *Client) newTransport(idle int) *http.Transport {
	t := &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     idleTime,
		ReadBufferSize:      readBuffer,
		WriteBufferSize:     readBuffer,
		Protocols:           new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if c.options.UseProxy {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

// proxies notes whether a proxy stands between, and warns of one that was left out.
func (c *Client) proxies() {
	if c.options.UseProxy {
		proxy, err := http.ProxyFromEnvironment(&http.Request{URL: c.base})
		if c.proxied = err != nil || proxy != nil; c.proxied {
			c.warnings = append(c.warnings, "connections go through a proxy, are opened when they are needed, and its time is in every number")
			if c.pool.tls != nil {
				c.transport.DialTLSContext = nil
			}
			c.pool.tls = nil
		}
		return
	}
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(name) != "" {
			c.warnings = append(c.warnings, name+" is set and not used")
		}
	}
}

// Close closes the connections that are not in use.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.aside.CloseIdleConnections()
	c.pool.closeAll()
}

// request builds an HTTP request that the transport cannot repeat: GetBody is not set.
func (c *Client) request(method, path string, body []byte) *http.Request {
	u := *c.base
	path, u.RawQuery, _ = strings.Cut(path, "?")
	u.Path = strings.TrimRight(u.Path, "/") + "/" + strings.TrimLeft(path, "/")
	u.RawPath = ""
	r := &http.Request{
		Method: method, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {"cpbench"}},
	}
	if body != nil {
		r.Body, r.ContentLength = newBody(body), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
	}
	if c.options.Key != nil {
		r.Header.Set("Authorization", "Bearer "+c.options.Key())
	}
	return r
}

// trace returns the hooks that note the instants of a request.
func (l *life) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			now := time.Now()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.conn.Count++
			l.conn.Got, l.conn.Reused = now, info.Reused
			l.conn.Remote, l.conn.Local = info.Conn.RemoteAddr().String(), info.Conn.LocalAddr().String()
			if in := inner(info.Conn); in != nil && !info.Reused {
				l.conn.Ahead, l.conn.Connect = in.ahead, in.took
			}
			l.guard.enter(ErrFirstByteTimeout, l.timeouts.FirstByte)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			now := time.Now()
			l.mu.Lock()
			defer l.mu.Unlock()
			if info.Err == nil {
				l.wrote = now
			}
		},
		GotFirstResponseByte: func() {
			now := time.Now()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.firstByte = now
		},
	}
}
