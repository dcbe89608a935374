package model

import (
	"context"

	"cpbench/plan"
	"cpbench/worker/gpu"
	"cpbench/worker/model/ranks"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
)

// ready looks at the GPUs before the ranks of a setting start, and writes down what is known of them.
func (s *session) ready(ctx context.Context, setting plan.Setting, r *result.Result) ranks.Ending {
	nodes := setting.Resources.Nodes
	p := s.gpus.Ready(ctx, nodes, setting.Ranks/nodes)
	s.gpus.Enter(r, nodes)
	return ending(p)
}

// claimed compares what the ranks say of their devices with the devices that are there. What a rank says of its memory
// may be a limit below that of the device.
func (s *session) claimed(set *ranks.Set) ranks.Ending {
	var claims []gpu.Claim
	for i, rank := range set.Ranks {
		claims = append(claims, gpu.Claim{Rank: i, Name: rank.Hello.Device.Name, UUID: rank.Hello.Device.UUID})
	}
	return ending(s.gpus.Claimed(set.Nodes(), claims))
}

func ending(p *telemetry.Problem) ranks.Ending {
	if p == nil {
		return ranks.Ending{}
	}
	return ranks.Ending{Outcome: p.Outcome, Reason: p.Reason, Evidence: p.Evidence}
}
