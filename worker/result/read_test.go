package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cpbench/plan/catalogue"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	for _, ext := range []string{"", Ext, SamplesExt} {
		point, repeat, attempt, restart, ok := ParseName(Name("ab12", 3, 2, 1) + ext)
		if !ok || point != "ab12" || repeat != 3 || attempt != 2 || restart != 1 {
			t.Errorf("ParseName with %q = %s %d %d %d %v", ext, point, repeat, attempt, restart, ok)
		}
	}
	for _, name := range []string{
		"", "x", "ab12.json", "ab12-r0-a1.0.json", "ab12-r1-a0.0.json", "ab12-r01-a1.0.json", "ab12-r1-a1.json",
		"-r1-a1.0.json", "ab12-r1-a+1.0.json", "ab12-r1-a1.-1.json", "../x-r1-a1.0.json", ".ab12-r1-a1.0.json123", "ab12-r1-a1.0.json~",
		"ab12-r99999999999999999999-a1.0.json",
	} {
		if point, _, _, _, ok := ParseName(name); ok {
			t.Errorf("ParseName(%q) took it for point %q", name, point)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	good, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	tests := []struct {
		name, text string
		is         error
		want       string
	}{
		{"empty", "", ErrCut, "cut off"},
		{"blank", "\n \n", ErrCut, "cut off"},
		{"half", text[:len(text)/2], ErrCut, "cut off after"},
		{"all but the end", text[:len(text)-2], ErrCut, "cut off"},
		{"zeros", strings.Repeat("\x00", 512), ErrForeign, "not a result file"},
		{"half then zeros", text[:200] + strings.Repeat("\x00", 512), ErrForeign, "not a result file"},
		{"text", "hello\n", ErrForeign, "not a result file"},
		{"array", "[1,2]", ErrForeign, "not a result file"},
		{"another object", `{"name":"x"}`, ErrForeign, "not a result file"},
		{"null", `null`, ErrForeign, "not a result file"},
		{"two objects", text + text, ErrForeign, "not a result file"},
		{"wrong kind", strings.Replace(text, `"repeat":1`, `"repeat":"1"`, 1), ErrForeign, "not a result file"},
		{"newer", strings.Replace(text, `"schema":1`, `"schema":7`, 1), ErrNewer, "schema 7 is newer than this cpbench"},
		{"newer and other", `{"schema":7,"repeat":{"start":1}}`, ErrNewer, "schema 7 is newer than this cpbench"},
		{"no attempt", strings.Replace(text, `"attempt":2`, `"attempt":0`, 1), ErrForeign, "not a result file"},
		{"other point", strings.Replace(text, `"ab12cd34"`, `"ab12cd35"`, 1), ErrForeign, "its text is that of ab12cd35-r1-a2.1.json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ab12cd34-r1-a2.1.json")
			if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error = %v, want %q with the path", err, tt.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestUnknownOutcomeIsNoFit(t *testing.T) {
	t.Parallel()
	text, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	r, err := Decode([]byte(strings.Replace(string(text), `"outcome":"ok"`, `"outcome":"OK"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != "OK" || r.Outcome.Fits() || r.Outcome.Known() {
		t.Errorf("outcome = %q, fits %v, known %v", r.Outcome, r.Outcome.Fits(), r.Outcome.Known())
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawResult(t)
		text, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func drawResult(t *rapid.T) *Result {
	number := rapid.Float64Range(-1e18, 1e18)
	text := rapid.String()
	r := &Result{
		Schema: Schema, Plan: text.Draw(t, "plan"), Point: rapid.StringMatching(`[a-z0-9]{2,16}`).Draw(t, "point"),
		Repeat: rapid.IntRange(1, 9).Draw(t, "repeat"), Attempt: rapid.IntRange(1, 9).Draw(t, "attempt"), Restart: rapid.IntRange(0, 9).Draw(t, "restart"),
		Outcome:  catalogue.Outcome(rapid.StringMatching(`[a-z_]{1,12}`).Draw(t, "outcome")),
		Evidence: text.Draw(t, "evidence"), Metrics: map[string]*float64{}, Provenance: map[string]string{},
		Started: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "start"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC(),
	}
	for _, name := range rapid.SliceOfN(text, 0, 4).Draw(t, "metrics") {
		r.Metrics[name] = rapid.Ptr(number, true).Draw(t, "value")
		r.Provenance[name] = text.Draw(t, "fact")
		r.Params = append(r.Params, Param{name, text.Draw(t, "param")})
		r.Warnings = append(r.Warnings, Warning{Code: catalogue.Drift, Text: text.Draw(t, "warning")})
	}
	if rapid.Bool().Draw(t, "timed") {
		steps, _ := Summarize([][]float64{rapid.SliceOfN(number, 1, 8).Draw(t, "a"), rapid.SliceOfN(number, 1, 8).Draw(t, "b")}, 3)
		r.Steps = &steps
	}
	if rapid.Bool().Draw(t, "newer") {
		value, err := json.Marshal(text.Draw(t, "unknown"))
		if err != nil {
			t.Fatal(err)
		}
		r.Unknown = map[string]json.RawMessage{rapid.StringMatching(`x[a-z<é"]{0,9}`).Draw(t, "name"): value}
	}
	return r
}

// FuzzDecode: whatever is decoded is written again to a text that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrCut) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrNewer) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		text, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-first +again):\n%s", diff)
		}
	})
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	if n := len(seeds(t)); n < 4 {
		t.Fatalf("corpus of FuzzDecode has %d files", n)
	}
}

func seeds(t testing.TB) [][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

// TestFields: the fast scan sees the same fields as the decoder.
func TestFields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.Just(any(nil)), rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }),
			rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any { return map[string]any{`a"]},{`: s, "b": map[string]any{}} }),
		)
		object := rapid.MapOf(rapid.String(), value).Draw(t, "object")
		text, err := json.MarshalIndent(object, "", rapid.StringMatching(`[ \t]{0,3}`).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]json.RawMessage{}
		for quoted, raw := range fields(text) {
			var name string
			if err := json.Unmarshal(quoted, &name); err != nil {
				t.Fatal(err)
			}
			got[name] = bytes.TrimSpace(raw)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n(-want +got):\n%s", text, diff)
		}
	})
}
