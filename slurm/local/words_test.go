package local

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The values are what sbatch 22.05.8 made of the texts; TestRealSbatchUnquotes asks a live one.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want []string
	}{
		{``, nil},
		{` -a  0-3	--exclusive`, []string{"-a", "0-3", "--exclusive"}},
		{`a\\b`, []string{`a\b`}},
		{`a\ b`, []string{"a", "b"}},
		{`a\`, []string{"a"}},
		{`"a b"`, []string{"a b"}},
		{`'a b'`, []string{"a b"}},
		{`"a'b"`, []string{"a'b"}},
		{`'a"b'`, []string{`a"b`}},
		{`"a\"b"`, []string{`a"b`}},
		{`'a\'b'`, []string{"a'b"}},
		{`'a\b'`, []string{"ab"}},
		{`"a\nb\$c"`, []string{"anb$c"}},
		{`'it'"'"'s'`, []string{"it's"}},
		{`'a'"b"'c d'e`, []string{"abc de"}},
		{`a#b c`, []string{"a"}},
		{`a\#b "#c"`, []string{"a#b", "#c"}},
		{`a # b`, []string{"a"}},
		{`"" x`, []string{"", "x"}},
		{`"$HOME` + " `id` ~%%" + `"`, []string{"$HOME `id` ~%%"}},
		{"a\r\n", []string{"a"}},
		{"é\u00a0ü", []string{"é\u00a0ü"}},
	} {
		got, err := words(test.text)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("words(%s): %v (-want +got):\n%s", test.text, err, diff)
		}
	}
	for _, text := range []string{`"a`, `'a`, `"a\"`, `a "b' c`} {
		if got, err := words(text); err == nil || !strings.Contains(err.Error(), "unmatched") {
			t.Errorf("words(%s) = %q, %v; want an unmatched quote", text, got, err)
		}
	}
}

// Double quotes and a backslash before " and \ are enough for any value on one line.
func TestWordsOfQuotedValue(t *testing.T) {
	t.Parallel()
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[ -~éü]*`), 1, 4).Draw(t, "values")
		line := ""
		for _, value := range values {
			line += ` "` + quote.Replace(value) + `"`
		}
		got, err := words(line + "\n")
		if diff := cmp.Diff(values, got); err != nil || diff != "" {
			t.Fatalf("words(%s): %v (-want +got):\n%s", line, err, diff)
		}
	})
}
