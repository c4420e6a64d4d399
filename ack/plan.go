package ack

import (
	"slices"
	"time"

	"shardway/shardmap"
)

// Plan contains the moves of the next map, for status output.
type Plan struct {
	// Epoch is the epoch of the committed map, to which all moves refer.
	Epoch shardmap.Epoch
	// Moves are the moves of the map that is needed now, ascending by shard.
	Moves []PlannedMove
	// Pause is how long planned moves are paused; zero means no pause. Resumed are the moves
	// without the pause.
	Pause   time.Duration
	Resumed []PlannedMove
	// HeldBack are the nodes that get fewer shards because their apps have not restarted.
	HeldBack []HeldBack
}

// PlannedMove is one shard of a Plan.
type PlannedMove struct {
	shardmap.Move
	// Why is the reason, as metrics spell it. Further reasons are "pin" (the shard belongs
	// there), "spread" (for an even distribution), and "orphan" (it has no owner).
	Why string
	// Proposed: the open proposal contains this move, and waits for acknowledgements.
	Proposed bool
}

// Plan returns the moves of the map that is needed now. ErrNotYet: the leader was just
// elected, and does not know the nodes yet.
func (l *Leader) Plan(now time.Duration) (Plan, error) {
	if !l.barrierApplied || l.leases.revoked || !l.state.Bootstrapped() {
		return Plan{}, ErrNotYet
	}
	members := slices.Clone(l.eligibleMembers(now))
	final := l.assign(members).final
	p := Plan{Epoch: l.state.Committed().Epoch(), Moves: l.plannedMoves(now, final), Pause: l.state.Policy().Pause}
	p.HeldBack = l.heldBackByReturns(members, final)
	if p.Pause > 0 && len(members) > 0 {
		rules := l.assignPolicy(l.state.Policy(), l.restartingNodes(), members)
		rules.Paused = false
		p.Resumed = l.plannedMoves(now, shardmap.Assign(l.state.Committed(), members, rules))
	}
	return p, nil
}

// plannedMoves returns the moves from the committed map to want.
func (l *Leader) plannedMoves(now time.Duration, want *shardmap.Map) []PlannedMove {
	base, last := l.state.Committed(), l.state.Last()
	var moves []PlannedMove
	for _, m := range shardmap.Diff(base, want) {
		moves = append(moves, PlannedMove{
			Move: m, Why: l.moveReason(now, m, base, want), Proposed: l.state.Open() && last.Owner(m.Shard) == m.To,
		})
	}
	return moves
}

// moveReason returns the reason of one move from base to want.
func (l *Leader) moveReason(now time.Duration, m shardmap.Move, base, want *shardmap.Map) string {
	pin, pinned := l.state.Policy().Pins[m.Shard]
	from, _ := findMember(base, m.From)
	to, _ := findMember(base, m.To)
	switch {
	case m.From == "":
		return "orphan"
	case !want.Has(m.From):
		return l.exclusionReason(now, l.member(m.From))
	case l.state.Policy().drainsGradually(m.From):
		return "drain"
	case pinned && (pin.Node == m.To || pin.Zone != "" && pin.Zone == l.member(m.To).heartbeat.Zone):
		return "pin"
	case base.Count(m.To) == 0: // during a pause it may be a member without shards for long
		return l.joinReason(m.To)
	}
	if f, _ := findMember(want, m.From); f.Weight != from.Weight {
		return "weight"
	}
	if t, _ := findMember(want, m.To); t.Weight != to.Weight {
		return "weight"
	}
	return "spread"
}
