package protocol_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/worker/model/protocol"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func ptr[T any](v T) *T { return &v }

// every returns one message of each type with all fields set.
func every() map[string]protocol.Message {
	return map[string]protocol.Message{
		"hello": &protocol.Hello{
			Protocol: 1, Token: `t"o k`, Rank: 3, World: 4, Host: "node 1", PID: 77,
			Device:   protocol.Device{Name: "reference", UUID: "GPU-1", TotalBytes: ptr(int64(1) << 40)},
			Versions: map[string]string{"go": "1.26"}, Settings: map[string]string{"memory": "8MiB"},
		},
		"ready":      &protocol.Ready{Compiled: true, Settings: map[string]string{"compile": "yes"}},
		"prepared":   &protocol.Prepared{Tokens: ptr(int64(5)), PaddedTokens: ptr(int64(6)), Atoms: ptr(int64(40)), MSA: ptr(int64(1)), Seconds: 0.25},
		"steps":      &protocol.Steps{Seconds: []float64{0.1, 1e-9}, DeviceSeconds: []float64{0.09, 2}, Finite: ptr(false)},
		"memory":     &protocol.Memory{Cold: protocol.Peak{Allocated: ptr(int64(9)), Reserved: ptr(int64(10)), Device: ptr(int64(11))}, Warm: protocol.Peak{Allocated: ptr(int64(8))}, Usable: ptr(int64(12))},
		"metrics":    &protocol.Metrics{Metrics: []protocol.Figure{{Name: "checksum", Value: -1.5, Unit: "1"}}},
		"oom":        &protocol.OOM{Text: "requested <1> of\n2 bytes", Where: "step"},
		"error":      &protocol.Error{Class: "error_kernel", Text: "quote \" and newline \n", MemoryShort: true},
		"alive":      &protocol.Alive{Where: "hooks.py:41 build_batch", Done: ptr(3)},
		"start":      &protocol.Start{Mode: "training", DType: "bf16", Topology: "2d", Config: map[string]any{"a": "b"}, AliveSeconds: 7.5},
		"point":      &protocol.Point{Params: map[string]any{"tokens": 2048.0, "data": "inputs/a b.npz", "list": []any{1.0, nil, true}}},
		"step":       &protocol.Step{Phase: "timed", Count: 10},
		"reset_peak": &protocol.ResetPeak{},
		"stop":       &protocol.Stop{},
	}
}

func TestEveryMessageSurvivesTheWire(t *testing.T) {
	t.Parallel()
	for name, m := range every() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, err := protocol.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"type":"` + name + `"`; !strings.HasPrefix(string(line), want) {
				t.Errorf("line %q does not start with %s", line, want)
			}
			if n := strings.Count(string(line), "\n"); n != 1 || line[len(line)-1] != '\n' {
				t.Errorf("line %q has %d newlines, want one at its end", line, n)
			}
			got, err := protocol.Decode(line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got); diff != "" {
				t.Errorf("(-sent +received):\n%s", diff)
			}
		})
	}
}

func TestEncodeTakesValuesAndPointers(t *testing.T) {
	t.Parallel()
	byValue, err := protocol.Encode(protocol.Step{Phase: "timed", Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	byPointer, err := protocol.Encode(&protocol.Step{Phase: "timed", Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"step","phase":"timed","count":2}` + "\n"
	if string(byValue) != want || string(byPointer) != want {
		t.Errorf("got %q and %q, want %q", byValue, byPointer, want)
	}
}

type foreign struct{}

