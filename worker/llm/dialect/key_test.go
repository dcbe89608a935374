package dialect

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/worker/llm/llmtest"
)

func TestKeyIsHidden(t *testing.T) {
	t.Parallel()
	k := NewKey("sk-very-secret")
	text, err := json.Marshal(map[string]any{"key": k, "in": struct{ K *Key }{&k}})
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != `{"in":{"K":"(hidden)"},"key":"(hidden)"}` {
		t.Errorf("JSON %s", text)
	}
	out := string(text)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s"} {
		if got := fmt.Sprintf(verb, k); got != "(hidden)" {
			t.Errorf("%s prints %q", verb, got)
		}
		out += fmt.Sprintf(verb+verb+verb, k, &k, struct{ K Key }{k})
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "key", k)
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "key", k)
	out += log.String() + fmt.Errorf("error %w %v", os.ErrNotExist, k).Error()
	if strings.Contains(out, "very-secret") || strings.Contains(strings.ToLower(out), "736b2d76657279") {
		t.Errorf("the key stands in %s", out)
	}
	if !strings.Contains(out, "(hidden)") || (Key{}).String() != "" {
		t.Error("a key and none look the same")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	Key{}.Authorize(r)
	if r.Header.Get("Authorization") != "" {
		t.Error("no key is sent")
	}
	if k.Authorize(r); r.Header.Get("Authorization") != "Bearer sk-very-secret" || k.Reveal() != "sk-very-secret" {
		t.Error("the key is not sent")
	}
	if got := k.Redact("no sk-very-secret here"); got != "no (hidden) here" {
		t.Error(got)
	}
	if got := NewKey("EMPTY").Redact("the cache is EMPTY"); got != "the cache is EMPTY" {
		t.Error(got)
	}
}

func TestKeySources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "the key's file")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("CPBENCH_TEST_KEY", text)
	}
	for text, want := range map[string]string{"sk-1\n": "sk-1", " sk-2 ": "sk-2", "": "is empty", "two words": "more than one word", "sk-é": "more than one word of plain characters"} {
		write(text)
		for from, load := range map[string]func() (Key, error){
			"file":     func() (Key, error) { return KeyFromFile(file) },
			"variable": func() (Key, error) { return KeyFromEnv("CPBENCH_TEST_KEY") },
		} {
			k, err := load()
			if strings.HasPrefix(want, "sk") != (err == nil) || err == nil && k.Reveal() != want || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %q: %v", from, text, err)
			}
			if err != nil && text != "" && strings.Contains(err.Error(), text) {
				t.Errorf("the key stands in the error %v", err)
			}
		}
	}
	if _, err := KeyFromEnv("CPBENCH_TEST_NO_SUCH_KEY"); err == nil || !strings.Contains(err.Error(), "CPBENCH_TEST_NO_SUCH_KEY is not set") {
		t.Error(err)
	}
	if _, err := KeyFromFile(file + "x"); err == nil {
		t.Error("no file is no error")
	}
}

// A key that an error's text quotes is taken out before the text is cut, which may go through it.
func TestKeyAcrossTheCut(t *testing.T) {
	t.Parallel()
	live, err := llmtest.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, strings.Repeat("-", 300-len("Bearer sk-very"))+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	_, err = Detect(t.Context(), Options{URL: live.URL, Key: NewKey("sk-very-secret")})
	if err == nil || strings.Contains(err.Error(), "sk-") {
		t.Error(err)
	}
}

// What to do about a certificate of nobody's is said.
func TestUnknownAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	defer server.Close()
	if _, err := Detect(t.Context(), Options{URL: server.URL}); !strings.Contains(Advice(err), "SSL_CERT_FILE") {
		t.Errorf("%v: %s", err, Advice(err))
	}
}
