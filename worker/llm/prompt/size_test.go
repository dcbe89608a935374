package prompt

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// tokenizer counts the tokens of the text of all messages; 11 more are the template's.
func tokenizer(count func(text string) int) Counter {
	return func(_ context.Context, messages []Message) (int, error) {
		n := 11
		for _, m := range messages {
			n += count(m.Content)
		}
		return n, nil
	}
}

// noise is a number below n that depends on all of a text.
func noise(text string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return int(h.Sum32()) % n
}

var tokenizers = map[string]func(text string) int{
	"four bytes": func(text string) int { return (len(text) + 3) / 4 },
	"bytes":      func(text string) int { return len(text) },
	"words":      func(text string) int { return len(strings.Fields(text)) },
	"ten bytes":  func(text string) int { return len(text) / 10 },
	"byte fallback": func(text string) int {
		n := 0
		for _, r := range text {
			if n++; r > 127 {
				n += 2 * utf8.RuneLen(r)
			}
		}
		return n / 2
	},
	"not monotone": func(text string) int { return len(text)/4 + noise(text, 12) },
	"merges late":  func(text string) int { return len(text)/3 - noise(text[len(text)/2:], 9) },
	"steep end":    func(text string) int { return len(text)/1000 + max(0, len(text)-90_000)*2 },
	"slow start":   func(text string) int { return max(60, len(text)/5-400) },
}

func TestSizeIsHit(t *testing.T) {
	t.Parallel()
	src := openSynth()
	for name, count := range tokenizers {
		for _, target := range []int{400, 1000, 8000, 32000} {
			if target < 700 && name == "bytes" {
				continue // the instruction alone has more
			}
			z := Sizer{Count: tokenizer(count)}
			p, err := z.Size(t.Context(), src, Key{Seed: 1, Case: name}, target)
			if err != nil {
				t.Errorf("%s, %d: %v", name, target, err)
				continue
			}
			good(t, fmt.Sprintf("%s, %d", name, target), &z, p)
			// Lines between two counts creep towards a bend and never reach it; halving does.
			if p.Probes > 30 {
				t.Errorf("%s, %d: %d counts", name, target, p.Probes)
			}
		}
	}
}

// good checks a prompt against a count of its own.
func good(t interface {
	Helper()
	Errorf(string, ...any)
}, what string, z *Sizer, p Prompt,
) {
	t.Helper()
	n, _ := z.Count(context.Background(), p.Messages)
	if p.Tokens == nil || *p.Tokens != n {
		t.Errorf("%s: measured %v, has %d", what, p.Tokens, n)
	}
	if n > p.Target || n < p.Target-Slack {
		t.Errorf("%s: %d tokens", what, n)
	}
	if !utf8.ValidString(p.Messages[0].Content) {
		t.Errorf("%s: cut within a character", what)
	}
	if p.SHA256 != Hash(p.Messages) || p.Instruction.Name != record.Name {
		t.Errorf("%s: record %+v", what, p)
	}
}

func TestSizeTakesFewCounts(t *testing.T) {
	t.Parallel()
	src, total, n := openSynth(), 0, 0
	for _, name := range []string{"four bytes", "words", "ten bytes", "byte fallback"} {
		for seed := range int64(10) {
			z := Sizer{Count: tokenizer(tokenizers[name])}
			p, err := z.Size(t.Context(), src, Key{Seed: seed}, 20000)
			if err != nil {
				t.Fatal(err)
			}
			total, n = total+p.Probes, n+1
		}
	}
	if mean := float64(total) / float64(n); mean > 5 {
		t.Errorf("%.1f counts on average", mean)
	}
}

