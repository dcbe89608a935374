package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/collect"
	"cpbench/collect/picture"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"

	"github.com/google/go-cmp/cmp"
)

// still is a picture of executions of a run with one axis.
func still(pairs ...collect.Pair) *picture.Picture {
	run := &folder.Run{Dir: "/runs/s-20261130T120000Z", Plan: &plan.Plan{Axes: []plan.Axis{{Name: "n"}}, Spec: &plan.Spec{Repeats: 1}}}
	for i := range pairs {
		pairs[i].Point = plan.Point{ID: fmt.Sprintf("%016x", i), Values: []string{fmt.Sprint(i)}}
		pairs[i].Run = run
	}
	return &picture.Picture{Run: run, Taken: time.Now(), Set: &collect.Set{Runs: []*folder.Run{run}, Pairs: pairs}}
}

func pair(o catalogue.Outcome, reason string) collect.Pair {
	return collect.Pair{Outcome: o, Reason: reason}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		p    *picture.Picture
		want error
	}{
		"all well":          {still(pair(catalogue.OK, ""), pair(catalogue.Skipped, "above"), pair(catalogue.OOMDevice, "an answer")), nil},
		"one still runs":    {still(pair(catalogue.Running, ""), pair(catalogue.Error, "")), nil},
		"one failed":        {still(pair(catalogue.OK, ""), pair(catalogue.Timeout, "")), errIncomplete},
		"one never went in": {still(pair(catalogue.Missing, "")), errIncomplete},
	} {
		if got := ending(tt.p); !errors.Is(got, tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNextSteps(t *testing.T) {
	t.Parallel()
	const logs, missing, failed = "hint: what a point has said: cpbench logs n=1 --run /runs/", "hint: run what is missing: cpbench submit --run /runs/", "hint: what has failed, once more: cpbench submit --run /runs/"
	for name, tt := range map[string]struct {
		p    *picture.Picture
		open bool
		want []string
	}{
		"all well":               {still(pair(catalogue.OK, ""), pair(catalogue.OOMDevice, "")), false, nil},
		"failed":                 {still(pair(catalogue.OK, ""), pair(catalogue.Error, "")), false, []string{logs, failed}},
		"lost its node":          {still(pair(catalogue.OK, ""), pair(catalogue.Infra, "")), false, []string{logs, missing}},
		"failed, others run":     {still(pair(catalogue.Running, ""), pair(catalogue.Error, "")), true, []string{logs}},
		"cancelled":              {still(pair(catalogue.OK, ""), pair(catalogue.Cancelled, "")), false, []string{missing}},
		"missing, and will wait": {still(pair(catalogue.Missing, ""), pair(catalogue.Pending, "")), false, []string{missing}},
	} {
		var out strings.Builder
		nextSteps(voice{&out}, tt.p.Set, tt.open)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if out.Len() == 0 {
			lines = nil
		}
		if !cmp.Equal(len(lines), len(tt.want)) {
			t.Errorf("%s: %q", name, lines)
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(lines[i], "cpbench: "+want) {
				t.Errorf("%s: %q, want %q", name, lines[i], want)
			}
		}
	}
}

// TestFit: a picture that is larger than the terminal loses its end, not its beginning, and no line wraps.
func TestFit(t *testing.T) {
	t.Parallel()
	size := func(columns, rows int) func() (int, int) { return func() (int, int) { return columns, rows } }
	for _, tt := range []struct {
		text          string
		columns, rows int
		want          string
	}{
		{"ä b c\nd\n", 5, 3, "ä b c\nd\n"},
		{"ä b c d\ne\n", 5, 3, "ä b …\ne\n"},
		{"1\n2\n3\n4\n", 80, 5, "1\n2\n3\n4\n"},
		{"1\n2\n3\n4\n5\n", 80, 5, "1\n2\n3\n... 2 more lines: cpbench status shows them\n"},
		{"1\n2\n3\n", 0, 0, "1\n2\n3\n"}, // it does not tell
	} {
		if got := fit(tt.text, size(tt.columns, tt.rows)); got != tt.want {
			t.Errorf("%q in %d x %d: %q, want %q", tt.text, tt.columns, tt.rows, got, tt.want)
		}
	}
}

// TestWatch has Slurm fall silent in the second of three looks: the first picture stays, with its age.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running, done := collect.Pair{Outcome: catalogue.Running, Reason: "on n1"}, pair(catalogue.Error, "exit 1")
		var at []time.Duration
		began := time.Now()
		look := func(context.Context) (*picture.Picture, error) {
			at = append(at, time.Since(began))
			switch len(at) {
			case 1:
				return still(running), nil
			case 2:
				p := still(pair(catalogue.Missing, "running or killed"))
				p.Silent = errors.New("no controller")
				return p, nil
			case 3:
				return nil, errors.New("the file system is away")
			}
			return still(done), nil
		}
		var out bytes.Buffer
		if err := watch(t.Context(), &screen{out: &out, size: func() (int, int) { return 120, 40 }}, look); !errors.Is(err, errIncomplete) {
			t.Errorf("%v", err)
		}
		if diff := cmp.Diff([]time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute}, at); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
		screens := strings.Split(out.String(), "\x1b[H\x1b[2J")
		if len(screens) != 5 {
			t.Fatalf("%d screens: %q", len(screens)-1, screens)
		}
		for i, want := range [][]string{
			1: {"1 running", "running (1): on n1"},
			2: {", 1m0s ago; there is no newer answer: no controller\n", "1 running"},
			3: {", 2m0s ago; there is no newer answer: the file system is away\n", "1 running"},
			4: {"1 error"},
		} {
			for _, text := range want {
				if !strings.Contains(screens[i], text) {
					t.Errorf("screen %d lacks %q: %q", i, text, screens[i])
				}
			}
		}
	})
}

func TestWatchIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		var out bytes.Buffer
		err := watch(ctx, &screen{out: &out}, func(context.Context) (*picture.Picture, error) { return still(pair(catalogue.Running, "")), nil })
		if !errors.Is(err, errInterrupted) || strings.Count(out.String(), "1 running") != 2 || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%v, %q", err, out.String())
		}
	})
}
