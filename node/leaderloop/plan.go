package leaderloop

import (
	"context"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/node/control"
)

// planReply is the response of the leader loop to a request for a plan.
type planReply struct {
	plan leader.Plan
	err  error
}

// Plan requests the plan from the leader loop.
func (l *Leadership) Plan(ctx context.Context) (api.Plan, error) {
	answer := make(chan planReply, 1)
	select {
	case l.plans <- answer:
	case <-l.done:
		return api.Plan{}, control.ErrNotLeader
	case <-ctx.Done():
		return api.Plan{}, ctx.Err()
	}
	p := <-answer
	if p.err != nil {
		return api.Plan{}, policyError(p.err)
	}
	out := api.Plan{Epoch: uint64(p.plan.Epoch), Moves: groups(p.plan.Moves), Resumed: groups(p.plan.Resumed)}
	if p.plan.Pause > 0 {
		out.Pause = timingrules.Short(p.plan.Pause)
	}
	for _, h := range p.plan.HeldBack {
		out.HeldBack = append(out.HeldBack, api.HeldBackNode{Node: string(h.Node), Shards: h.Shards})
	}
	return out, nil
}

// groups combines the moves that differ only in the shard.
func groups(moves []leader.PlannedMove) []api.PlannedMoves {
	out, at := []api.PlannedMoves{}, map[leader.PlannedMove]int{}
	for _, m := range moves {
		like := m
		like.Shard = 0 // the key of the group
		i, ok := at[like]
		if !ok {
			i, at[like] = len(out), len(out)
			out = append(out, api.PlannedMoves{From: string(m.From), To: string(m.To), Why: m.Reason, Proposed: m.Proposed})
		}
		out[i].Shards = append(out[i].Shards, uint32(m.Shard))
	}
	return out
}
