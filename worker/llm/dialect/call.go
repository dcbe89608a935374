package dialect

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"cpbench/worker/llm/stream/chat"
)

// maxAnswer bounds an answer; one with the token ids of 1,000,000 tokens has about 8 MB.
const maxAnswer = 256 << 20

// waits are the pauses before another try. None of these requests is measured, and none changes anything.
var waits = []time.Duration{200 * time.Millisecond, time.Second}

// NewClient is a client for requests that are not measured: without proxies, and without following redirects, which
// would carry the key to another address.
func NewClient() *http.Client {
	return &http.Client{
		Timeout:       2 * time.Minute,
		Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 4, IdleConnTimeout: 3 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// StatusError is an answer of the server that is no success.
type StatusError struct {
	Path string
	Code int
	Body string // its beginning
}

func (e *StatusError) Error() string {
	words := e.Body
	if told := chat.ParseError([]byte(words)); told != nil {
		words = told.Message
	}
	return fmt.Sprintf("%s: the server answers %d %s: %q", e.Path, e.Code, http.StatusText(e.Code), words)
}

// Advice says what to do about an error of Detect.
func Advice(err error) string {
	var status *StatusError
	var model *WrongModel
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return "set SSL_CERT_FILE to the file with the certificate of the authority that vouches for the server"
	case errors.As(err, &status) && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden):
		return "the server wants a key, or another one: api_key_env names the variable that holds it"
	case errors.As(err, &model):
		return "name one of them as the model"
	}
	return "check the address, and whether the server runs"
}

// lacks reports whether an error says that the server has no such endpoint.
func lacks(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed || status.Code == http.StatusNotImplemented)
}

// get reads JSON from an endpoint.
func (s *Server) get(ctx context.Context, path string, into any) error {
	return s.call(ctx, http.MethodGet, path, nil, into)
}

// post sends JSON to an endpoint and reads its answer; into may be nil.
func (s *Server) post(ctx context.Context, path string, body, into any) error {
	data, err := encode(body)
	if err != nil {
		return err
	}
	return s.call(ctx, http.MethodPost, path, data, into)
}

// call makes a request, and again after a failure that may pass.
func (s *Server) call(ctx context.Context, method, path string, body []byte, into any) error {
	for try := 0; ; try++ {
		again, err := s.once(ctx, method, path, body, into)
		if err == nil || !again || try == len(waits) {
			return err
		}
		timer := time.NewTimer(waits[try])
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// once makes one request; again reports whether another try may help.
func (s *Server) once(ctx context.Context, method, path string, body []byte, into any) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	s.key.Authorize(req)
	resp, err := s.client.Do(req)
	if err != nil {
		return ctx.Err() == nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return ctx.Err() == nil, fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		words := s.key.Redact(string(answer)) // before the cut, which may go through the key
		return passes(resp.StatusCode), &StatusError{path, resp.StatusCode, words[:min(len(words), 300)]}
	}
	if len(answer) > maxAnswer {
		return false, fmt.Errorf("%s: the answer is longer than %d MiB", path, maxAnswer>>20)
	}
	if into == nil {
		return false, nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return false, fmt.Errorf("%s: the answer is not the JSON that was expected: %w", path, err)
	}
	return false, nil
}

// passes reports whether a status may be another one soon.
func passes(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// encode is JSON in which texts stand as they are: escapes for HTML would make a prompt longer on the wire.
func encode(body any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
