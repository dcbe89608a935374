package peer_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/account/peer"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/llmtest/visit"
)

func s(v float64) *float64 { return &v }

func ns(v int64) *int64 { return &v }

// record is a request of which each frame came with a read of its own, at the given milliseconds, but those whose time
// is 0: they came with the frame before.
func record(f account.Facts, kinds string, ms ...int64) account.Record {
	f.Schema, f.Kinds = account.Schema, kinds
	if f.Status == 0 {
		f.Status = 200
	}
	var before int64
	for _, at := range ms {
		f.FrameBytes = append(f.FrameBytes, 10)
		if at == 0 {
			f.ReadFrames[len(f.ReadFrames)-1]++
			continue
		}
		f.ReadNS, f.ReadBytes, f.ReadFrames = append(f.ReadNS, (at-before)*1e6), append(f.ReadBytes, 10), append(f.ReadFrames, 1)
		before = at
	}
	if f.EndNS == 0 {
		f.EndNS = before * 1e6
	}
	f.TextBytes[1] = 1
	return account.Record{Facts: f, Numbers: account.Judge(f)}
}

// usage is what an answer of so many tokens says in the given frame.
func usage(frame int, tokens int64) account.Facts {
	return account.Facts{Finish: "stop", Usage: &account.Usage{Completion: &tokens}, UsageFrames: []int{frame}, UsageTokens: []int64{tokens}}
}

func values(figures []peer.Figure) map[peer.Name]*float64 {
	m := map[peer.Name]*float64{}
	for _, f := range figures {
		m[f.Name] = f.Other
	}
	return m
}

// TestDefinitions has a group of two answers whose figures are computed by hand: one of a role frame at 100 ms, texts at
// 150, 200 and (with the same read) 200, a finish frame at 260, usage at 270 and the end at 280, of 5 tokens; and one that
// begins 10 ms later, with reasoning at 300, text at 400, finish and end at 420, of 2 tokens.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	first := usage(5, 5)
	first.ConnNS = ns(2e6)
	second := usage(3, 2)
	second.StartNS, second.ConnNS, second.EndNS = 10e6, ns(4e6), 500e6
	group := []account.Record{
		record(first, "02220ud", 100, 150, 200, 0, 260, 270, 280),
		record(second, "120ud", 300, 400, 420, 0, 0),
	}
	for tool, want := range map[peer.Tool]map[peer.Name]*float64{
		peer.VLLM: {
			peer.Requests: s(2), peer.TTFT: s(.2), peer.TTFTP50: s(.2), peer.TTFTP99: s(.298), peer.Visible: nil,
			peer.TPOT: s((.160/4 + .120/1) / 2), // frames with choices: 100 to 260 and 300 to 420
			peer.Gap:  s((.05 + .05 + 0 + .06 + .1 + .02) / 6), peer.GapP50: s(.05), peer.GapMax: s(.1),
			peer.Latency: s((.26 + .42) / 2), peer.Tokens: s(7), peer.Rate: s(7 / .51), // the last body ends at 510
		},
		peer.AIPerf: {
			peer.Requests: s(2), peer.TTFT: s(.225), peer.TTFTP50: s(.225), peer.TTFTP99: s(.2985), peer.Visible: s((.15 + .4) / 2),
			peer.TPOT: s((.05/4 + .1/1) / 2), peer.Gap: s((.05 + 0 + .1) / 3), peer.GapP50: s(.05), peer.GapMax: s(.1),
			peer.Latency: s((.2 + .4) / 2), peer.Tokens: s(7), peer.Rate: s(7 / .41),
		},
		peer.GuideLLM: {
			peer.Requests: s(2), peer.TTFT: s((.148 + .296) / 2), peer.TTFTP50: s(.148), peer.TTFTP99: s(.296), peer.Visible: s((.148 + .396) / 2),
			peer.TPOT: s((.05 + .1) / 5), peer.FromStart: s((.198 + .396) / 7), peer.Gap: nil, peer.GapP50: nil, peer.GapMax: nil,
			peer.Latency: s((.278 + .416) / 2), peer.Tokens: s(7), peer.Rate: s(7 / (.43 - .002)),
		},
	} {
		figures := peer.Compare(tool, group)
		if d := cmp.Diff(want, values(figures), cmpopts.EquateApprox(1e-12, 0)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tool, d)
		}
		for _, f := range figures {
			if same := f.Ours != nil && f.Other != nil && cmp.Equal(*f.Ours, *f.Other, cmpopts.EquateApprox(1e-9, 0)); same != (f.Why == "") {
				t.Errorf("%s: %+v", tool, f)
			}
		}
	}
}

