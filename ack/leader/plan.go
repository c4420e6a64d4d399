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
	// Moves are the moves from the committed map to the target map of the leader, ascending by shard.
	Moves []PlannedMove
	// Pause is the duration of the current pause of planned moves; zero means no pause.
	// Resumed are the moves after the end of the pause, so that operators see its effect.
	Pause   time.Duration
	Resumed []PlannedMove
	// HeldBack are the nodes that get fewer shards than others, because their apps may still
	// hold an old copy of some shards and have not restarted.
	HeldBack []HeldBack
}

// PlannedMove is the move of one shard in a Plan.
type PlannedMove struct {
	shardmap.Move
	// Reason is why the shard moves. It is one of the reasons in the metrics of map changes, or:
	//
	//   - "pin": an operator has pinned the shard to the new owner
	//   - "spread": the shards are distributed evenly
	//   - "orphan": the shard has no owner
	Reason string
	// Proposed is set if the open proposal, which waits for acknowledgements, contains this move.
	// Otherwise the move is part of a later proposal, because only one proposal is open at a time.
	Proposed bool
}

// Plan returns the moves from the committed map to the target map of the leader, which is the result
// of the placement with the current heartbeats and policy. It returns ErrNotYet if the leader has
// not applied all entries of earlier leaders, or no longer leads, because its state is then outdated.
func (l *Leader) Plan(now time.Duration) (Plan, error) {
	if !l.acceptsRequests() {
		return Plan{}, ErrNotYet
	}
	l.in.now = now
	l.updateAssignment()
	inputs := &l.assigned.inputs
	plan := Plan{Epoch: l.in.state.Committed().Epoch(), Moves: l.plannedMoves(l.assigned.finalMap), Pause: l.in.state.Policy().Pause}
	plan.HeldBack = inputs.heldBackByReturns(l.assigned.finalMap)
	if plan.Pause > 0 && len(inputs.members) > 0 {
		placement := inputs.placement()
		placement.Paused = false
		plan.Resumed = l.plannedMoves(inputs.assign(placement))
	}
	return plan, nil
}

// plannedMoves returns the moves from the committed map to the map target.
func (l *Leader) plannedMoves(target *shardmap.Map) []PlannedMove {
	committed, last := l.in.state.Committed(), l.in.state.Proposed()
	var moves []PlannedMove
	for _, move := range shardmap.Diff(committed, target) {
		isProposed := l.in.state.HasOpenProposal() && last.HasSameOwner(target, move.Shard)
		moves = append(moves, PlannedMove{Move: move, Reason: l.moveReason(move, target), Proposed: isProposed})
	}
	return moves
}

// moveReason returns the reason of the move, which is part of the change from the committed map to
// the map target. If several reasons apply, it returns the one that makes the move necessary: an
// orphaned shard first, then the exclusion of the old owner, then requests of operators.
func (l *Leader) moveReason(move shardmap.Move, target *shardmap.Map) string {
	committed := l.in.state.Committed()
	switch {
	case move.From == "":
		return "orphan"
	case !target.IsMember(move.From):
		return l.membership.exclusionReason(l.in, l.members.getOrCreate(move.From))
	case move.IsWithinNode():
		return cmp.Or(l.instanceReason(committed, target), "spread")
	case l.in.state.Policy().DrainsGradually(move.From):
		return "drain"
	case l.members.getOrCreate(move.From).lacksRole(l.in):
		return "role"
	case l.isPinnedTo(move.Shard, move.To):
		return "pin"
	case committed.ShardCount(move.To) == 0:
		// The node joins. While moves are paused, it may remain a member without shards.
		return l.membership.joinReason(move.To)
	case weightDiffers(committed, target, move.From) || weightDiffers(committed, target, move.To):
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
