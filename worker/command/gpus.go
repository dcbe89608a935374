package command

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/gpu"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
)

// envToken is the variable by which processes of a run are known on every node, as the ranks of a model are.
const envToken = "CPBENCH_TOKEN"

func newMark() string {
	secret := make([]byte, 16)
	rand.Read(secret) // crypto/rand never fails
	return envToken + "=" + hex.EncodeToString(secret)
}

// ready looks at the GPUs before a run, writes down what is known of them, and tells the nodes that a run begins.
func (s *session) ready(ctx context.Context, setting plan.Setting, r *result.Result) ending {
	nodes := setting.Resources.Nodes
	p := s.gpus.Ready(ctx, nodes, 0) // how many GPUs a program uses is its own affair
	s.gpus.Enter(r, nodes)
	if p != nil {
		return ending{Outcome: p.Outcome, Reason: p.Reason, Evidence: p.Evidence}
	}
	s.nodes.Begin(ctx, nodes, s.mark)
	return ending{}
}

// readings are what happened to the GPUs during the runs of one execution.
type readings struct {
	timed []telemetry.Span
	peak  *float64 // of the warm-up, which is looked at more closely
}

func (g *readings) add(span telemetry.Span, pace gpu.Pace) {
	if pace == gpu.Timed {
		g.timed = append(g.timed, span)
		return
	}
	if p := span.Peak(); p != nil && (g.peak == nil || *p > *g.peak) {
		g.peak = p
	}
}

// into writes them into the result, where the program has not told a figure itself.
func (g *readings) into(r *result.Result) {
	_, own := r.Metrics[catalogue.PeakDeviceBytes]
	telemetry.Sum(g.timed).Into(r)
	if now := r.Metrics[catalogue.PeakDeviceBytes]; !own && g.peak != nil && (now == nil || *g.peak > *now) {
		r.Metrics[catalogue.PeakDeviceBytes] = g.peak
	}
}