func (foreign) Type() string { return "foreign" }

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		m    protocol.Message
		want string
	}{
		"nil":           {nil, "no message"},
		"nil pointer":   {(*protocol.Stop)(nil), "no message"},
		"foreign":       {foreign{}, "unknown message type"},
		"NaN":           {protocol.Steps{Seconds: []float64{math.NaN()}}, "NaN"},
		"infinity":      {protocol.Prepared{Seconds: math.Inf(1)}, "Inf"},
		"nested NaN":    {protocol.Point{Params: map[string]any{"tokens": math.NaN()}}, "NaN"},
		"too long":      {protocol.Error{Text: strings.Repeat("x", protocol.MaxLine)}, "longer than 1048576"},
		"empty hello":   {protocol.Hello{}, "token is empty"},
		"rank of world": {protocol.Hello{Protocol: 1, Token: "t", Rank: 4, World: 4}, "rank 4: want 0 to 3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, err := protocol.Encode(tt.m)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %.60q, %v; want an error with %q", line, err, tt.want)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	const hello = `{"type":"hello","protocol":1,"token":"t","rank":0,"world":1`
	tests := map[string]struct {
		line    string
		want    protocol.Message
		wantErr string
	}{
		"unknown field":       {line: `{"type":"stop","newer":[1]}`, want: &protocol.Stop{}},
		"type last":           {line: `{"count":1,"phase":"probe","type":"step"}`, want: &protocol.Step{Phase: "probe", Count: 1}},
		"null":                {line: `null`, wantErr: `no field "type"`},
		"no type":             {line: `{"rank":1}`, wantErr: `no field "type"`},
		"type is a number":    {line: `{"type":1}`, wantErr: "decode"},
		"not json":            {line: "Traceback (most recent call last):\n", wantErr: "Traceback"},
		"list":                {line: `[]`, wantErr: "decode"},
		"empty":               {line: ``, wantErr: "decode"},
		"two objects":         {line: `{"type":"stop"}{"type":"stop"}`, wantErr: "decode"},
		"wrong kind of field": {line: `{"type":"step","count":"3"}`, wantErr: "decode step"},
		"hello":               {line: hello + `}`, want: &protocol.Hello{Protocol: 1, Token: "t", World: 1}},
		"hello without token": {line: `{"type":"hello","protocol":1,"rank":0,"world":1}`, wantErr: "token is empty"},
		"hello without rank":  {line: `{"type":"hello","protocol":1,"token":"t","world":1}`, wantErr: `no field "rank"`},
		"hello without world": {line: `{"type":"hello","protocol":1,"token":"t","rank":0}`, wantErr: "world 0"},
		"hello without protocol": {
			line: `{"type":"hello","token":"t","rank":0,"world":1}`, wantErr: "protocol 0",
		},
		"too long": {line: `{"type":"stop"}` + strings.Repeat(" ", protocol.MaxLine), wantErr: "longer than"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := protocol.Decode([]byte(tt.line))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("got %v, %v; want an error with %q", got, err, tt.wantErr)
				}
				if errors.Is(err, protocol.ErrUnknownType) {
					t.Errorf("%v would be ignored by a receiver", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnknownTypeCanBeIgnored(t *testing.T) {
	t.Parallel()
	_, err := protocol.Decode([]byte(`{"type":"progress","share":0.5}`))
	if !errors.Is(err, protocol.ErrUnknownType) {
		t.Fatalf("got %v, want ErrUnknownType", err)
	}
	if !strings.Contains(err.Error(), `"progress"`) {
		t.Errorf("%v does not name the type", err)
	}
}

const corpus = "testdata/fuzz/FuzzDecode"

func TestFuzzCorpusIsNotEmpty(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(corpus, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("%d files in %s, want at least 10", len(files), corpus)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "go test fuzz v1\n") {
			t.Errorf("%s is no corpus file", f)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range every() {
		line, err := protocol.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := protocol.Decode(line)
		if err != nil {
			if m != nil {
				t.Fatalf("both a message %#v and an error %v", m, err)
			}
			return
		}
		again, err := protocol.Encode(m)
		if err != nil {
			if errors.Is(err, protocol.ErrLineTooLong) { // escapes may make a line grow
				return
			}
			t.Fatalf("received %#v cannot be sent: %v", m, err)
		}
		got, err := protocol.Decode(again)
		if err != nil {
			t.Fatalf("%q became %q: %v", line, again, err)
		}
		// An empty map and no map are one thing on the wire.
		if diff := cmp.Diff(m, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q became %q (-first +second):\n%s", line, again, diff)
		}
	})
}
