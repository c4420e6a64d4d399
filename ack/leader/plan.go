package leader

import (
	"slices"
	"time"

	"shardway/shardmap"
)

// Plan contains the shard moves of the next map, for the command plan and the admin API.
type Plan struct {
	// Epoch is the epoch of the committed map, to which all moves refer.
	Epoch shardmap.Epoch
	// Moves are the moves to the map that the leader wants now, ascending by shard.
	Moves []PlannedMove
	// Pause is the duration of the present pause of planned moves; zero means no pause.
	// Resumed are the moves that the leader would want without the pause.
	Pause   time.Duration
	Resumed []PlannedMove
	// HeldBack are the nodes that get fewer shards than others, because their apps may still
	// hold an old copy of some shards and have not restarted.
	HeldBack []HeldBack
}

// PlannedMove is the move of one shard in a Plan.
type PlannedMove struct {
	shardmap.Move
	// Reason is the reason of the move: a reason of a map change as metrics spell it, or "pin" (an
	// operator has pinned the shard to the new owner), "spread" (for an even distribution), or
	// "orphan" (the shard has no owner).
	Reason string
	// Proposed means that the open proposal contains this move, and waits for
	// acknowledgements. Otherwise the move is part of a later proposal.
	Proposed bool
}

// Plan returns the moves to the map that the leader wants now. It returns ErrNotYet if the
// leader has just been elected and has not heard from the nodes, or if it no longer leads.
func (l *Leader) Plan(now time.Duration) (Plan, error) {
	if !l.barrierApplied || l.leases.revoked || !l.state.Bootstrapped() {
		return Plan{}, ErrNotYet
	}
	members := slices.Clone(l.eligibleMembers(now))
	final := l.assign(members).finalMap
	plan := Plan{Epoch: l.state.Committed().Epoch(), Moves: l.plannedMoves(now, final), Pause: l.state.Policy().Pause}
	plan.HeldBack = l.heldBackByReturns(members, final)
	if plan.Pause > 0 && len(members) > 0 {
		placement := l.assignPolicy(l.state.Policy(), l.restartingNodes(), members)
		placement.Paused = false
		plan.Resumed = l.plannedMoves(now, shardmap.Assign(l.state.Committed(), members, placement))
	}
	return plan, nil
}

// plannedMoves returns the moves from the committed map to the map want.
func (l *Leader) plannedMoves(now time.Duration, want *shardmap.Map) []PlannedMove {
	base, last := l.state.Committed(), l.state.Proposed()
	var moves []PlannedMove
	for _, move := range shardmap.Diff(base, want) {
		moves = append(moves, PlannedMove{
			Move: move, Reason: l.moveReason(now, move, base, want), Proposed: l.state.HasOpenProposal() && last.Owner(move.Shard) == move.To,
		})
	}
	return moves
}

// moveReason returns the reason of the move, which is part of the change from the map base to the
// map want. If several reasons apply, it returns the one that makes the move necessary: an orphaned
// shard first, then the exclusion of the old owner, then requests of operators.
func (l *Leader) moveReason(now time.Duration, move shardmap.Move, base, want *shardmap.Map) string {
	pin, pinned := l.state.Policy().Pins[move.Shard]
	from, _ := findMember(base, move.From)
	to, _ := findMember(base, move.To)
	switch {
	case move.From == "":
		return "orphan"
	case !want.IsMember(move.From):
		return l.exclusionReason(now, l.member(move.From))
	case l.state.Policy().DrainsGradually(move.From):
		return "drain"
	case pinned && (pin.Node == move.To || pin.Zone != "" && pin.Zone == l.member(move.To).heartbeat.Zone):
		return "pin"
	case base.ShardCount(move.To) == 0: // a node that joins; with paused moves it may remain a member without shards
		return l.joinReason(move.To)
	}
	if nextFrom, _ := findMember(want, move.From); nextFrom.Weight != from.Weight {
		return "weight"
	}
	if nextTo, _ := findMember(want, move.To); nextTo.Weight != to.Weight {
		return "weight"
	}
	return "spread"
}
