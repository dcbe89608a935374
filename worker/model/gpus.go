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

// claimed compares what the ranks say of their devices with the devices that are there.
func (s *session) claimed(set *ranks.Set) ranks.Ending {
	var claims []gpu.Claim
	for i, rank := range set.Ranks {
		claim := gpu.Claim{Rank: i, Name: rank.Hello.Device.Name, UUID: rank.Hello.Device.UUID}
		if n := rank.Hello.Device.TotalBytes; n != nil {
			total := float64(*n)
			claim.TotalBytes = &total
		}
		claims = append(claims, claim)
	}
	return ending(s.gpus.Claimed(set.Nodes(), claims))
}

// unspoilt is how an execution ended, unless it ran out of memory on GPUs that somebody else uses as well.
func (s *session) unspoilt(ctx context.Context, setting plan.Setting, end ranks.Ending) ranks.Ending {
	if p := s.gpus.Spoilt(ctx, setting.Resources.Nodes, end.Outcome); p != nil {
		return ending(p)
	}
	return end
}

func ending(p *telemetry.Problem) ranks.Ending {
	if p == nil {
		return ranks.Ending{}
	}
	return ranks.Ending{Outcome: p.Outcome, Reason: p.Reason, Evidence: p.Evidence}
}