func TestSizeOfAnyTokenizer(t *testing.T) {
	t.Parallel()
	src := openSynth()
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.Float64Range(0.5, 12).Draw(t, "bytes per token")
		wild := rapid.IntRange(1, 14).Draw(t, "noise")
		bend := rapid.IntRange(0, 4000).Draw(t, "bend")
		wide := rapid.IntRange(0, 1).Draw(t, "tokens more for a wide character")
		count := func(text string) int {
			n := float64(len(text)) / per
			if len(text) > bend {
				n += float64(len(text)-bend) / 7
			}
			return int(n) + wide*(len(text)-utf8.RuneCountInString(text)) + noise(text, wild)
		}
		z := Sizer{Count: tokenizer(count)}
		base, _ := z.Count(t.Context(), frame(record, Key{}, ""))
		target := base + rapid.IntRange(0, 6000).Draw(t, "tokens more than the instruction")
		p, err := z.Size(t.Context(), src, Key{}, target)
		if err != nil {
			t.Fatalf("%d: %v", target, err)
		}
		good(t, "any", &z, p)
	})
}

// TestSizeReadsNoMoreThanItNeeds: one token in a long text says little about the length of the rest.
func TestSizeReadsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	src := &Source{Name: "x", document: func(Key) *document {
		n := 0
		return &document{next: func() (string, error) {
			if n += 1000; n > 1<<20 {
				return "", errors.New("too far")
			}
			return strings.Repeat("x", 1000), nil
		}}
	}}
	z := Sizer{Count: tokenizer(func(text string) int { return 1000 + min(1, len(text)/10_000) + max(0, len(text)-30_000)/4 })}
	p, err := z.Size(t.Context(), src, Key{}, 6000)
	if err != nil {
		t.Fatal(err)
	}
	good(t, "late", &z, p)
}

func TestSizeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	corpusFiles(t, dir, 3, 3)
	legal, err := Open(Legal, Files{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer legal.Close()
	user := &Source{Name: "my.jsonl", prompt: func(Key) ([]Message, error) { return []Message{{"user", "x"}}, nil }}
	bytes := tokenizer(tokenizers["bytes"])
	jump := tokenizer(func(text string) int { return len(text) / 200 * 40 })
	broken := Counter(func(context.Context, []Message) (int, error) { return 0, errors.New("no answer") })
	for name, tc := range map[string]struct {
		src    *Source
		count  Counter
		target int
		want   string
	}{
		"negative":             {openSynth(), bytes, -1, "ctx -1 is negative"},
		"below the frame":      {openSynth(), bytes, 100, "the instruction and the template alone have"},
		"user's with a target": {user, bytes, 100, `the prompts of "my.jsonl" are sent as they are`},
		"no tokenizer":         {openSynth(), nil, 1000, "no endpoint that counts"},
		"jumps":                {openSynth(), jump, 2050, "no cut comes within 16 tokens: one more character takes it from"},
		"tokenizer is broken":  {openSynth(), broken, 1000, "counting its tokens: no answer"},
		"and at ctx 0":         {openSynth(), broken, 0, "counting the tokens of a prompt: no answer"},
		"corpus too small":     {legal, bytes, 1 << 20, "legal prompt of 1048576 tokens: the corpus is too small"},
	} {
		_, err := (&Sizer{Count: tc.count}).Size(t.Context(), tc.src, Key{}, tc.target)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
		if small := errors.Is(err, ErrCorpusTooSmall); small != (name == "corpus too small") {
			t.Errorf("%s: too small is %v", name, small)
		}
	}
}

func TestInstructionAlone(t *testing.T) {
	t.Parallel()
	z := Sizer{Count: tokenizer(tokenizers["words"])}
	p, err := z.Size(t.Context(), openSynth(), Key{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := p.Messages[0].Content
	if len(p.Messages) != 1 || !strings.HasSuffix(text, "\n\n"+alone.text) || p.Instruction.Name != "memorandum" {
		t.Errorf("ctx 0 is %q by %+v", text, p.Instruction)
	}
	if p.Tokens == nil || *p.Tokens != 11+len(strings.Fields(text)) || p.Probes != 1 || p.Target != 0 {
		t.Errorf("record %+v", p)
	}
	p, err = (&Sizer{}).Size(t.Context(), openSynth(), Key{}, 0)
	if err != nil || p.Tokens != nil || p.SHA256 != Hash(p.Messages) {
		t.Errorf("without a tokenizer: %+v, %v", p, err)
	}
	lacks := func(context.Context, []Message) (int, error) { return 0, fmt.Errorf("%w: 404", ErrNoCounter) }
	if p, err = (&Sizer{Count: lacks, Dir: t.TempDir()}).Size(t.Context(), openSynth(), Key{}, 0); err != nil || p.Tokens != nil || p.SHA256 == "" {
		t.Errorf("with a server that turns out to have none: %+v, %v", p, err)
	}
	if _, err = (&Sizer{Count: lacks}).Size(t.Context(), openSynth(), Key{}, 1000); !errors.Is(err, ErrNoCounter) {
		t.Errorf("a size without a tokenizer: %v", err)
	}
}

func TestPromptsDependOnTheirKeyAlone(t *testing.T) {
	t.Parallel()
	src := openSynth()
	size := func(k Key, target int) Prompt {
		t.Helper()
		p, err := (&Sizer{Count: tokenizer(tokenizers["not monotone"])}).Size(t.Context(), src, k, target)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	k := Key{Seed: 7, Case: "synth 8000", Repeat: 1, Stream: 2}
	first := size(k, 2000)
	size(Key{Seed: 8}, 9000)
	if again := size(k, 2000); again.SHA256 != first.SHA256 {
		t.Error("the same key gives another prompt later")
	}
	heads := map[string]bool{head(first): true}
	for _, other := range []Key{{8, "synth 8000", 1, 2}, {7, "synth 8001", 1, 2}, {7, "synth 8000", 2, 2}, {7, "synth 8000", 1, 3}, {7, "synth 8000", 12, 0}} {
		p := size(other, 2000)
		if heads[head(p)] {
			t.Errorf("%+v begins like another prompt", other)
		}
		heads[head(p)] = true
	}
}

// head is what the first block of a prefix cache holds beside the template.
func head(p Prompt) string { return p.Messages[0].Content[:21] }

func TestCountsAreKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's \"a\" folder", "prompts")
	calls := 0
	count := tokenizer(tokenizers["words"])
	z := Sizer{Identity: "m", Dir: dir, Count: func(ctx context.Context, m []Message) (int, error) { calls++; return count(ctx, m) }}
	size := func(k Key, target int) Prompt {
		t.Helper()
		p, err := z.Size(t.Context(), openSynth(), k, target)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, target := range []int{0, 2000} {
		first := size(Key{}, target)
		if first.Probes == 0 || first.Probes != calls {
			t.Errorf("%d counts for %d calls", first.Probes, calls)
		}
		calls = 0
		again := size(Key{}, target)
		first.Probes = 0
		if diff := cmp.Diff(first, again, cmp.AllowUnexported(Instruction{})); diff != "" || calls > 0 {
			t.Errorf("ctx %d with %d calls (-first +kept):\n%s", target, calls, diff)
		}
	}
	for name, change := range map[string]func(){
		"tokenizer": func() { z.Identity = "another" },
		"target":    func() { size(Key{}, 2001) },
	} {
		before := calls
		if change(); name == "tokenizer" {
			size(Key{}, 2000)
		}
		if calls == before {
			t.Errorf("another %s costs no count", name)
		}
	}
}

func TestBadFilesCostCountsAndNoMore(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not JSON":     "{",
		"other prompt": `{"bytes": 900, "tokens": 1990, "prompt_sha256": "00", "probes": 3}`,
		"no bytes":     `{"bytes": -1, "tokens": 1990}`,
	} {
		z := Sizer{Identity: "m", Dir: t.TempDir(), Count: tokenizer(tokenizers["words"])}
		want, err := z.Size(t.Context(), openSynth(), Key{}, 2000)
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(z.Dir, "*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := z.Size(t.Context(), openSynth(), Key{}, 2000)
		if err != nil || got.SHA256 != want.SHA256 || got.Probes != want.Probes || *got.Tokens != *want.Tokens {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestSizeTellsAFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	z := Sizer{Dir: filepath.Join(file, "prompts"), Count: tokenizer(tokenizers["words"])}
	if _, err := z.Size(t.Context(), openSynth(), Key{}, 1000); err == nil {
		t.Error("no error")
	}
}
