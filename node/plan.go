package node

import (
	"context"
	"fmt"

	"shardway/ack"
	"shardway/admin"
	"shardway/internal/timingrules"
)

var _ admin.PlanAPI = (*Node)(nil)

// planned is the leader's answer to what the next map would move.
type planned struct {
	plan ack.Plan
	err  error
}

// Plan returns what the next map would move, as the leader has it.
func (n *Node) Plan(ctx context.Context) (admin.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	if l := n.leadership(); l != nil {
		return l.plan(ctx)
	}
	leader := n.leader()
	if leader == "" {
		return admin.Plan{}, fmt.Errorf("%w: %s", admin.ErrNoLeader, n.leaderless())
	}
	var p admin.Plan
	err := n.askLeading(ctx, leader, request{What: askPlan}, &p)
	return p, err
}

// plan asks the leader's loop.
func (l *leadership) plan(ctx context.Context) (admin.Plan, error) {
	answer := make(chan planned, 1)
	select {
	case l.plans <- answer:
	case <-l.done:
		return admin.Plan{}, errLeadsNot
	case <-ctx.Done():
		return admin.Plan{}, ctx.Err()
	}
	p := <-answer
	if p.err != nil {
		return admin.Plan{}, policyFault(p.err)
	}
	out := admin.Plan{Epoch: uint64(p.plan.Epoch), Moves: groups(p.plan.Moves), Resumed: groups(p.plan.Resumed)}
	if p.plan.Pause > 0 {
		out.Pause = timingrules.Short(p.plan.Pause)
	}
	for _, h := range p.plan.HeldBack {
		out.HeldBack = append(out.HeldBack, admin.HeldBackNode{Node: string(h.Node), Shards: h.Shards})
	}
	return out, nil
}

// groups puts together the moves that have all but their shard in common.
func groups(moves []ack.PlannedMove) []admin.PlannedMoves {
	out, at := []admin.PlannedMoves{}, map[ack.PlannedMove]int{}
	for _, m := range moves {
		like := m
		like.Shard = 0
		i, ok := at[like]
		if !ok {
			i, at[like] = len(out), len(out)
			out = append(out, admin.PlannedMoves{From: string(m.From), To: string(m.To), Why: m.Why, Proposed: m.Proposed})
		}
		out[i].Shards = append(out[i].Shards, uint32(m.Shard))
	}
	return out
}
