package leaderloop

import (
	"context"
	"fmt"
	"slices"

	"shardway/ack/leader"
	"shardway/admin/api"
)

// checkRebalance returns an error if a new shard map would change nothing. plan contains the moves
// of the next map.
func (l *Leadership) checkRebalance(ctx context.Context, plan api.Plan) error {
	hasNewMoves := slices.ContainsFunc(plan.Moves, func(moves api.PlannedMoves) bool { return !moves.Proposed })
	views, _ := l.View(ctx)
	switch {
	case hasNewMoves:
		return nil
	case !slices.ContainsFunc(views, func(member leader.MemberView) bool { return member.Eligible }):
		return fmt.Errorf("%w: no node can own shards now, so the shard map stays as it is: `shardway nodes` shows the states of the nodes", api.ErrNoActiveNodes)
	case len(plan.Moves) > 0: // all are proposed
		return fmt.Errorf("%w: the map change in progress already contains all moves: `shardway events` shows its end", api.ErrRefused)
	case len(plan.Resumed) > 0:
		return fmt.Errorf("%w: planned moves are paused for %s, and no other shard would move: run `shardway resume` first", api.ErrRefused, plan.Pause)
	case len(plan.HeldBack) > 0:
		return fmt.Errorf("%w: no shard would move, because apps may hold old copies of shards: `shardway plan` shows the nodes, and `shardway app-restarted` releases them", api.ErrRefused)
	}
	return fmt.Errorf("%w: no shard would move: each shard has the owner that weights, pins and the states of the nodes require", api.ErrRefused)
}
