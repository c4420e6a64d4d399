package shardmap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Limits of what a map can name: Assign stays within them, Decode insists.
const (
	MaxMembers = 1024
	MaxID      = 64 // bytes
	MaxWeight  = 1000
)

// errMember reports a member that no map can hold; Decode tells it as text.
var errMember = errors.New("shardmap: unusable member")

// NodeID names a node. The empty id is no node: it marks an orphaned shard.
type NodeID string

// Member is a node that may own shards.
type Member struct {
	ID     NodeID // 1 to MaxID bytes
	Weight uint32 // 1 to MaxWeight; the member's share relative to the others
}

// check reports why the member cannot be in a map as it is. Assign bends what does
// not fit.
func (mb Member) validate() error {
	if !mb.ID.isValid() {
		return fmt.Errorf("%w: id %q has %d bytes, want 1 to %d", errMember, mb.ID, len(mb.ID), MaxID)
	}
	if mb.Weight < 1 || mb.Weight > MaxWeight {
		return fmt.Errorf("%w: weight %d of %q, want 1 to %d", errMember, mb.Weight, mb.ID, MaxWeight)
	}
	return nil
}

func (id NodeID) isValid() bool { return len(id) >= 1 && len(id) <= MaxID }

// normal returns members as a map keeps them: sorted by id, each id once, every
// weight in bounds. It never refuses, because the input comes from other nodes
// and a leader that panics on it would take the next leader along. The outcome
// does not depend on the order of members, duplicates included.
func normalize(members []Member) []Member {
	out := make([]Member, 0, len(members))
	for _, mb := range members {
		if mb.ID.isValid() {
			out = append(out, Member{ID: mb.ID, Weight: min(max(mb.Weight, 1), MaxWeight)})
		}
	}
	slices.SortFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.Weight, a.Weight))
	})
	out = slices.CompactFunc(out, func(a, b Member) bool { return a.ID == b.ID })
	return slices.Clip(out[:min(len(out), MaxMembers)])
}
