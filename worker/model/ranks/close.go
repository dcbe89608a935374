package ranks

import (
	"context"
	"fmt"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// stopGrace is how long ranks have to end by themselves after stop.
const stopGrace = 10 * time.Second

// Close ends the ranks: by stop if all went well, else at once. Afterwards nothing of them is left: no process, no
// connection, no goroutine. What could not be ended in time is a warning in r.
func (s *Set) Close(ctx context.Context, end Ending, r *result.Result) {
	if end.OK() {
		s.Tell(ctx, &protocol.Stop{})
		s.waitGone(ctx)
	}
	if s.listen != nil {
		s.listen.Close() // no more ranks are expected
	}
	rep, err := tree.Kill(context.Background(), tree.DefaultGrace) // also when ctx has ended
	s.end()
	s.talkers.Wait()
	s.job.Log.Info("closed", "told", rep.Told, "killed", rep.Killed, "seconds", rep.Duration.Seconds())
	if err != nil {
		r.Warn(catalogue.LateKill, err.Error(), "look for processes in an uninterruptible state")
	} else {
		s.watchers.Wait() // else waiting for them could take for ever
		if rep.Killed > 0 {
			r.Warn(catalogue.LateKill, fmt.Sprintf("%d processes ignored TERM and had to be killed", rep.Killed), "")
		}
	}
	s.nodes.CleanUp(context.Background(), s.Nodes(), s.mark()) // what a job step has left, which is no descendant of the worker
}

// waitGone gives the ranks time to end by themselves after stop. Their work is done and judged: what goes wrong now
// is only logged.
func (s *Set) waitGone(ctx context.Context) {
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	for !s.allGone() {
		select {
		case <-timer.C:
			s.job.Log.Warn("ranks did not end after stop")
			return
		case <-ctx.Done():
			return
		case ev := <-s.events:
			s.note(ev)
			if ev.ended != nil && ev.exit != nil && !ev.exit.Success() {
				s.job.Log.Warn("after stop", "process", ev.ended.name, "exit", ev.exit.String())
			}
		}
	}
}
