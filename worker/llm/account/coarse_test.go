package account_test

import (
	"strings"
	"testing"

	"cpbench/worker/llm/account"
)

// A rate that was computed and cannot be believed has a warning beside it: one of a real server's was 18,000 tokens/s, of
// eight tokens within half a millisecond.
func TestCoalesced(t *testing.T) {
	t.Parallel()
	evenly := func(tokens, frames, pace int64) account.Record {
		var at []int64
		for i := range frames {
			at = append(at, 100+i*pace)
		}
		return made(0, tokens, append(at, at[len(at)-1])...)
	}
	// bundled has the first frames in one read, and with usage in every frame.
	bundled := func(usage ...int64) account.Record {
		r := evenly(9, 5, 20)
		r.Facts.ReadFrames[0], r.Facts.ReadFrames[1] = 0, 2
		for i, n := range usage {
			r.Facts.UsageFrames, r.Facts.UsageTokens = append(r.Facts.UsageFrames, i), append(r.Facts.UsageTokens, n)
		}
		return r
	}
	for name, c := range map[string]struct {
		record account.Record
		want   string // part of the warning; empty: there is none
	}{
		"a token a frame":                    {evenly(4, 4, 5), ""},
		"many frames of three tokens":        {evenly(300, 100, 3), ""},
		"the answer of two tokens":           {evenly(2, 2, 10), ""},
		"within 10 ms":                       {evenly(8, 8, 1), "7 ms apart, in 8 reads"},
		"two reads of many tokens":           {evenly(64, 2, 50), "about 32 of 64 tokens came with the first text, in 2 reads"},
		"few frames of four tokens":          {evenly(20, 5, 20), "about 4 of 20 tokens"},
		"the first two frames in one read":   {bundled(), "about 4 of 9 tokens"},
		"... of one token each":              {bundled(1, 2, 5, 7, 9), "2 of 9 tokens"},
		"... all of the tokens in the first": {bundled(9, 9, 9, 9, 9), "9 of 9 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := account.Judge(c.record.Facts)
			if n.DecodeTPS == nil {
				t.Fatalf("no rate: %v", n.Nulls)
			}
			got := ""
			for _, w := range n.Warnings {
				if w.Code == account.WarnCoalesced {
					got = w.Text
				}
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
	r := evenly(20, 5, 20)
	for i, n := range []int64{1, 5, 10, 15, 20} {
		r.Facts.UsageFrames, r.Facts.UsageTokens = append(r.Facts.UsageFrames, i), append(r.Facts.UsageTokens, n)
	}
	if n := account.Judge(r.Facts); len(n.Warnings) != 0 {
		t.Errorf("the usage says that one token came with the first text: %v", n.Warnings)
	}
}
