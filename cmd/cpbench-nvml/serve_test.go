//go:build cgo

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"cpbench/worker/gpu"

	"github.com/google/go-cmp/cmp"
)

// fake is an instrument that may hang.
type fake struct{ hang chan struct{} }

func (f fake) identify() ([]gpu.Device, error) {
	if f.hang != nil {
		<-f.hang
	}
	return []gpu.Device{{UUID: "GPU-a"}}, nil
}

func (fake) read(kind gpu.Kind) (gpu.Reading, error) { return gpu.Reading{Kind: kind}, nil }
func (fake) processes() ([]gpu.Process, error)       { return nil, errors.New("NVML: NO_PERMISSION") }

// talk serves an instrument over pipes.
func talk(t *testing.T, ins instrument) (say func(string), hear func() gpu.Answer, end func() error) {
	t.Helper()
	inRead, in := io.Pipe()
	out, outWrite := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(inRead, outWrite, ins) }()
	lines := bufio.NewScanner(out)
	say = func(line string) {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Error(err)
		}
	}
	hear = func() (a gpu.Answer) {
		if !lines.Scan() {
			t.Fatal("no answer")
		}
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	end = func() error {
		in.Close()
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Second):
			return errors.New("it does not end with its input")
		}
	}
	return say, hear, end
}

func TestServe(t *testing.T) {
	t.Parallel()
	say, hear, end := talk(t, fake{})
	for _, tt := range []struct {
		request string
		want    gpu.Answer
	}{
		{`{"id":1,"cmd":"identify"}`, gpu.Answer{ID: 1, Devices: []gpu.Device{{UUID: "GPU-a"}}}},
		{`{"id":2,"cmd":"read"}`, gpu.Answer{ID: 2, Reading: &gpu.Reading{Kind: gpu.Edge}}},
		{`{"id":3,"cmd":"processes"}`, gpu.Answer{ID: 3, Error: "NVML: NO_PERMISSION"}},
		{`{"id":4,"cmd":"reset"}`, gpu.Answer{ID: 4, Error: `unknown command "reset"; known are identify, read, processes, sample, stop`}},
		{`{"id":5,"cmd":"sample"}`, gpu.Answer{ID: 5, Error: "hz 0 is not above 0 and at most 5"}},
		{`{"id":6,"cmd":"sample","hz":1000}`, gpu.Answer{ID: 6, Error: "hz 1000 is not above 0 and at most 5"}},
		{`{"id":7,"cmd":"stop"}`, gpu.Answer{ID: 7}},
		{`nonsense`, gpu.Answer{Error: "request: invalid character 'o' in literal null (expecting 'u')"}},
		{`{"id":8,"cmd":"sample","hz":5,"kind":"memory"}`, gpu.Answer{ID: 8}},
	} {
		say(tt.request)
		if d := cmp.Diff(tt.want, hear()); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.request, d)
		}
	}
	for range 2 {
		if d := cmp.Diff(gpu.Answer{ID: 8, Sample: true, Reading: &gpu.Reading{Kind: gpu.Memory}}, hear()); d != "" {
			t.Errorf("sample (-want +got):\n%s", d)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestServeWhileTheDriverHangs ends, and says that it is busy, although a call does not return.
func TestServeWhileTheDriverHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	say, hear, end := talk(t, fake{hang})
	for range queue + 2 { // one is in the hands of the driver, or may still be in the queue
		say(`{"id":1,"cmd":"identify"}`)
	}
	if a := hear(); !strings.Contains(a.Error, "busy") {
		t.Errorf("answer %+v", a)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
