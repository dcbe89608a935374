package account_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/llmtest"
)

// TestCaptured plays streams of a vLLM 0.32.0 frame by frame, the first after 100 ms and then one every 10 ms, and judges
// them. Counts are those that grep and jq give for the files; times follow from the positions of the frames.
func TestCaptured(t *testing.T) {
	t.Parallel()
	type want struct {
		outcome            account.Outcome
		reason             account.Reason
		frames             int                     // with text
		first, visible     time.Duration           // positions after the role frame
		last, total        time.Duration           //
		prompt, completion int64                   // -1: null
		reasoning, content int64                   // tokens by the server; -1: null
		cached             int64                   // -1: null
		unbiased           float64                 // tokens after those of the first text frame; 0: null
		nulls              map[string]account.Null // of the rates
	}
	at := func(frame int) time.Duration { return llmtest.First + time.Duration(frame)*llmtest.Pace }
	for name, w := range map[string]want{
		"stream-think":            {account.Success, "", 116, at(1), at(6), at(116), at(118), 31, 120, 5, 115, 0, 0, map[string]account.Null{"decode_unbiased_tps": account.NoContinuous}},
		"stream-answer":           {account.Success, "", 60, at(1), at(1), at(60), at(62), 32, 60, 0, 60, 0, 0, map[string]account.Null{"decode_unbiased_tps": account.NoContinuous}},
		"stream-stop":             {account.Success, "", 281, at(1), at(57), at(281), at(284), 31, 331, 57, 274, 0, 0, map[string]account.Null{"decode_unbiased_tps": account.NoContinuous}},
		"stream-continuous-usage": {account.Success, "", 29, at(1), at(6), at(29), at(31), 31, 30, 5, 25, 0, 29, nil},
		"ngram-continuous-usage":  {account.Success, "", 23, at(1), at(3), at(23), at(25), 31, 100, 5, 95, 0, 99, nil},
		"stream-effort-toplevel":  {account.Success, "", 10, at(1), -1, at(10), at(12), 43, 10, 10, 0, 0, 0, map[string]account.Null{"decode_unbiased_tps": account.NoContinuous}},
		"stream-warm":             {account.Success, "", 2, at(1), at(1), at(2), at(4), 667, 3, 0, 3, 640, 0, map[string]account.Null{"decode_unbiased_tps": account.NoContinuous}},
		"stream-no-usage": {
			account.Success, "", 9, at(1), at(6), at(9), at(10), -1, -1, -1, -1, -1, 0,
			map[string]account.Null{"decode_tps": account.NoUsage, "decode_unbiased_tps": account.NoUsage, "tpot_s": account.NoUsage},
		},
		"cut-by-sigterm": {
			account.Failed, account.InBand, 111, at(1), at(12), at(111), at(113), -1, -1, -1, -1, -1, 0,
			map[string]account.Null{"decode_tps": account.NoUsage, "decode_unbiased_tps": account.NoUsage, "tpot_s": account.NoUsage},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile("../stream/chat/testdata/vllm/0.32.0/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			frames := strings.SplitAfter(string(raw), "\n\n")
			if frames[len(frames)-1] == "" {
				frames = frames[:len(frames)-1]
			}
			synctest.Test(t, func(t *testing.T) {
				f, _ := play(t, llmtest.Frames(llmtest.First, llmtest.Pace, frames...), account.Rules{NeedDone: true})
				n := account.Judge(f)
				type view struct {
					Outcome                account.Outcome
					Reason                 account.Reason
					Frames                 int
					First, Visible         *float64
					Last, Total            *float64
					Prompt, Completion     *int64
					Reasoning, Content     *int64
					Cached                 *int64
					Decode, TPOT, Unbiased *float64
					ITL                    bool
				}
				got := view{
					n.Outcome, n.Reason, n.Frames, n.TTFT, n.Visible, n.LastText, n.Total, n.PromptTokens, n.CompletionTokens,
					n.Reasoning.Tokens, n.Content.Tokens, n.CachedTokens, n.DecodeTPS, n.TPOT, n.UnbiasedTPS, n.GapIsITL,
				}
				expected := view{
					w.outcome, w.reason, w.frames, seconds(w.first), seconds(w.visible), seconds(w.last), seconds(w.total),
					count(w.prompt), count(w.completion), count(w.reasoning), count(w.content), count(w.cached), nil, nil, nil,
					false, // the token that ends the reasoning makes no frame
				}
				if span := (w.last - w.first).Seconds(); w.completion > 0 {
					expected.Decode, expected.TPOT = s(float64(w.completion)/span), s(span/float64(w.completion-1))
					if w.unbiased > 0 {
						expected.Unbiased = s(w.unbiased / span)
					}
				}
				if d := cmp.Diff(expected, got, cmpopts.EquateApprox(1e-9, 0)); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				nulls := map[string]account.Null{}
				for _, rate := range []string{"decode_tps", "decode_unbiased_tps", "tpot_s"} {
					if why, ok := n.Nulls[rate]; ok {
						nulls[rate] = why
					}
				}
				if d := cmp.Diff(w.nulls, nulls, cmpopts.EquateEmpty()); d != "" {
					t.Errorf("nulls (-want +got):\n%s", d)
				}
				again(t, f, n)
			})
		})
	}
}

// count is a number of tokens; nil for -1.
func count(v int64) *int64 {
	if v < 0 {
		return nil
	}
	return &v
}
