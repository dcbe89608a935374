package scrape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxText bounds the text of one address. That of a server with eight engines has about 0.5 MB.
const maxText = 64 << 20

// ErrJSON is the error of an address that answers JSON: it is TensorRT-LLM's /metrics, whose every read empties it.
var ErrJSON = errors.New("the address answers JSON and not Prometheus text, and each read may take from it what it tells; trtllm-serve has its counters at /prometheus/metrics")

// Source is where the metrics of a server are read.
type Source struct {
	Client *http.Client // with proxies off, and bounded by the context if it has no timeout
	URLs   []string     // one for each data-parallel rank that has its own
	// Authorize adds what the server wants to see; nil: nothing.
	Authorize func(*http.Request)
	// Redact takes what nobody may see out of what a server says; nil: nothing.
	Redact func(text string) string
}

// Fetch reads all addresses at the same time. If one cannot be read there is no snapshot: a sum without one rank would
// look like a reset.
func (s *Source) Fetch(ctx context.Context) (Snapshot, error) {
	parts := make([]Snapshot, len(s.URLs))
	if len(s.URLs) == 0 {
		return Snapshot{}, errors.New("no address of metrics is known")
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, address := range s.URLs {
		group.Go(func() (err error) {
			if parts[i], err = s.one(ctx, address); err != nil {
				err = fmt.Errorf("metrics of %s: %w", hideUser(address), err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Snapshot{}, err
	}
	return Merge(parts...)
}

// one reads one address.
func (s *Source) one(ctx context.Context, address string) (Snapshot, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return Snapshot{}, err
	}
	// The plain format: an OpenMetrics text has exemplars, which it lacks.
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	if s.Authorize != nil {
		s.Authorize(req)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return Snapshot{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxText+1))
	switch {
	case err != nil:
		return Snapshot{}, err
	case len(text) > maxText:
		return Snapshot{}, fmt.Errorf("the text is longer than %d MiB", maxText>>20)
	case resp.StatusCode != http.StatusOK:
		words := string(bytes.TrimSpace(text))
		if s.Redact != nil {
			words = s.Redact(words)
		}
		return Snapshot{}, fmt.Errorf("the server answers %s: %.200q", resp.Status, words)
	case isJSON(resp.Header.Get("Content-Type"), text):
		return Snapshot{}, ErrJSON
	}
	shot, err := Parse(text)
	shot.At = time.Now()
	return shot, err
}

// hideUser is an address without the password that it may hold.
func hideUser(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Redacted()
}

func isJSON(contentType string, text []byte) bool {
	if media, _, err := mime.ParseMediaType(contentType); err == nil && strings.HasSuffix(media, "json") {
		return true
	}
	return json.Valid(text)
}
