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
		if f.Streams != c || f.Frames != 4*50*c || f.TTFTError.N != 4*c || f.Send.N != 4*c || f.GapError.N != 4*49*c || f.ServerLate.N != f.Frames {
			t.Errorf("%+v", f)
		}
		// What is read was written before: an error below zero is a clock or a frame mixed up.
		if *f.Receive.Mean <= 0 || *f.Send.Mean <= 0 || *f.TTFTError.P50 <= 0 || *f.ServerLate.Mean < 0 {
			t.Errorf("frames came before they were sent: %+v", f)
		}
		sum := *f.Send.Mean + *f.Receive.Mean
		if d := sum - *f.TTFTError.Mean; d > 1e-9 || d < -1e-9 {
			t.Errorf("the parts add up to %v and not to %v", sum, *f.TTFTError.Mean)
		}
		if !strings.Contains(f.String(), "TTFT error p50") {
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
