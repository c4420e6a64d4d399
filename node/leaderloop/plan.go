package leaderloop

import (
	"context"
	"slices"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/node/control"
)

// planResult is the response of the leader loop to a request for a plan.
type planResult struct {
	plan leader.Plan
	err  error
}

// Plan requests the plan from the leader loop.
func (l *Leadership) Plan(ctx context.Context) (api.Plan, error) {
	response := make(chan planResult, 1)
	select {
	case l.planRequests <- response:
	case <-l.loopEnded:
		return api.Plan{}, control.ErrNotLeader
	case <-ctx.Done():
		return api.Plan{}, ctx.Err()
	}
	result := <-response
	if result.err != nil {
		return api.Plan{}, translatePolicyError(result.err)
	}
	views, _ := l.View(ctx)
	hasInstances := slices.ContainsFunc(views, func(member leader.MemberView) bool { return InstanceCount(member) > 1 })
	plan := api.Plan{Epoch: uint64(result.plan.Epoch), Moves: groupMoves(result.plan.Moves, hasInstances), Resumed: groupMoves(result.plan.Resumed, hasInstances)}
	if result.plan.Pause > 0 {
		plan.Pause = timingrules.Short(result.plan.Pause)
	}
	for _, node := range result.plan.HeldBack {
		plan.HeldBack = append(plan.HeldBack, api.HeldBackNode{Node: string(node.Node), Shards: node.Shards})
	}
	return plan, nil
}

// groupMoves combines the moves that differ only in the shard. hasInstances means that the result contains
// the app instances.
func groupMoves(moves []leader.PlannedMove, hasInstances bool) []api.PlannedMoves {
	groups, groupIndex := []api.PlannedMoves{}, map[leader.PlannedMove]int{}
	for _, move := range moves {
		key := move
		key.Shard = 0 // the key of the group
		i, ok := groupIndex[key]
		if !ok {
			i, groupIndex[key] = len(groups), len(groups)
			groups = append(groups, api.PlannedMoves{From: string(move.From), To: string(move.To), Why: move.Reason, Proposed: move.Proposed})
			if hasInstances && move.From != "" {
				groups[i].FromInstance = move.FromInstance.Number()
			}
			if hasInstances && move.To != "" {
				groups[i].ToInstance = move.ToInstance.Number()
			}
		}
		groups[i].Shards = append(groups[i].Shards, uint32(move.Shard))
	}
	return groups
}
