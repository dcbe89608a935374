package llm

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
)

// The energy of a token is that of the group over what was delivered, and not known where either is not.
func TestEnergyPerToken(t *testing.T) {
	t.Parallel()
	some, none, zero := 30.0, (*float64)(nil), 0.0
	tokens := 12.0
	for name, c := range map[string]struct {
		joules, tokens *float64
		want           float64 // 0: null
	}{
		"both":              {&some, &tokens, 2.5},
		"no readings":       {none, &tokens, 0},
		"no tokens":         {&some, none, 0},
		"nothing delivered": {&some, &zero, 0},
	} {
		r := &result.Result{Metrics: map[string]*float64{catalogue.EnergyJoules: c.joules, catalogue.OutputTokens: c.tokens}}
		energy(r, telemetry.Span{})
		got, told := r.Metrics[catalogue.EnergyPerOutputToken]
		if !told || got == nil != (c.want == 0) || got != nil && *got != c.want {
			t.Errorf("%s: %v, %v", name, got, told)
		}
	}
	r := &result.Result{}
	if energy(r, telemetry.Span{}); len(r.Metrics) > 0 {
		t.Errorf("a server without GPUs: %v", r.Metrics)
	}
}

// A server that died may have had the signal that the worker is about to see.
func TestSoon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ends, want time.Duration }{
		"in the grace": {300 * time.Millisecond, 300 * time.Millisecond},
		"later":        {time.Hour, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.ends)
			defer cancel()
			began := time.Now()
			if soon(ctx, time.Second); time.Since(began) != c.want {
				t.Errorf("%s: waited %v", name, time.Since(began))
			}
		})
	}
}