// TestSuccesses are answers about which the tools disagree.
func TestSuccesses(t *testing.T) {
	t.Parallel()
	fail := func(reason account.Reason) func(*account.Facts) {
		return func(f *account.Facts) { f.Failure = &account.Failure{Reason: reason} }
	}
	for _, c := range []struct {
		name, kinds            string
		adapt                  func(*account.Facts)
		vllm, aiperf, guidellm float64 // successes; -1: the log cannot tell
	}{
		{"good", "020ud", nil, 1, 1, 1},
		{"an error in a frame", "02ed", func(f *account.Facts) { f.InBand = &account.Failure{Reason: account.InBand} }, 1, 1, 0},
		{"no JSON", "02x0ud", nil, -1, 1, 0},
		{"no JSON in a tail", "02x", func(f *account.Facts) { f.Unterminated = true }, 1, 1, 0},
		{"a proper end in the midst", "02", func(f *account.Facts) { f.Finish = "" }, 1, 1, 1},
		{"only a role", "0d", func(f *account.Facts) { f.TextBytes[1] = 0; f.Usage = nil }, 1, 0, 0},
		{"only tokens", "0ud", func(f *account.Facts) { f.TextBytes[1] = 0 }, 1, 0, 1},
		{"[DONE] alone", "d", func(f *account.Facts) { f.TextBytes[1] = 0; f.Usage = nil }, 0, 0, 0},
		{"broken", "02", fail(account.Cut), 0, 0, 0},
		{"broken after [DONE]", "020ud", fail(account.Cut), 0, 0, 1},
		{"silent", "02", fail(account.IdleTimeout), -1, -1, -1},
		{"silent after [DONE]", "020ud", func(f *account.Facts) { f.Undrained = true }, -1, -1, 1},
		{"cancelled", "02", fail(account.Cancelled), -1, -1, -1},
		{"refused", "", func(f *account.Facts) { f.Status = 429; fail(account.HTTPStatus)(f) }, 0, 0, 0},
		{"accepted", "020ud", func(f *account.Facts) { f.Status = 201 }, 0, 1, 1},
		{"redirected", "", func(f *account.Facts) { f.Status = 307; fail(account.HTTPStatus)(f) }, -1, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var ms []int64
			for i := range c.kinds {
				ms = append(ms, int64(10*(i+1)))
			}
			r := record(usage(len(c.kinds)-2, 2), c.kinds, ms...)
			if c.adapt != nil {
				c.adapt(&r.Facts)
				r.Numbers = account.Judge(r.Facts)
			}
			for tool, want := range map[peer.Tool]float64{peer.VLLM: c.vllm, peer.AIPerf: c.aiperf, peer.GuideLLM: c.guidellm} {
				got := peer.Compare(tool, []account.Record{r})[0]
				if want < 0 && (got.Other != nil || got.Why == "") || want >= 0 && (got.Other == nil || *got.Other != want) {
					t.Errorf("%s: %+v", tool, got)
				}
			}
		})
	}
}

// TestCounts are the sources of tokens about which the tools disagree.
func TestCounts(t *testing.T) {
	t.Parallel()
	inFinish := record(usage(2, 4), "020d", 10, 20, 30, 40) // usage in a frame with a choice
	none := record(account.Facts{Finish: "stop"}, "0220d", 10, 20, 30, 40, 50)
	above := record(usage(3, 3), "120ud", 10, 20, 30, 40, 50)
	above.Facts.Usage.Reasoning = ns(4)
	for _, c := range []struct {
		name                   string
		record                 account.Record
		vllm, aiperf, guidellm float64 // -1: null
	}{
		{"usage in the finish frame", inFinish, -1, 4, 4},
		{"no usage", none, -1, -1, 2},
		{"more reasoning than completion", above, 3, 4, 3},
	} {
		for tool, want := range map[peer.Tool]float64{peer.VLLM: c.vllm, peer.AIPerf: c.aiperf, peer.GuideLLM: c.guidellm} {
			for _, f := range peer.Compare(tool, []account.Record{c.record}) {
				if f.Name == peer.Tokens && (want < 0 && (f.Other != nil || f.Why == "") || want >= 0 && (f.Other == nil || *f.Other != want)) {
					t.Errorf("%s, %s: %+v", c.name, tool, f)
				}
			}
		}
	}
}

// TestReasons: over every shape that a server has shown, a figure that differs or is missing has a reason, and one that
// is equal has none.
func TestReasons(t *testing.T) {
	t.Parallel()
	for _, shape := range llmtest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := play(t, shape.Script)
				for _, tool := range peer.Tools() {
					for _, f := range peer.Compare(tool, []account.Record{r}) {
						missing := f.Ours == nil && f.Other == nil
						equal := f.Ours != nil && f.Other != nil && cmp.Equal(*f.Ours, *f.Other, cmpopts.EquateApprox(1e-9, 0))
						if equal && f.Why != "" || !equal && !missing && f.Why == "" {
							t.Errorf("%s: %+v", tool, f)
						}
					}
				}
			})
		})
	}
}

func play(t *testing.T, s llmtest.Script) account.Record {
	t.Helper()
	x, epoch := visit.Script(t, s)
	f, _ := account.Observe(x, epoch, account.Rules{})
	return account.Record{Facts: f, Numbers: account.Judge(f)}
}
