package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxText bounds the text of an address. That of a server with one engine has about 60 KB.
const maxText = 1 << 20

// newClient reads metrics: without proxies, and without going anywhere else.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch reads the text of an address as it is. One that is too long is kept as far as it goes.
func fetch(ctx context.Context, client *http.Client, address string) (*string, []string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, []string{plain(ctx, err)}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, []string{plain(ctx, err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxText+1))
	var errs []string
	switch {
	case err != nil:
		return nil, []string{plain(ctx, err)}
	case resp.StatusCode != http.StatusOK:
		line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD")), "\n")
		return nil, []string{fmt.Sprintf("it answers %s: %.200s", resp.Status, line)}
	case len(body) > maxText:
		body = body[:maxText]
		errs = append(errs, fmt.Sprintf("the text is longer than %d MiB and was cut", maxText>>20))
	}
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	return &text, errs
}

// plain is an error of a request without its address, which stands beside it.
func plain(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return err.Error()
}
