package health_test

import (
	"context"
	"strings"
	"testing"

	"cpbench/worker/llm/health"
)

func TestSelftest(t *testing.T) {
	for _, c := range []int{1, 16} {
		f, err := health.Selftest(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(f)
		if f.Streams != c || f.Frames != 50*c || f.TTFTError.N != c || f.GapError.N != 49*c {
			t.Errorf("%+v", f)
		}
		// What is read was written before: an error below zero is a clock or a frame mixed up.
		if *f.TTFTError.P50 <= 0 || *f.TTFTError.Max <= 0 {
			t.Errorf("frames came before they were sent: %+v", f.TTFTError)
		}
		if !strings.Contains(f.String(), "TTFT error") {
			t.Error(f)
		}
	}
	if _, err := health.Selftest(t.Context(), 0); err == nil {
		t.Error("no streams")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := health.Selftest(ctx, 2); err == nil {
		t.Error("a cancelled self-test has a floor")
	}
}
