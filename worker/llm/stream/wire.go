package stream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

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
	c := &Client{base: u, options: o, epoch: time.Now(), pool: pool{open: o.Dial, address: u.Host, most: max(o.Concurrency, 1)}}
	if c.pool.open == nil {
		c.pool.open = (&net.Dialer{Timeout: o.Timeouts.Connect}).DialContext
	}
	if u.Port() == "" {
		c.pool.address = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if u.Scheme == "https" {
		c.pool.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(name) != "" {
			c.warnings = append(c.warnings, name+" is set and not used")
		}
	}
	return c, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.pool.closeAll() }

// message is a request as it goes over the wire, header and body in one piece.
func (c *Client) message(path string, body []byte) ([]byte, error) {
	u := *c.base
	path, u.RawQuery, _ = strings.Cut(path, "?")
	u.Path = strings.TrimRight(u.Path, "/") + "/" + strings.TrimLeft(path, "/")
	u.RawPath = ""
	r := &http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept-Encoding": {"identity"}, "Content-Type": {"application/json"}, "User-Agent": {"cpbench"}},
		Body:   http.NoBody,
	}
	if len(body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	if c.options.Key != nil {
		r.Header.Set("Authorization", "Bearer "+c.options.Key())
	}
	var wire bytes.Buffer
	wire.Grow(len(body) + 1024)
	if err := r.Write(&wire); err != nil {
		return nil, err
	}
	return wire.Bytes(), nil
}

// asked tells the parser of responses that they answer a POST.
var asked = &http.Request{Method: http.MethodPost}

// maxInterim is how many interim responses (status 1xx) may come before the response.
const maxInterim = 5

// response reads the header of the response and leaves its body to be read.
func (k *conn) response() (*http.Response, error) {
	for range maxInterim {
		resp, err := http.ReadResponse(k.in, asked)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || resp.StatusCode < 100 || resp.StatusCode > 199 {
			return resp, err
		}
	}
	return nil, fmt.Errorf("more than %d interim responses", maxInterim)
}
