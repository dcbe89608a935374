package llm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/account"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/health"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/server"
	"cpbench/worker/result"
)

// report is a group of streams with these outcomes.
func report(outcomes ...account.Outcome) *group.Report {
	rep := &group.Report{Health: health.Health{Verdict: health.OK}, Delta: &scrape.Delta{}}
	var records []account.Record
	for i, o := range outcomes {
		record := account.Record{Numbers: account.Numbers{Outcome: o, CountSource: account.ServerUsage}}
		if o != account.Success {
			record.Numbers.Reason = account.HTTPStatus
			record.Facts.Failure = &account.Failure{Reason: account.HTTPStatus, Text: "try later"}
		}
		records = append(records, record)
		line := group.Line{Record: record}
		line.Request.Prompt.SHA256 = fmt.Sprint(i)
		rep.Lines = append(rep.Lines, line)
	}
	rep.Group = account.Sum(records)
	return rep
}

func TestJudge(t *testing.T) {
	t.Parallel()
	invalid := report(account.Success)
	invalid.Invalid = []group.Reason{{Word: group.Contaminated, Text: "one"}, {Word: group.CacheLabel, Text: "two"}}
	failedToo := report(account.Success, account.Failed)
	failedToo.Invalid = invalid.Invalid
	refused := &group.Report{Invalid: []group.Reason{{Word: group.NotIdle, Text: "busy"}}}
	for name, c := range map[string]struct {
		rep  *group.Report
		err  error
		want ending
	}{
		"good":                        {report(account.Success, account.Success), nil, ending{}},
		"refused":                     {refused, nil, ending{catalogue.Invalid, "not_idle", "busy"}},
		"invalid":                     {invalid, nil, ending{catalogue.Invalid, "contaminated", "one; two"}},
		"a failed stream comes first": {failedToo, nil, ending{catalogue.Error, "1 of 2 streams failed: http_status", "try later"}},
		"metrics do not answer":       {&group.Report{}, errors.New("no route"), ending{catalogue.Error, "the group could not be carried out", "no route"}},
		"the server died": {
			report(account.Failed), fmt.Errorf("stopped: %w", &server.Dead{What: "the server ended: exit status 9", Tail: "CUDA error"}),
			ending{catalogue.Error, "the server ended: exit status 9", "CUDA error"},
		},
	} {
		if d := cmp.Diff(c.want, judge(c.rep, c.err), cmp.AllowUnexported(ending{})); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Every doubt of a group is a warning of its result, under a word of the catalogue.
func TestWarnings(t *testing.T) {
	t.Parallel()
	rep := report(account.Success)
	five, six := 5, int64(6)
	two := 2.0
	rep.Lines[0].Request.Prompt.Tokens, rep.Lines[0].Record.Numbers.PromptTokens = &five, &six
	rep.Lines = append(rep.Lines, group.Line{Record: account.Record{Facts: account.Facts{Retokenized: &account.Retokenized{}}}})
	rep.Health = health.Health{Verdict: health.Bound, Reasons: []string{"the client used 99 % of its processors"}}
	rep.Client = []string{"HTTP_PROXY is set and not used"}
	rep.Group.Warnings = []account.Warning{{Code: account.WarnNoDone, Text: "the server sent no [DONE] (1 of 1 streams)"}}
	rep.Lines[0].Record.Facts.Conn = account.Conn{Count: 1, ConnectNS: 2e6}
	rep.Group.Nulls = 1
	rep.Cache.Doubt = "nothing tells"
	rep.Audit.Verdict = scrape.Unaudited
	rep.Delta.Preempted = &two
	rep.Speculation.Lifetime = &scrape.Lifetime{AcceptRate: &two}
	r := &result.Result{}
	fill(r, rep, plan.Setting{Serving: &plan.Serving{}})
	doubt(r, preflight.Finding{Check: preflight.Reasoning, Grade: preflight.Warn, Text: "no reasoning came"})
	var got []string
	for _, w := range r.Warnings {
		got = append(got, string(w.Code))
	}
	want := "client_bound no_done proxy_set connected_late cache_unverified unaudited preempted speculation null_ttft prompt_mismatch retokenized preflight"
	if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
		t.Error(d)
	}
	if r.Group.Client != "client_bound" || r.Group.Streams != 1 || r.Metrics[catalogue.TTFTSeconds] != nil {
		t.Errorf("%+v %v", r.Group, r.Metrics)
	}
}

// TestPromptsRepeat: streams that send the same prompt warm each other on a server without salts.
func TestPromptsRepeat(t *testing.T) {
	t.Parallel()
	for hashes, want := range map[string]string{"a b": "", "a": "", "a a": "different prompts: 1, for 2 streams", "a b a": "different prompts: 2, for 3 streams"} {
		words := strings.Fields(hashes)
		rep := report(slices.Repeat([]account.Outcome{account.Success}, len(words))...)
		for i, w := range words {
			rep.Lines[i].Request.Prompt.SHA256 = w
		}
		r := &result.Result{}
		fill(r, rep, plan.Setting{Serving: &plan.Serving{}})
		got := ""
		for _, w := range r.Warnings {
			if w.Code == catalogue.PromptsRepeat {
				got = w.Text
			}
		}
		if got != want {
			t.Errorf("prompts %q: %q, want %q", hashes, got, want)
		}
	}
}
