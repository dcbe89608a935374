package ranks

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker"
	"cpbench/worker/model/protocol"
	"cpbench/worker/node"
)

const second = time.Second

// waiting is a set of ranks without processes, of which a test says what they send.
func waiting(ctx context.Context, world int, heartbeat time.Duration) *Set {
	s := &Set{events: make(chan event, 100), nodes: node.Open(node.Config{})}
	s.over, s.end = context.WithCancel(ctx)
	s.job = worker.Job{Run: &folder.Run{Plan: &plan.Plan{Spec: &plan.Spec{Workload: plan.Workload{Heartbeat: plan.Duration(heartbeat)}}}}}
	for range world {
		s.Ranks = append(s.Ranks, &Rank{})
	}
	return s
}

func (s *Set) says(after time.Duration, rank int, m protocol.Message) {
	time.AfterFunc(after, func() { s.send(event{rank: rank, msg: m, at: time.Now()}) })
}

// beats lets a rank give a sign of life each second, with so many steps that have ended, from one moment to another.
func (s *Set) beats(rank int, where string, done int, from, to time.Duration) {
	for at := from; at < to; at += second {
		s.says(at, rank, &protocol.Alive{Where: where, Done: &done})
	}
}

// How long steps are waited for, to the nanosecond, and what is said then.
func TestVigil(t *testing.T) {
	steps := &protocol.Steps{Seconds: []float64{1}}
	const forever, heartbeat = 1000 * second, 10 * second
	tests := []struct {
		name      string
		heartbeat time.Duration
		patience  Patience
		script    func(s *Set)
		outcome   catalogue.Outcome // empty: all have answered
		reason    string
		evidence  string
		took      time.Duration
	}{
		{
			name: "a rank falls silent", heartbeat: heartbeat,
			script: func(s *Set) {
				s.beats(0, "a.py:1 f", 0, 0, forever)
				s.beats(1, "a.py:2 g", 0, 0, 21*second)
			},
			outcome: catalogue.Hang, reason: "rank 1 has given no sign of life for 10s", took: 30 * second,
			evidence: "no answer yet from rank 0, 1\nrank 0: for 30s in a.py:1 f, 0 steps done\nrank 1: for 30s in a.py:2 g, 0 steps done, silent for 10s",
		},
		{
			name: "it has answered before", heartbeat: heartbeat,
			script: func(s *Set) {
				s.beats(0, "", 0, 0, 100*second)
				s.beats(1, "", 0, 0, 3*second)
				s.says(5*second, 1, steps)
				s.says(60*second, 0, steps)
			},
			took: 60 * second,
		},
		{
			name: "nobody gives signs of life", heartbeat: heartbeat, patience: Patience{Stall: 20 * second},
			script: func(s *Set) {
				s.says(500*second, 0, steps)
				s.says(600*second, 1, steps)
			},
			took: 600 * second,
		},
		{
			name: "silence is no hang", patience: Patience{},
			script: func(s *Set) {
				s.beats(0, "", 0, 0, 3*second)
				s.says(500*second, 0, steps)
				s.says(500*second, 1, steps)
			},
			took: 500 * second,
		},
		{
			name: "no step ends", heartbeat: heartbeat, patience: Patience{Stall: 40 * second},
			script: func(s *Set) {
				s.beats(0, "dist.py:9 all_gather", 2, 0, forever)
				s.beats(1, "my.py:7 run_step", 1, 0, 30*second)
				s.beats(1, "my.py:8 run_step", 1, 30*second, forever)
			},
			outcome: catalogue.Hang, reason: "all ranks are alive, but no step has ended for 40s", took: 40 * second,
			evidence: "no answer yet from rank 0, 1\nrank 0: for 40s in dist.py:9 all_gather, 2 steps done\nrank 1: for 10s in my.py:8 run_step, 1 step done",
		},
		{
			name: "steps end now and then", heartbeat: heartbeat, patience: Patience{Stall: 40 * second},
			script: func(s *Set) {
				s.beats(0, "", 1, 0, 35*second)
				s.beats(0, "", 2, 35*second, 100*second)
				s.beats(1, "", 1, 0, 100*second)
				s.says(70*second, 0, steps)
				s.says(100*second, 1, steps)
			},
			took: 100 * second,
		},
		{
			name: "not all are known to be alive", heartbeat: heartbeat, patience: Patience{Stall: 40 * second},
			script: func(s *Set) {
				s.beats(0, "", 1, 0, 300*second)
				s.says(300*second, 0, steps)
				s.says(300*second, 1, steps)
			},
			took: 300 * second,
		},
		{
			name: "far too slow", heartbeat: heartbeat, patience: Patience{Slow: 25 * second},
			script:  func(*Set) {},
			outcome: catalogue.Slow, reason: "no step has ended for 25s, which is far over workload.slow_after", took: 25 * second,
			evidence: "no answer yet from rank 0, 1",
		},
		{
			name: "a word about memory counts more", heartbeat: heartbeat, patience: Patience{Stall: 40 * second},
			script: func(s *Set) {
				s.beats(0, "", 0, 0, forever)
				s.beats(1, "", 0, 0, 30*second)
				s.says(30*second, 1, &protocol.OOM{Text: "CUDA out of memory", Where: "step"})
			},
			outcome: catalogue.OOMDevice, reason: "rank 1 ran out of memory in step", evidence: "CUDA out of memory", took: 30 * second,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := waiting(t.Context(), 2, tt.heartbeat)
				defer s.end()
				tt.script(s)
				began := time.Now()
				got, end := answers[*protocol.Steps](t.Context(), s, tt.patience)
				if took := time.Since(began); end.Outcome != tt.outcome || end.Reason != tt.reason || took != tt.took {
					t.Errorf("%s: %q after %v, want %s: %q after %v", end.Outcome, end.Reason, took, tt.outcome, tt.reason, tt.took)
				}
				if end.Evidence != tt.evidence {
					t.Errorf("evidence\n%s\nwant\n%s", end.Evidence, tt.evidence)
				}
				if end.OK() != (len(got) == 2) {
					t.Errorf("%d answers", len(got))
				}
			})
		})
	}
}

