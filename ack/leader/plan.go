package leader

import (
	"cmp"
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
	// Pause is the duration of the current pause of planned moves; zero means no pause.
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
	// Proposed is set if the open proposal contains this move, and waits for acknowledgements.
	// Otherwise the move is part of a later proposal.
	Proposed bool
}

// Plan returns the moves to the map that the leader wants now. It returns ErrNotYet if the
// leader has just been elected and has not heard from the nodes, or if it no longer leads.
func (l *Leader) Plan(now time.Duration) (Plan, error) {
	if !l.acceptsRequests() {
		return Plan{}, ErrNotYet
	}
	l.in.now = now
	l.updateAssignment()
	next := &l.assigned.inputs
	plan := Plan{Epoch: l.in.state.Committed().Epoch(), Moves: l.plannedMoves(l.assigned.finalMap), Pause: l.in.state.Policy().Pause}
	plan.HeldBack = next.heldBackByReturns(l.assigned.finalMap)
	if plan.Pause > 0 && len(next.members) > 0 {
		placement := next.placement()
		placement.Paused = false
		plan.Resumed = l.plannedMoves(next.assign(placement))
	}
	return plan, nil
}

// plannedMoves returns the moves from the committed map to the map want.
func (l *Leader) plannedMoves(want *shardmap.Map) []PlannedMove {
	committed, last := l.in.state.Committed(), l.in.state.Proposed()
	var moves []PlannedMove
	for _, move := range shardmap.Diff(committed, want) {
		isProposed := l.in.state.HasOpenProposal() && last.HasSameOwner(want, move.Shard)
		moves = append(moves, PlannedMove{Move: move, Reason: l.moveReason(move, want), Proposed: isProposed})
	}
	return moves
}

// moveReason returns the reason of the move, which is part of the change from the committed map to
// the map want. If several reasons apply, it returns the one that makes the move necessary: an
// orphaned shard first, then the exclusion of the old owner, then requests of operators.
func (l *Leader) moveReason(move shardmap.Move, want *shardmap.Map) string {
	committed := l.in.state.Committed()
	switch {
	case move.From == "":
		return "orphan"
	case !want.IsMember(move.From):
		return l.membership.exclusionReason(l.in, l.members.getOrCreate(move.From))
	case move.IsWithinNode():
		return cmp.Or(l.instanceReason(committed, want), "spread")
	case l.in.state.Policy().DrainsGradually(move.From):
		return "drain"
	case l.members.getOrCreate(move.From).lacksRole(l.in):
		return "role"
	case l.isPinnedTo(move.Shard, move.To):
		return "pin"
	case committed.ShardCount(move.To) == 0:
		// The node joins. While moves are paused, it may remain a member without shards.
		return l.membership.joinReason(move.To)
	case weightDiffers(committed, want, move.From) || weightDiffers(committed, want, move.To):
		return "weight"
	}
	return "spread"
}

// isPinnedTo reports whether an operator has pinned the shard to the node or to its zone.
func (l *Leader) isPinnedTo(shard shardmap.Shard, id shardmap.NodeID) bool {
	pin, pinned := l.in.state.Policy().Pins[shard]
	if !pinned {
		return false
	}
	isFallback := slices.Contains(l.in.state.Policy().PinFallbacks[shard], id)
	return pin.Node == id || isFallback || pin.Zone != "" && pin.Zone == l.members.getOrCreate(id).heartbeat.Zone
}

// weightDiffers reports whether a node has different weights in two maps.
func weightDiffers(a, b *shardmap.Map, id shardmap.NodeID) bool {
	inA, _ := findMember(a, id)
	inB, _ := findMember(b, id)
	return inA.Weight != inB.Weight
}
