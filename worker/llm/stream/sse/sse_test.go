package sse_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gosse "github.com/tmaxmax/go-sse"

	"cpbench/worker/llm/stream/sse"
)

type view struct {
	Data, Event, ID       string
	Comment, Unterminated bool
	End                   int
}

func parse(t testing.TB, raw string) []view {
	t.Helper()
	frames, err := sse.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	var out []view
	for _, f := range frames {
		out = append(out, view{string(f.Data), f.Event, f.ID, f.Comment, f.Unterminated, f.End})
	}
	return out
}

// Rule 16 of the accounting, case by case.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw string
		want      []view
	}{
		{"empty", "", nil},
		{"usual", "data: a\n\n", []view{{Data: "a", End: 9}}},
		{"no space", "data:a\n\n", []view{{Data: "a", End: 8}}},
		{"one space is dropped", "data:  a\n\n", []view{{Data: " a", End: 10}}},
		{"crlf is complete with its cr", "data: a\r\n\r\n", []view{{Data: "a", End: 10}}},
		{"cr", "data: a\r\rdata: b\r\r", []view{{Data: "a", End: 9}, {Data: "b", End: 18}}},
		{"mixed", "data: a\r\n\ndata: b\n\r\n", []view{{Data: "a", End: 10}, {Data: "b", End: 19}}},
		{"lines join", "data: a\ndata: b\ndata:c\n\n", []view{{Data: "a\nb\nc", End: 24}}},
		{"data without a colon", "data\ndata\n\n", []view{{Data: "\n", End: 11}}},
		{"empty data is an event", "data:\n\n", []view{{End: 7}}},
		{"no data is no event", "event: x\nid: 1\n\ndata: a\n\n", []view{{Data: "a", End: 25}}},
		{"fields", "event: e\nid: 7\nretry: 3\nother: x\nname\ndata: a\n\n", []view{{Data: "a", Event: "e", ID: "7", End: 47}}},
		{"id with a zero byte", "id: 1\x00\ndata: a\n\n", []view{{Data: "a", End: 16}}},
		{"colon in the value", "data: a: b\n\n", []view{{Data: "a: b", End: 12}}},
		{"comment", ": ping\n\n", []view{{Data: " ping", Comment: true, End: 7}}},
		{"lone colon", ":\n:\n", []view{{Comment: true, End: 2}, {Comment: true, End: 4}}},
		{"comment within", "data: a\n:x\ndata: b\n\n", []view{{Data: "x", Comment: true, End: 11}, {Data: "a\nb", End: 20}}},
		{"mark", "\xef\xbb\xbfdata: a\n\n", []view{{Data: "a", End: 12}}},
		{"second mark is a field's name", "\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", nil},
		{"mark behind a blank line is a field's name", "\n\xef\xbb\xbfdata: a\n\n", nil},
		{"tail", "data: a\n\ndata: b", []view{{Data: "a", End: 9}, {Data: "b", Unterminated: true, End: 16}}},
		{"tail with its line's end", "data: b\n", []view{{Data: "b", Unterminated: true, End: 8}}},
		{"comment as tail", ":x", []view{{Data: "x", Comment: true, Unterminated: true, End: 2}}},
		{"bytes that are no text", "data: \xff\xfe\n\n", []view{{Data: "\xff\xfe", End: 10}}},
		{"prefix of a field", "dat: a\ndatas: b\nData: c\n\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, parse(t, c.raw)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Rule 17: no limit of 64 KiB, and one of 16 MiB with its error.
func TestLongLines(t *testing.T) {
	t.Parallel()
	long := "data: " + strings.Repeat("x", sse.MaxLine-6)
	frames, err := sse.Parse([]byte("data: a\n\n" + long + "\n\n"))
	if err != nil || len(frames) != 2 || len(frames[1].Data) != sse.MaxLine-6 {
		t.Errorf("%d frames, %v", len(frames), err)
	}
	frames, err = sse.Parse([]byte("data: a\n\n" + long + "x\n\ndata: b\n\n"))
	if !errors.Is(err, sse.ErrLine) || len(frames) != 1 {
		t.Errorf("%d frames, %v", len(frames), err)
	}
}

// Data of one line must not be written into by the lines that follow it.
func TestParseLeavesTheStreamAlone(t *testing.T) {
	t.Parallel()
	raw := []byte("data: a\ndata: b\n\ndata: c\n\n")
	before := bytes.Clone(raw)
	if _, err := sse.Parse(raw); err != nil || !bytes.Equal(before, raw) {
		t.Errorf("%q, %v", raw, err)
	}
}

// FuzzParse compares with another parser. It drops an unterminated event, as the standard says, and gives events
// without data lines, as the standard does not; both are left out of the comparison.
func FuzzParse(f *testing.F) {
	seeds := []string{
		"data: a\n\n", "data:a\r\n\r\ndata: b\r\rdata", ":x\ndata: a\n: y\ndata: b\n\n", "\xef\xbb\xbfdata: a\n\n",
		"event: e\nid: 1\ndata: {\"choices\":[]}\n\n: ping\n\ndata: [DONE]\n\n", "data: a\n\r\n\rdata\n\n",
	}
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if text := bytes.TrimLeft(raw, "\r\n"); len(text) < len(raw) && bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
			return // the other parser drops such a mark behind blank lines as well; the standard, at the start alone
		}
		frames, err := sse.Parse(raw)
		if err != nil {
			t.Fatal(err) // only a line of 16 MiB has one
		}
		type event struct{ Data, Type string }
		var got, want []event
		last := 0
		for _, fr := range frames {
			if fr.Begin > fr.End || fr.End < last || fr.End > len(raw) {
				t.Fatalf("frame from %d to %d behind %d of %d", fr.Begin, fr.End, last, len(raw))
			}
			last = fr.End
			if !fr.Comment && !fr.Unterminated && len(fr.Data) > 0 {
				got = append(got, event{string(fr.Data), fr.Event})
			}
		}
		for e, err := range gosse.Read(bytes.NewReader(raw), &gosse.ReadConfig{MaxEventSize: 1 << 30}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Data != "" {
				want = append(want, event{e.Data, e.Type})
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-other parser +ours):\n%s", raw, d)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	frame := "data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]," + strings.Repeat(" ", 190) + "}\n\n"
	for _, n := range []int{1_000, 100_000} {
		raw := []byte(strings.Repeat(frame, n))
		b.Run(map[bool]string{true: "frames=1000", false: "frames=100000"}[n == 1_000], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := sse.Parse(raw); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
