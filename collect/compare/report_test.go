package compare_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/collect"
	"cpbench/collect/compare"
	"cpbench/collect/compare/cell"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// TestPairsOfOneAllocation: what was run again later shares no allocation with its partner, and a few pairs do not stand
// for many units.
func TestPairsOfOneAllocation(t *testing.T) {
	t.Parallel()
	again := func(from int) world { // starts of B that were run again
		return world{
			value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Start*3+p.Nth()) },
			touch: func(p plan.Pair, st plan.Setting, r *result.Result) {
				if st.Serving.Group.Label == "B" && p.Start >= from {
					r.Attempt = 2
				}
			},
		}
	}
	for _, tt := range []struct {
		from   int
		method string
		shared int
	}{{5, "paired by start in one task", 4}, {4, "paired by start in one task", 3}, {3, "Welch", 2}, {1, "Welch", 0}} {
		r := compared(t, one(again(tt.from).fill(t, newRun(t, llm))), nil, compare.Options{By: "label"})
		if c := r.Rows[0].Cells[0]; c.Method != tt.method || r.Order.Shared != tt.shared {
			t.Errorf("again from start %d on: %s, %d tasks with both; want %s, %d", tt.from, c.Method, r.Order.Shared, tt.method, tt.shared)
		}
	}
}

// TestNothingGood: rows that both sides have, and in which one side has no good execution, compare nothing.
func TestNothingGood(t *testing.T) {
	t.Parallel()
	a := steps(0.1).fill(t, newRun(t, model))
	w := steps(0.1)
	w.begin = stamp.Add(time.Hour)
	w.touch = func(_ plan.Pair, _ plan.Setting, r *result.Result) { r.Outcome, r.Reason = catalogue.Error, "cut" }
	if r := compared(t, one(a), one(w.fill(t, newRun(t, model))), compare.Options{}); r.Comparable() || len(r.Rows) != 4 {
		t.Errorf("%d rows, comparable %v", len(r.Rows), r.Comparable())
	}
}

// TestStates: an execution that the scheduler's word takes out of the table is in no mean here either.
func TestStates(t *testing.T) {
	t.Parallel()
	a := steps(0.1).fill(t, newRun(t, model))
	w := steps(0.1)
	w.begin = stamp.Add(time.Hour)
	b := w.fill(t, newRun(t, model))
	killed := func(run *folder.Run, _, task int, files collect.State) collect.State {
		if run.Dir == b.Dir && task == 0 {
			files.Word, files.Attempt = "OUT_OF_MEMORY", 1
		}
		return files
	}
	r := compared(t, one(a), one(b), compare.Options{States: killed})
	if bad := r.B.Executions - r.B.Good; bad == 0 || r.A.Executions != r.A.Good {
		t.Errorf("%d of %d are good", r.B.Good, r.B.Executions)
	}
}

// TestNoAnswer: the first text of the answer has a table of its own where it differs from the first of all, or never came.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for without, want := range map[string]bool{"": false, "B": true} {
		w := world{
			value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Repeat) },
			touch: func(_ plan.Pair, st plan.Setting, r *result.Result) {
				if st.Serving.Group.Label != without {
					r.Set(catalogue.FirstVisibleSeconds, *r.Metrics[catalogue.TTFTSeconds])
				}
			},
		}
		r := compared(t, one(w.fill(t, newRun(t, llm))), nil, compare.Options{By: "label"})
		if got := slices.ContainsFunc(r.Metrics, func(m compare.Sum) bool { return m.Metric == catalogue.FirstVisibleSeconds }); got != want {
			t.Errorf("no answer of %q: its time is compared: %v", without, got)
		}
	}
}

// TestEmptyLists: a list of the JSON form is one even if it is empty.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	text := strings.Replace(model, "tokens: [64, 128]", "", 1) // the only axis is under test
	text = strings.NewReplacer("[1, 4], }", "[1, 4]}", "point: {tokens: tokens}, ", "").Replace(text)
	a := steps(0.1).fill(t, newRun(t, text))
	w := steps(0.1)
	w.begin = stamp.Add(time.Hour)
	both := compared(t, one(a), one(w.fill(t, newRun(t, text))), compare.Options{})
	for want, r := range map[string]*compare.Report{
		`"axes":[],"a":`: compared(t, one(a), nil, compare.Options{By: "cp"}), `"under_test":[],"differs":[],"accepted":[],"beside":[],`: both, `"single":[],`: both,
	} {
		data, err := json.Marshal(r)
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s (%v)", want, data, err)
		}
	}
}

// TestWordsOfMany: the number in a footnote of many rows is that of one of them, and the note says so.
func TestWordsOfMany(t *testing.T) {
	t.Parallel()
	w := steps(0.1)
	w.touch = func(p plan.Pair, st plan.Setting, r *result.Result) {
		r.Warn(catalogue.Drift, fmt.Sprintf("%d %% at %d ranks", p.Repeat, st.Ranks), "")
		r.Warn(catalogue.Unsteady, fmt.Sprintf("%d ranks", st.Ranks), "")
	}
	notes := fmt.Sprint(compared(t, one(w.fill(t, newRun(t, model))), nil, compare.Options{By: "cp"}).Notes)
	for _, want := range []string{"cp=1: for instance 1 % at 1 ranks", "cp=4: for instance 1 % at 4 ranks", "cp=1: 1 ranks"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %s", want, notes)
		}
	}
}

// TestOneStart: repeats within a start are no starts, and the note says what would be.
func TestOneStart(t *testing.T) {
	t.Parallel()
	w := world{value: func(p plan.Pair, _ plan.Setting) float64 { return 0.2 * jitter(p.Nth()) }}
	text := strings.NewReplacer("starts: 4", "starts: 1", "repeats: 2", "repeats: 5").Replace(llm)
	r := compared(t, one(w.fill(t, newRun(t, text))), nil, compare.Options{By: "label"})
	const want = "A: n=1 is no evidence of repeatability, since a single start of the server has all repeats"
	if row := r.Rows[0]; row.A.Good != 5 || row.Cells[0].Verdict != cell.TooFew || !strings.Contains(fmt.Sprint(r.Notes), want) {
		t.Errorf("%+v, %s, notes %v", row.A, row.Cells[0].Verdict, r.Notes)
	}
}
