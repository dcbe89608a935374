package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFetch(t *testing.T) {
	t.Parallel()
	const metrics = "# HELP kv_offload_seconds {braces}\nkv_offload_seconds 1.5 # \xff\n"
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a key was sent")
		}
		_, _ = io.WriteString(w, metrics)
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", maxText+7)) })
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/metrics", http.StatusFound) })
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		url, text string
		cut       int
		want      []string
	}{
		"as it is":  {server.URL + "/metrics", strings.ToValidUTF8(metrics, "\uFFFD"), 0, nil},
		"too long":  {server.URL + "/long", "", maxText, []string{"the text is longer than 1 MiB and was cut"}},
		"not there": {server.URL + "/none", "", 0, []string{"it answers 404 Not Found: 404 page not found"}},
		"elsewhere": {server.URL + "/elsewhere", "", 0, []string{`it answers 302 Found: <a href="/metrics">Found</a>.`}},
		"hangs":     {server.URL + "/hangs", "", 0, []string{"no answer in time"}},
		"gone":      {gone.URL, "", 0, []string{"dial tcp " + strings.TrimPrefix(gone.URL, "http://") + ": connect: connection refused"}},
	} {
		limit := time.Minute
		if name == "hangs" {
			limit = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("no answer in time"))
		got, errs := fetch(ctx, newClient(), c.url)
		cancel()
		if d := cmp.Diff(c.want, errs); d != "" {
			t.Errorf("%s: (-want +got):\n%s", name, d)
		}
		switch {
		case c.text == "" && c.cut == 0:
			if got != nil {
				t.Errorf("%s: %v", name, *got)
			}
		case got == nil || c.text != "" && *got != c.text || c.cut > 0 && len(*got) != c.cut:
			t.Errorf("%s: %v", name, got)
		}
	}
}
