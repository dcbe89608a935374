package account_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/account"
)

func TestGoodput(t *testing.T) {
	t.Parallel()
	both := account.Limits{TTFT: s(.2), TPOT: s(.01)}
	// TTFT in ms, and the last text; 11 tokens have 10 intervals between them.
	text := func(tokens int64, at ...int64) account.Record { return made(0, tokens, append(at, at[len(at)-1])...) }
	good, atLimits := text(11, 100, 150), text(11, 200, 300)
	late, slow, lateSlow := text(11, 201, 250), text(11, 100, 201), text(11, 300, 500)
	uncounted := text(-1, 100, 150)
	many := func(n int, r account.Record, others ...account.Record) []account.Record {
		for range n {
			others = append(others, r)
		}
		return others
	}
	type seen struct {
		Good, Late, Slow, Single, Blind int
		Fraction, PerSecond             *float64
		Met                             *bool
		Statistic                       string
	}
	yes, no := true, false
	for name, c := range map[string]struct {
		limits  account.Limits
		records []account.Record
		want    seen
	}{
		"within, and at the limits":      {both, []account.Record{good, atLimits}, seen{2, 0, 0, 0, 0, s(1), s(2 / .3), &yes, "max"}},
		"late, slow, and both":           {both, []account.Record{good, late, slow, lateSlow}, seen{1, 2, 2, 0, 0, s(.25), s(1 / .5), &no, "max"}},
		"TTFT alone":                     {account.Limits{TTFT: s(.2)}, []account.Record{good, late, slow}, seen{2, 1, 0, 0, 0, s(2. / 3), s(2 / .25), &no, "max"}},
		"TPOT alone":                     {account.Limits{TPOT: s(.01)}, []account.Record{late, slow}, seen{1, 0, 1, 0, 0, s(.5), s(1 / .25), &no, "max"}},
		"a request that failed":          {both, []account.Record{good, broken(text(11, 100, 150), account.Cut)}, seen{1, 1, 1, 0, 0, s(.5), s(1 / .15), &no, "max"}},
		"a success without text":         {both, []account.Record{good, made(0, 2, 100)}, seen{1, 1, 1, 0, 0, s(.5), s(1 / .15), &no, "max"}},
		"one token has no TPOT":          {both, []account.Record{text(1, 100)}, seen{1, 0, 0, 1, 0, s(1), s(10), &yes, "max"}},
		"one read has no TPOT":           {both, []account.Record{text(9, 100, 100)}, seen{1, 0, 0, 1, 0, s(1), s(10), &yes, "max"}},
		"tokens that nobody counted":     {both, []account.Record{good, uncounted}, seen{1, 0, 0, 0, 1, nil, nil, nil, "max"}},
		"... and no limit that needs it": {account.Limits{TTFT: s(.2)}, []account.Record{good, uncounted}, seen{2, 0, 0, 0, 0, s(1), s(2 / .15), &yes, "max"}},
		"sent late counts":               {both, []account.Record{lagging(101), lagging(100)}, seen{1, 1, 0, 1, 0, s(.5), s(1 / .201), &no, "max"}},
		"one of 100":                     {both, many(99, good, late), seen{99, 1, 0, 0, 0, s(.99), s(99 / .25), &yes, "p99"}},
		"one of 99":                      {both, many(98, good, late), seen{98, 1, 0, 0, 0, s(98. / 99), s(98 / .25), &no, "max"}},
		"two of 100":                     {both, many(98, good, late, late), seen{98, 2, 0, 0, 0, s(.98), s(98 / .25), &no, "p99"}},
		"nothing":                        {both, nil, seen{Statistic: "max"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := c.limits.Judge(account.Sum(c.records), c.records)
			got := seen{g.Good, g.Late, g.Slow, g.Single, g.Blind, g.Fraction, g.PerSecond, g.Met, g.Statistic}
			if d := cmp.Diff(c.want, got, near); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			line, err := json.Marshal(g)
			var back account.Goodput
			if err != nil || json.Unmarshal(line, &back) != nil || !cmp.Equal(g, back) {
				t.Errorf("%v: not the same from a file: %s", err, line)
			}
		})
	}
}
