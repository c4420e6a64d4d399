package leaderloop

import (
	"context"
	"slices"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/node/control"
)

// planResult is the leader loop's response to a plan request.
type planResult struct {
	plan leader.Plan
	err  error
}

// Plan returns the shard moves that the leader intends to make next. It returns control.ErrNotLeader if this node does
// not lead.
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
	includeInstances := slices.ContainsFunc(views, func(member leader.MemberView) bool { return InstanceCount(member) > 1 })
	state := l.options.View.State()
	plan := api.Plan{Epoch: uint64(result.plan.Epoch), Moves: groupMoves(state, result.plan.Moves, includeInstances), Resumed: groupMoves(state, result.plan.Resumed, includeInstances)}
	if result.plan.Pause > 0 {
		plan.Pause = timingrules.Short(result.plan.Pause)
	}
	for _, node := range result.plan.HeldBack {
		plan.HeldBack = append(plan.HeldBack, api.HeldBackNode{Node: string(node.Node), Shards: node.Shards})
	}
	return plan, nil
}

// groupMoves combines moves of one service that differ only in the shard. If includeInstances is set, each move also names its app
// instances.
func groupMoves(state *ack.State, moves []leader.PlannedMove, includeInstances bool) []api.PlannedMoves {
	type group struct {
		move    leader.PlannedMove
		service string
	}
	groups, groupIndex := []api.PlannedMoves{}, map[group]int{}
	for _, move := range moves {
		key := group{move: move}
		key.move.Shard = 0 // the key of the group
		if service, exists := state.ServiceOf(move.Shard); exists && state.HasServices() {
			key.service = service.Name
		}
		i, ok := groupIndex[key]
		if !ok {
			i, groupIndex[key] = len(groups), len(groups)
			groups = append(groups, api.PlannedMoves{From: string(move.From), To: string(move.To), Why: move.Reason, Proposed: move.Proposed, Service: key.service})
			if includeInstances && move.From != "" {
				groups[i].FromInstance = move.FromInstance.Number()
			}
			if includeInstances && move.To != "" {
				groups[i].ToInstance = move.ToInstance.Number()
			}
		}
		groups[i].Shards = append(groups[i].Shards, uint32(move.Shard))
	}
	return groups
}
