package rejudge_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/account/peer"
	"cpbench/worker/llm/rejudge"
	"cpbench/worker/llm/requestlog"
)

// group is a group of one answer: a role frame, two texts and a finish frame at these milliseconds, usage and the end with
// the last one.
func group(tokens int64, ms ...int64) *requestlog.Group {
	f := account.Facts{
		Schema: account.Schema, Status: 200, Kinds: "0220ud", FrameBytes: []int{9, 9, 9, 9, 9, 9}, ReadFrames: []int{1, 1, 1, 3}, ReadBytes: []int{9, 9, 9, 27},
		Finish: "stop", Usage: &account.Usage{Completion: &tokens}, UsageFrames: []int{4}, UsageTokens: []int64{tokens}, TextBytes: [3]int{0, 8, 0},
	}
	var before int64
	for _, at := range ms {
		f.ReadNS = append(f.ReadNS, (at-before)*1e6)
		before = at
	}
	f.EndNS = before * 1e6
	r := account.Record{Facts: f, Numbers: account.Judge(f)}
	return &requestlog.Group{Requests: []requestlog.Request{{Record: r, Line: 1}}, Sum: account.Sum([]account.Record{r}), File: "requests.jsonl", Line: 2}
}

func rows() []rejudge.Row {
	return []rejudge.Row{
		{Point: "ctx=400, concurrency=1", Cache: "cold", Counted: true, Groups: []*requestlog.Group{group(3, 100, 200, 300, 400), group(1, 100, 300, 400, 500)}},
		{Point: "ctx=400, concurrency=1", Cache: "cold", Outcome: "invalid: contaminated", Groups: []*requestlog.Group{group(3, 100, 200, 300, 400)}},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	table := rejudge.Table{As: "vllm", Tool: peer.VLLM.Version(), Rows: rows()}
	rejudge.Beside(peer.VLLM, table.Rows)
	var out bytes.Buffer
	if err := table.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := `ctx=400, concurrency=1, cold, 2 groups
  figure               cpbench   vllm bench serve 0.32.0  name there               why they differ
  successful requests  1         1                        Successful requests
  TTFT, ms             250       100                      Mean TTFT                [1]
  TTFT p50, ms         250       100                      Median TTFT              [2]
  TTFT p99, ms         –         100                      P99 TTFT                 [3]
  first visible, ms    250       –                                                 [4]
  TPOT, ms             50 (n=1)  150 (n=1)                Mean TPOT                [5]
  frame gap, ms        100       116.67                   Mean ITL                 [6]
  frame gap p50, ms    100       100                      Median ITL
  frame gap max, ms    100       150                      P100 ITL                 [7]
  request, ms          450       450                      Mean E2EL
  output tokens        2         2                        Total generated tokens
  aggregate, tok/s     4.75      4.75                     Output token throughput

ctx=400, concurrency=1, cold, 1 group that cpbench does not count (invalid: contaminated)
`
	got := out.String()
	if !strings.HasPrefix(got, want) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got[:min(len(got), len(want))]))
	}
	if n := strings.Count(got, "it ends at the first frame with choices, text or not: the role frame counts\n"); n != 1 {
		t.Errorf("the reason stands there %d times\n%s", n, got)
	}
}

func TestAgain(t *testing.T) {
	t.Parallel()
	table := rejudge.Table{As: rejudge.Ours, Rows: rows()}
	table.Rows[0].Groups[1].Sum.Length = 7
	table.Rows[0].Groups[1].Requests[0].Numbers.Nulls = nil
	rejudge.Again(table.Rows)
	var got []string
	for _, p := range table.Rows[0].Changed {
		got = append(got, p.String())
	}
	want := []string{
		`requests.jsonl:1: nulls is not in the file and {"content.tps":"no_count","content.tokens":"no_count"... now`,
		"requests.jsonl:2: finish_length is 7 in the file and 0 now",
	}
	for i := range want {
		if len(got) != 2 || !strings.HasPrefix(got[i], want[i][:30]) {
			t.Errorf("%q", got)
		}
	}
	if len(table.Rows[1].Changed) > 0 {
		t.Errorf("%v", table.Rows[1].Changed)
	}
	var out bytes.Buffer
	if err := table.WriteText(&out); err != nil || !strings.Contains(out.String(), "stored  made again") && !strings.Contains(out.String(), "made again") {
		t.Errorf("%v %s", err, out.String())
	}
}

// TestMachines: CSV and JSON have base units, and nothing for what could not be had.
func TestMachines(t *testing.T) {
	t.Parallel()
	table := rejudge.Table{As: "guidellm", Tool: peer.GuideLLM.Version(), Rows: rows()[:1]}
	rejudge.Beside(peer.GuideLLM, table.Rows)
	var out bytes.Buffer
	if err := table.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"ctx=400, concurrency=1",cold,true,,2,ttft_seconds,guidellm,TTFT mean,0.25,2,0.25,2,` + "\n",
		`tpot_seconds,guidellm,ITL mean,0.05,1,0.05,1,` + "\n",
		`frame_gap_seconds,guidellm,,0.1,2,,0,it keeps no time between frames` + "\n",
		`tpot_from_start_seconds,guidellm,TPOT mean,,0,0.25,2,`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	data, err := json.Marshal(table)
	if err != nil || !strings.Contains(string(data), `{"figure":"frame_gap_seconds","cpbench":0.1,"other":null,"cpbench_n":2,"other_n":0,"why":["it keeps no time between frames"]}`) {
		t.Errorf("%v %s", err, data)
	}
}
