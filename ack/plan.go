package ack

import (
	"slices"
	"time"

	"shardway/shardmap"
)

// Plan is what the next map would move, for people to read: nothing is done.
type Plan struct {
	// Epoch is that of the committed map, from which everything is counted.
	Epoch shardmap.Epoch
	// Moves are what the map would move that ought to be now, ascending by shard.
	Moves []PlannedMove
	// Pause is for how long planned moves are to wait; zero: they do not. Resumed are what
	// the map would move if they did not.
	Pause   time.Duration
	Resumed []PlannedMove
	// HeldBack are the nodes that get fewer shards because their apps have not restarted.
	HeldBack []HeldBack
}

// PlannedMove is one shard of a Plan.
type PlannedMove struct {
	shardmap.Move
	// Why is the cause in the words of metrics; "pin", "spread" and "orphan" beside: where
	// it belongs, for an even spread, and nobody owns it.
	Why string
	// Proposed: the last map proposed moves it so, and waits for acknowledgements.
	Proposed bool
}

// Plan returns what the map would move that ought to be now. ErrNotYet: a leader that was
// just elected does not know yet what there is.
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

// planned returns what want moves.
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

// whyOf names the cause of one move from base to want.
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
	case base.Count(m.To) == 0: // in a pause it may be a member for long
		return "join"
	}
	if f, _ := findMember(want, m.From); f.Weight != from.Weight {
		return "weight"
	}
	if t, _ := findMember(want, m.To); t.Weight != to.Weight {
		return "weight"
	}
	return "spread"
}
