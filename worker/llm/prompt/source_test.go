package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// corpusFiles writes a small corpus.
func corpusFiles(t *testing.T, dir string, opinions, filings int) {
	t.Helper()
	var o, f strings.Builder
	for i := range opinions {
		fmt.Fprintf(&o, `{"case_name": "Opinion %d", "plain_text": "Opinion text %d: the claim fails. §§ é"}`+"\n", i, i)
	}
	for i := range filings {
		fmt.Fprintf(&f, `{"id": %d, "text": "Filing text %d, with exhibits."}`+"\n\n", i, i)
	}
	o.WriteString(`{"case_name": "Nothing in it", "plain_text": " ", "text": null}` + "\n")
	write(t, filepath.Join(dir, "opinions_cl.jsonl"), o.String())
	write(t, filepath.Join(dir, "filings_recap.jsonl"), strings.TrimSpace(f.String())) // without a last line feed
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// all is the whole text of a document.
func all(t *testing.T, src *Source, k Key) string {
	t.Helper()
	d := src.document(k)
	if err := d.reach(1 << 20); err != nil {
		t.Fatal(err)
	}
	return string(d.text)
}

func TestLegal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `the "corpus"`)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	corpusFiles(t, dir, 7, 4)
	src, err := Open(Legal, Files{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	text := all(t, src, Key{Seed: 1})
	for kind, n := range map[string]int{"Opinion": 7, "Filing": 4} {
		for i := range n {
			if got := strings.Count(text, fmt.Sprintf("%s text %d", kind, i)); got != 1 {
				t.Errorf("%s %d stands there %d times", kind, i, got)
			}
		}
	}
	if !strings.Contains(text, "[OPINION] Opinion 3\n\nOpinion text 3: the claim fails. §§ é\n\n") || !strings.Contains(text, "[FILING] untitled\n\n") {
		t.Errorf("text %q", text)
	}
	if first := strings.Split(text, "\n"); !strings.HasPrefix(first[0], "[OPINION]") || !strings.HasPrefix(first[4], "[FILING]") {
		t.Errorf("the kinds do not take turns: %q", first[:5])
	}
	if strings.Contains(text, "Nothing in it") {
		t.Error("a record without a text is used")
	}
	if all(t, src, Key{Seed: 1}) != text {
		t.Error("the same key gives another text")
	}
	if all(t, src, Key{Seed: 2}) == text && all(t, src, Key{Seed: 3}) == text {
		t.Error("every key gives the same text")
	}
	before := src.Corpus
	corpusFiles(t, dir, 8, 4)
	changed, err := Open(Legal, Files{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer changed.Close()
	if changed.Corpus == before || len(before) != 64 || changed.Builder != "public-corpus/1" {
		t.Errorf("corpus %s by %s", changed.Corpus, changed.Builder)
	}
}

func TestLegalIsNeverFilledUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opinions, filings string // "-": there is no file
		want              string
		late              bool // found when the text is used
	}{
		"no opinions":    {"-", `{"text": "x"}`, "the corpus of court opinions", false},
		"no filings":     {`{"text": "x"}`, "-", "the corpus of court filings", false},
		"empty":          {"\n \n", `{"text": "x"}`, "opinions_cl.jsonl is empty", false},
		"not JSON":       {`{"text": "x"}`, "\n{\"text\": \"x\"\n", "filings_recap.jsonl:2: unexpected end of JSON input", true},
		"text no string": {`{"text": 5}`, `{"text": "x"}`, "opinions_cl.jsonl:1:", true},
		"nothing in it":  {`{"other": "x"}`, `{"text": "  "}`, "the corpus is too small", true},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"opinions_cl.jsonl": tc.opinions, "filings_recap.jsonl": tc.filings} {
			if text != "-" {
				write(t, filepath.Join(dir, file), text)
			}
		}
		src, err := Open(Legal, Files{Dir: dir})
		if tc.late {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			_, err = (&Sizer{Count: tokenizer(tokenizers["words"])}).Size(t.Context(), src, Key{}, 1000)
			_ = src.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

func TestLegalSizesAndOtherNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	corpusFiles(t, dir, 400, 400)
	for from, to := range map[string]string{"opinions_cl.jsonl": "o.jsonl", "filings_recap.jsonl": "f.jsonl"} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	src, err := Open(Legal, Files{Dir: dir, Opinions: "o.jsonl", Filings: "f.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for _, name := range []string{"four bytes", "byte fallback", "not monotone"} {
		z := Sizer{Count: tokenizer(tokenizers[name])}
		p, err := z.Size(t.Context(), src, Key{}, 2500)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		good(t, name, &z, p)
	}
}

func TestSynth(t *testing.T) {
	t.Parallel()
	// The texts of a version never change: two runs of years apart are compared by them.
	src := openSynth()
	d := src.document(Key{Seed: 1, Case: "pin"})
	if err := d.reach(100_000); err != nil {
		t.Fatal(err)
	}
	if got := digest(d.text[:100_000]); got != "a5721ebcb3d69d066af5215402b7211648ec86e9496e7ea11a09b940239d0511" || src.Builder != "fictional-records/1" {
		t.Errorf("%s makes a text with the hash %s; a text that changes needs a new version", src.Builder, got)
	}
	text := string(d.text)
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) == len(text) {
		t.Error("the text is not UTF-8, or plain ASCII")
	}
	if strings.Contains(text, "%!") {
		t.Errorf("a format was misused: %q", text[strings.Index(text, "%!")-40:][:80])
	}
	paragraphs := strings.Split(text, "\n\n")
	slices.Sort(paragraphs)
	if n := len(slices.Compact(paragraphs)); n < len(strings.Split(text, "\n\n"))-2 {
		t.Error("whole entries are repeated")
	}
}

func TestInstructionsArePinned(t *testing.T) {
	t.Parallel()
	var got []string
	for _, in := range []Instruction{alone, record} {
		got = append(got, fmt.Sprintf("%s/%d %s", in.Name, in.Version, in.SHA256[:12]))
	}
	if diff := cmp.Diff([]string{"memorandum/1 ca87c5b307ee", "record-review/1 e7d12abd87bb"}, got); diff != "" {
		t.Errorf("a text that changes needs a new version (-want +got):\n%s", diff)
	}
}

func TestShorterIsAPrefixOfLonger(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 500, 5000} {
		a, b := openSynth().document(Key{}), openSynth().document(Key{})
		if a.reach(n) != nil || b.reach(20000) != nil {
			t.Fatal("no text")
		}
		if !strings.HasPrefix(string(b.text), string(a.text)) {
			t.Errorf("the first %d bytes differ", n)
		}
	}
}

func TestBoundaries(t *testing.T) {
	t.Parallel()
	d := &document{text: []byte("aé€😀b")}
	var back, on []int
	for n := range len(d.text) + 2 {
		back, on = append(back, d.boundary(n)), append(on, d.after(n))
	}
	if diff := cmp.Diff([]int{0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11}, back); diff != "" {
		t.Errorf("boundary (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{1, 3, 3, 6, 6, 6, 10, 10, 10, 10, 11, 11, 11}, on); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("é", 3<<20) // longer than the buffer
	write(t, filepath.Join(dir, "my prompts.jsonl"), `{"prompt": "one", "id": 1}
{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "two"}]}

{"prompt": "`+long+`"}`)
	src, err := Open("my prompts.jsonl", Files{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if !src.Fixed() || src.Name != "my prompts.jsonl" || src.Builder != "user-prompts/1" || len(src.Corpus) != 64 {
		t.Errorf("source %+v", src)
	}
	seen := map[string]Prompt{}
	for stream := range 4 {
		p, err := (&Sizer{Count: tokenizer(tokenizers["bytes"])}).Size(t.Context(), src, Key{Seed: 3, Stream: stream}, 0)
		if err != nil {
			t.Fatal(err)
		}
		seen[p.SHA256] = p
		if p.Instruction != (Instruction{}) {
			t.Errorf("a user's prompt has the instruction %+v", p.Instruction)
		}
	}
	if len(seen) != 3 {
		t.Errorf("4 streams have %d of 3 prompts", len(seen))
	}
	two := []Message{{"system", "be brief"}, {"user", "two"}}
	if p, ok := seen[Hash(two)]; !ok || cmp.Diff(two, p.Messages) != "" || *p.Tokens != 11+11 {
		t.Errorf("messages are %+v", p)
	}
	if p, ok := seen[Hash([]Message{{"user", long}})]; !ok || *p.Tokens != 11+len(long) {
		t.Error("the long prompt is not there")
	}
}

func TestUserRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "is empty",
		`{"prompt": ""}`:         "p.jsonl:1: a line has either a prompt or messages",
		"\n\n" + `{"text": "x"}`: "p.jsonl:3: a line has either a prompt or messages",
		`{"prompt": "x", "messages": [{"role": "user", "content": "x"}]}`:  "either a prompt or messages",
		`{"messages": [{"role": "user", "content": [{"type": "image"}]}]}`: "p.jsonl:1:",
		`{"messages": [{"role": "user"}]}`:                                 "a role and a content that is a text",
		`[1]`:                                                              "p.jsonl:1:",
		"{\"prompt\": \"x\"}\n{\"prompt\"":                                 "p.jsonl:2: unexpected end of JSON input",
	} {
		path := filepath.Join(t.TempDir(), "p.jsonl")
		write(t, path, text)
		if _, err := Open(path, Files{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := Open("no/such.jsonl", Files{Dir: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open("legl", Files{}); err == nil || err.Error() != `unknown source of prompts "legl"; known are legal, synth and a file that ends in .jsonl` {
		t.Errorf("unknown name: %v", err)
	}
}

func TestWalksVisitAll(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		for seed := range int64(5) {
			seen := map[int]bool{}
			w := newWalk(newDraw(Key{Seed: seed}, "walk"), n)
			for i, ok := w.next(); ok; i, ok = w.next() {
				if seen[i] || i < 0 || i >= n {
					t.Fatalf("%d of %d comes twice or is outside", i, n)
				}
				seen[i] = true
			}
			if len(seen) != n {
				t.Errorf("%d of %d were visited", len(seen), n)
			}
		}
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	n := func(v int) *int { return &v }
	for name, tc := range map[string]struct {
		tokens  *int
		reserve int
		limits  []*int
		limit   *int
		fits    bool
	}{
		"exactly":         {n(1000), 24, []*int{n(1024)}, n(1024), true},
		"one too many":    {n(1001), 24, []*int{n(1024)}, n(1024), false},
		"smaller of two":  {n(1000), 24, []*int{n(4096), n(1023)}, n(1023), false},
		"one not known":   {n(1000), 24, []*int{nil, n(2048)}, n(2048), true},
		"none known":      {n(1000), 24, []*int{nil, nil}, nil, true},
		"count not known": {nil, 24, []*int{n(1024)}, n(1024), true},
		"reserve alone":   {nil, 1025, []*int{n(1024)}, n(1024), false},
	} {
		limit, err := Fits(tc.tokens, tc.reserve, tc.limits...)
		if (err == nil) != tc.fits || errors.Is(err, ErrNoFit) == tc.fits || cmp.Diff(tc.limit, limit) != "" {
			t.Errorf("%s: limit %v, %v", name, limit, err)
		}
	}
}

func TestParity(t *testing.T) {
	t.Parallel()
	five, other := 5, int64(12)
	same := int64(five)
	if checked, err := CheckParity(&five, &same); !checked || err != nil {
		t.Error(checked, err)
	}
	if checked, err := CheckParity(nil, &same); checked || err != nil {
		t.Error(checked, err)
	}
	if checked, err := CheckParity(&five, nil); checked || err != nil {
		t.Error(checked, err)
	}
	var m *Mismatch
	if checked, err := CheckParity(&five, &other); !checked || !errors.As(err, &m) || *m != (Mismatch{5, 12}) {
		t.Error(checked, err)
	}
}

func TestRecordOfAPrompt(t *testing.T) {
	t.Parallel()
	p, err := (&Sizer{}).Size(t.Context(), openSynth(), Key{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.Contains(s, `"prompt_tokens_measured":null`) || strings.Contains(s, "law clerk") || strings.Contains(s, "corpus_sha256") {
		t.Errorf("record %s", s)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"prompt\": \"x\"}\n\n {\"prompt\": \"y\"}"))
	f.Add([]byte("\r\n[]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLines(path)
		var want []string // the lines by another way
		for line := range strings.SplitSeq(string(data), "\n") {
			if strings.Trim(line, " \t\r") != "" {
				want = append(want, line)
			}
		}
		if err != nil {
			if len(want) > 0 {
				t.Fatalf("%d lines and %v", len(want), err)
			}
			return
		}
		defer l.file.Close()
		if len(l.starts) != len(want) {
			t.Fatalf("%d lines are read as %d", len(want), len(l.starts))
		}
		for i, line := range want {
			var a, b json.RawMessage
			if (l.decode(i, &a) == nil) != (json.Unmarshal([]byte(line), &b) == nil) || string(a) != string(b) {
				t.Errorf("line %d is %q and not %q", i, a, b)
			}
		}
	})
}
