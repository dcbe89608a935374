package model

import (
	"context"
	"fmt"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// fill writes down what is asked of the execution.
func (e *execution) fill(r *result.Result) {
	size := func(name string) *int64 {
		if n, ok := e.setting.Point[name].(int); ok {
			v := int64(n)
			return &v
		}
		return nil
	}
	r.Sizes = result.Sizes{Tokens: size("tokens"), Atoms: size("atoms"), MSA: size("msa"), Ranks: e.setting.Ranks, Topology: e.setting.Topology}
}

// coldPeaks writes the peaks since the start of the processes, which decide whether a size fits.
func (e *execution) coldPeaks(r *result.Result) {
	r.Metrics[catalogue.PeakAllocatedBytes] = e.peak(true, allocated)
	r.Metrics[catalogue.PeakReservedBytes] = e.peak(true, reserved)
	r.Metrics[catalogue.PeakDeviceBytes] = e.peak(true, device)
}

// warmPeaks writes the peaks of the timed steps, which describe the running model.
func (e *execution) warmPeaks(r *result.Result) {
	r.Metrics[catalogue.WarmAllocatedBytes] = e.peak(false, allocated)
}

// peak is the maximum over the ranks, nil where a rank did not measure it.
func (e *execution) peak(cold bool, of func(protocol.Peak) *int64) *float64 {
	var most *float64
	for _, m := range e.memory {
		if m == nil {
			return nil
		}
		p := m.Warm
		if cold {
			p = m.Cold
		}
		v := of(p)
		if v == nil {
			return nil
		}
		if f := float64(*v); most == nil || f > *most {
			most = &f
		}
	}
	return most
}

func allocated(p protocol.Peak) *int64 { return p.Allocated }
func reserved(p protocol.Peak) *int64  { return p.Reserved }
func device(p protocol.Peak) *int64    { return p.Device }

// capacity is the memory that every rank may use: the least over the ranks; nil if one did not say.
func (e *execution) capacity() *float64 {
	var least *float64
	for _, h := range e.hello {
		if h == nil || h.Device.TotalBytes == nil {
			return nil
		}
		if f := float64(*h.Device.TotalBytes); least == nil || f < *least {
			least = &f
		}
	}
	return least
}

// figures keeps the program's own figures, each from the lowest rank that told it, as last told.
func (e *execution) figures(r *result.Result) {
	at := map[string]int{}
	for _, byRank := range e.own {
		for _, f := range byRank {
			if _, ok := at[f.Name]; ok {
				continue
			}
			at[f.Name] = len(r.Extra)
			r.Extra = append(r.Extra, result.Figure{Name: f.Name, Value: f.Value, Unit: f.Unit})
		}
	}
}

// close ends the execution: by stop if all went well, else at once. Afterwards none of its processes is left.
func (e *execution) close(end ending, r *result.Result) {
	if end.outcome == "" {
		e.tell(&protocol.Stop{})
		e.waitGone()
	}
	if e.listen != nil {
		e.listen.Close() // no more ranks are expected
	}
	rep, err := tree.Kill(context.Background(), tree.DefaultGrace)
	close(e.done)
	for _, rank := range e.ranks {
		if rank != nil && rank.conn != nil {
			rank.conn.Close() // the process is gone
		}
	}
	e.s.job.Log.Info("closed", "told", rep.Told, "killed", rep.Killed, "seconds", rep.Duration.Seconds())
	if err != nil {
		r.Warn(catalogue.LateKill, err.Error(), "look for processes in an uninterruptible state")
	} else if rep.Killed > 0 {
		r.Warn(catalogue.LateKill, fmt.Sprintf("%d processes ignored TERM and had to be killed", rep.Killed), "")
	}
}

// waitGone gives the ranks time to end by themselves after stop.
func (e *execution) waitGone() {
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	for !e.allGone() {
		select {
		case <-timer.C:
			return
		case ev := <-e.events:
			e.note(ev)
		}
	}
}