// A wait that is over much too late was not the ranks' doing: this process was stopped itself, and waits once more.
func TestVigilOfAStoppedWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := waiting(t.Context(), 1, 10*second)
		defer s.end()
		v := s.vigil(Patience{Stall: 20 * second})
		v.sign(0, &protocol.Alive{})
		s.Ranks[0].heard = time.Now()
		first := v.next()
		time.Sleep(14 * second)
		if v.late(first) {
			t.Error("4 s too late in 10 s count as a stop")
		}
		time.Sleep(2 * second)
		if !v.late(first) {
			t.Error("6 s too late in 10 s do not count as a stop")
		}
		if again := v.next(); !again.at.Equal(time.Now().Add(10 * second)) {
			t.Errorf("the next limit is in %v, want 10 s", time.Until(again.at))
		}
	})
}

// Many ranks at a few places are a few lines, the rarest place last.
func TestPositionsOfManyRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := waiting(t.Context(), 64, 0)
		defer s.end()
		v := s.vigil(Patience{})
		for i := range s.Ranks {
			where := "distributed_c10d.py:2501 all_gather, hooks.py:52 run_step"
			if i == 40 {
				where = "hooks.py:41   build_batch\n" + strings.Repeat("x", 1000)
			}
			v.sign(i, &protocol.Alive{Where: where})
		}
		v.answer(7)
		time.Sleep(12 * second)
		lines := strings.Split(v.positions(), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[2], "rank 40: for 12s in hooks.py:41 build_batch xxx") || len(lines[2]) > 200 ||
			lines[1] != "rank 0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 46 more: for 12s in distributed_c10d.py:2501 all_gather, hooks.py:52 run_step" {
			t.Errorf("%q", lines)
		}
	})
}
