package source

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"cpbench/worker/gpu"

	"github.com/google/go-cmp/cmp"
)

func TestChildEnv(t *testing.T) {
	t.Parallel()
	got := childEnv([]string{"A=1", "LD_BIND_NOW=1", "LD_PRELOAD=x.so", "LD_LIBRARY_PATH=/lib", "LC_ALL=de_DE", "B="})
	if d := cmp.Diff([]string{"A=1", "LD_LIBRARY_PATH=/lib", "B=", "LC_ALL=C"}, got); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	var b tail
	for range 100 {
		if n, err := b.Write([]byte("0123456789\n")); n != 11 || err != nil {
			t.Fatal(n, err)
		}
	}
	b.Write([]byte("the \xff end"))
	if s := b.String(); !strings.HasPrefix(s, "0123456789 0123") || !strings.HasSuffix(s, "the ? end") || len(s) > headSize+tailSize+10 {
		t.Errorf("%d bytes: %q", len(s), s)
	}
}

// answers is the corpus of FuzzDecodeAnswer.
var answers = []string{
	`{"id":1,"devices":[{"index":0,"uuid":"GPU-a","memory_total_bytes":5}]}`,
	`{"id":2,"reading":{"kind":"edge","seconds":0.01,"gpus":[{"uuid":"GPU-a","clock_reasons":null,"energy_joules":1e9}]}}`,
	`{"id":3,"sample":true,"reading":{"gpus":null}}`,
	`{"id":3,"sample":true}`,
	`{"id":0}`, `{"id":-1}`, `{"id":4,"error":"NVML: UNKNOWN"}`, `a driver talks`, `[]`, `null`, ``, `{"id":5,"future":[1]}`, `{"id":1e999}`,
}

func FuzzDecodeAnswer(f *testing.F) {
	if len(answers) == 0 {
		f.Fatal("no corpus")
	}
	for _, a := range answers {
		f.Add([]byte(a))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := decodeAnswer(text)
		if err != nil {
			return
		}
		if a.ID <= 0 || a.Sample && a.Reading == nil {
			t.Fatalf("%q was taken for %+v", text, a)
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := decodeAnswer(again)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		third, err := json.Marshal(b)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%q became %q and then %q: %v", text, again, third, err)
		}
	})
}

// TestDecodeAnswer says which lines of the corpus are good.
func TestDecodeAnswer(t *testing.T) {
	t.Parallel()
	good := 0
	for _, a := range answers {
		if _, err := decodeAnswer([]byte(a)); err == nil {
			good++
		}
	}
	if good != 5 {
		t.Errorf("%d of the lines are good", good)
	}
}

// tables is the corpus of FuzzRows.
var tables = []string{
	"GPU-a, 1024, 2048, 1980, 120.50, 40, 0x0000000000000004\nGPU-b, [N/A], 0, [Not Supported], [Unknown Error], N/A, Not Active\n",
	"GPU-a, -1, nan, inf, 1e999, , 0xzz\n",
	"No devices were found\n",
	"GPU-a, 1024\n", "", "\n\n", ",,,,,,\n",
	"GPU-a, 1024, 2048, 1980, 120,50, 40, 0x1\n", // a decimal comma
	"0,[,,,,,0",
	"[GPU is lost],[GPU is lost],[GPU is lost],[GPU is lost],[GPU is lost],[GPU is lost],[GPU is lost]",
}

func FuzzRows(f *testing.F) {
	if len(tables) == 0 {
		f.Fatal("no corpus")
	}
	for _, text := range tables {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseProcesses(text); err == nil && strings.Contains(text, "No devices") {
			t.Fatalf("%q was taken for processes", text)
		}
		rows, err := parseRows(text, sampleFields)
		if err != nil {
			return
		}
		if len(rows) == 0 || len(rows) > strings.Count(text, "\n")+1 {
			t.Fatalf("%d rows in %q", len(rows), text)
		}
		for _, r := range rows {
			s := r.state(gpu.Sample)
			for name, v := range map[string]*float64{"memory_used_bytes": s.MemoryUsed, "sm_clock_hertz": s.SMClock, "power_watts": s.Power, "temperature_celsius": s.Temperature} {
				if (v == nil) != (s.Missing[name] != "") {
					t.Fatalf("%s of %q is %v because of %q", name, text, v, s.Missing[name])
				}
				if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0) {
					t.Fatalf("%s of %q is %v", name, text, *v)
				}
			}
			if (s.Reasons == nil) != (s.Missing["clock_reasons"] != "") || (s.UUID == "") != (s.Missing["uuid"] != "") {
				t.Fatalf("%q became %+v", text, s)
			}
		}
	})
}

func TestRows(t *testing.T) {
	t.Parallel()
	var sizes []int
	for _, text := range tables {
		rows, _ := parseRows(text, sampleFields)
		sizes = append(sizes, len(rows))
	}
	if !slices.Equal(sizes, []int{2, 1, 0, 0, 0, 0, 0, 0, 1, 1}) {
		t.Errorf("rows %v", sizes)
	}
	rows, err := parseRows(tables[1], sampleFields)
	if err != nil {
		t.Fatal(err)
	}
	s := rows[0].state(gpu.Sample)
	want := gpu.State{UUID: "GPU-a", Missing: gpu.Missing{
		"memory_used_bytes": `"-1" is no quantity`, "memory_free_bytes": `"nan" is no quantity`, "sm_clock_hertz": `"inf" is no quantity`,
		"power_watts": `"1e999" is no quantity`, "temperature_celsius": "empty", "clock_reasons": `"0xzz" is no number`,
	}}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
}
