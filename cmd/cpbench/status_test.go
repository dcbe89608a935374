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
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"

	"github.com/google/go-cmp/cmp"
)

// still is a picture of executions of a run with one axis.
func still(pairs ...collect.Pair) *picture {
	run := &folder.Run{Dir: "/runs/s-20261130T120000Z", Plan: &plan.Plan{Axes: []plan.Axis{{Name: "n"}}, Spec: &plan.Spec{Repeats: 1}}}
	for i := range pairs {
		pairs[i].Point = plan.Point{ID: fmt.Sprintf("%016x", i), Values: []string{fmt.Sprint(i)}}
	}
	asked := remember(nil)
	return &picture{run: run, taken: time.Now(), set: &collect.Set{Pairs: pairs}, asked: asked}
}

func pair(o catalogue.Outcome, reason string) collect.Pair {
	return collect.Pair{Outcome: o, Reason: reason}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	var pairs []collect.Pair
	for i := range 3000 {
		pairs = append(pairs, pair(catalogue.Running, fmt.Sprintf("on n%d at 2026-11-30T12:00:%02dZ", i%7, i%60)))
	}
	for i := range 5 { // one more than is named: it is named too, as a line says no less
		pairs = append(pairs, pair(catalogue.Error, fmt.Sprintf("exit %d on n1 at 2026-11-30T12:00:00Z: core dumped", i)))
	}
	pairs = append(pairs,
		pair(catalogue.Pending, "will not start: too long (PartitionTimeLimit)"),
		pair(catalogue.Pending, "jobs of higher priority come first (Priority)"),
		pair(catalogue.OK, ""), pair(catalogue.Lost, "ended, no result written"), pair("novel", "of a later version"))
	p := still(pairs...)
	p.asked.advice["too long (PartitionTimeLimit)"] = "ask for less"
	tests := map[string]struct {
		o    statusOptions
		want string
	}{
		"as it is": {statusOptions{}, `3010 executions: 1 ok, 3000 running, 2 pending, 5 error, 1 lost, 1 novel

pending (1): will not start: too long (PartitionTimeLimit)
  to do: ask for less
  n=3005

running (3000)
  n=0   on n0 since 2026-11-30T12:00:00Z
  n=1   on n1 since 2026-11-30T12:00:01Z
  n=2   on n2 since 2026-11-30T12:00:02Z
  n=3   on n3 since 2026-11-30T12:00:03Z
  and 2996 more

pending (1): jobs of higher priority come first (Priority)
  n=3006

error (5): exit 0: core dumped
  n=3000   on n1 since 2026-11-30T12:00:00Z
  n=3001   on n1 since 2026-11-30T12:00:00Z
  n=3002   on n1 since 2026-11-30T12:00:00Z
  n=3003   on n1 since 2026-11-30T12:00:00Z
  n=3004   on n1 since 2026-11-30T12:00:00Z

lost (1): ended, no result written
  n=3008

novel (1): of a later version
  n=3009
`},
		"failed": {statusOptions{failed: true}, `3010 executions: 1 ok, 3000 running, 2 pending, 5 error, 1 lost, 1 novel

pending (1): will not start: too long (PartitionTimeLimit)
  to do: ask for less
  n=3005

error (5): exit 0: core dumped
  n=3000   on n1 since 2026-11-30T12:00:00Z
  n=3001   on n1 since 2026-11-30T12:00:00Z
  n=3002   on n1 since 2026-11-30T12:00:00Z
  n=3003   on n1 since 2026-11-30T12:00:00Z
  n=3004   on n1 since 2026-11-30T12:00:00Z

lost (1): ended, no result written
  n=3008

novel (1): of a later version
  n=3009
`},
	}
	for name, tt := range tests {
		var out bytes.Buffer
		if err := p.write(&out, &tt.o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var out bytes.Buffer
	if err := p.write(&out, &statusOptions{all: true}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n  n="); n != len(pairs) {
		t.Errorf("--all names %d of %d", n, len(pairs))
	}
}

func TestPictureVerdict(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		p    *picture
		open bool
		want error
	}{
		"all well":          {still(pair(catalogue.OK, ""), pair(catalogue.Skipped, "above"), pair(catalogue.OOMDevice, "an answer")), false, nil},
		"one still runs":    {still(pair(catalogue.Running, ""), pair(catalogue.Error, "")), true, nil},
		"one waits":         {still(pair(catalogue.Pending, "Priority"), pair(catalogue.Lost, "")), true, nil},
		"one never starts":  {still(pair(catalogue.OK, ""), pair(catalogue.Pending, willNotStart+"too long")), false, errIncomplete},
		"one failed":        {still(pair(catalogue.OK, ""), pair(catalogue.Timeout, "")), false, errIncomplete},
		"one never went in": {still(pair(catalogue.Missing, "")), false, errIncomplete},
	} {
		if got := tt.p.verdict(); !errors.Is(got, tt.want) || tt.p.open() != tt.open {
			t.Errorf("%s: %v, open %v", name, got, tt.p.open())
		}
	}
}

// TestWatch has Slurm fall silent in the second of three looks: the first picture stays, with its age.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running, done := pair(catalogue.Running, "on n1 at 2026-11-30T12:00:00Z"), pair(catalogue.Error, "exit 1")
		var at []time.Duration
		began := time.Now()
		look := func(context.Context) (*picture, error) {
			at = append(at, time.Since(began))
			switch len(at) {
			case 1:
				return still(running), nil
			case 2:
				p := still(pair(catalogue.Missing, "running or killed"))
				p.asked.err = errors.New("no controller")
				return p, nil
			case 3:
				return nil, errors.New("the file system is away")
			}
			return still(done), nil
		}
		var out bytes.Buffer
		if err := watch(t.Context(), &out, true, &statusOptions{}, look); !errors.Is(err, errIncomplete) {
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
			1: {"1 running", "on n1 since 2026-11-30T12:00:00Z"},
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
		err := watch(ctx, &out, false, &statusOptions{}, func(context.Context) (*picture, error) { return still(pair(catalogue.Running, "")), nil })
		if !errors.Is(err, errInterrupted) || strings.Count(out.String(), "1 running") != 2 || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%v, %q", err, out.String())
		}
	})
}
