package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
)

// TestWarmGroupsAreRunWhole: a repeat that finds what another one has left in the cache is never run alone.
func TestWarmGroupsAreRunWhole(t *testing.T) {
	t.Parallel()
	run := newRun(t, `version: 1
name: s
repeats: 3
order: as-written
workload: {kind: llm, label: A, cache: [cold, warm], data: synth, ctx: 0, concurrency: 1, max_tokens: 5, server: {url: "http://127.0.0.1:1"}}
`)
	tasks, err := run.Tasks(0)
	if err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	for i, pair := range tasks[0].Pairs {
		if pair.Repeat != 2 { // of both points the second repeat is missing
			leave(t, run, pairAt(t, run, 0, i), 1, 0, catalogue.OK, nil)
		}
	}
	cfg := newFake(t, run).config()
	cfg.Attempt = 2
	w, err := open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	todo, err := w.todo()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pair := range todo {
		got = append(got, fmt.Sprintf("%s r%d", pair.Values[1], pair.Repeat))
	}
	slices.Sort(got)
	if text := strings.Join(got, ", "); text != "cold r2, warm r1, warm r2, warm r3" {
		t.Errorf("to do: %s", text)
	}
}
