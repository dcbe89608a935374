package account_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/llmtest/visit"
)

// play sends one request to a script in virtual time.
func play(t *testing.T, s llmtest.Script, rules account.Rules) (account.Facts, account.Texts) {
	t.Helper()
	x, epoch := visit.Script(t, s)
	return account.Observe(x, epoch, rules)
}

func seconds(d time.Duration) *float64 {
	if d == llmtest.Null {
		return nil
	}
	s := d.Seconds()
	return &s
}

func codes(warnings []account.Warning) []string {
	var out []string
	for _, w := range warnings {
		out = append(out, string(w.Code))
	}
	return out
}

// TestShapes plays every shape that a real server has shown, and compares each instant exactly.
func TestShapes(t *testing.T) {
	t.Parallel()
	shapes := llmtest.Shapes()
	if len(shapes) < 50 {
		t.Fatalf("only %d shapes", len(shapes))
	}
	for _, s := range shapes {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, texts := play(t, s.Script, account.Rules{})
				n := account.Judge(f)
				var completion *int64
				if s.Want.Completion != llmtest.Null {
					v := int64(s.Want.Completion)
					completion = &v
				}
				type view struct {
					Outcome, Reason      string
					TTFT, Visible, Total *float64
					Completion           *int64
					Texts                account.Texts
					Warnings             []string
				}
				got := view{string(n.Outcome), string(n.Reason), n.TTFT, n.Visible, n.Total, n.CompletionTokens, texts, codes(n.Warnings)}
				want := view{
					s.Want.Outcome, s.Want.Reason, seconds(s.Want.TTFT), seconds(s.Want.Visible), seconds(s.Want.Total), completion,
					account.Texts{Reasoning: s.Want.Reasoning, Content: s.Want.Content, Tool: s.Want.Tool},
					s.Want.Warnings,
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s (-want +got):\n%s%+v", s.Why, d, f)
				}
				again(t, f, n)
			})
		})
	}
}

// again makes the numbers once more from the line of JSON alone.
func again(t *testing.T, f account.Facts, n account.Numbers) {
	t.Helper()
	line, err := json.Marshal(account.Record{Facts: f, Numbers: n})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(line), "hello") {
		t.Error("the record holds text")
	}
	var r account.Record
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(n, account.Judge(r.Facts)); d != "" {
		t.Errorf("from the record alone (-first +again):\n%s", d)
	}
	if d := cmp.Diff(n, r.Numbers); d != "" {
		t.Errorf("numbers changed in the file:\n%s", d)
	}
}
