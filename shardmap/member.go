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

// ErrMember reports a member that no map can hold. Check wraps it.
var ErrMember = errors.New("shardmap: unusable member")

// NodeID names a node. The empty id is no node: it marks an orphaned shard.
type NodeID string

// Member is a node that may own shards.
type Member struct {
	ID     NodeID // 1 to MaxID bytes
	Weight uint32 // 1 to MaxWeight; the member's share relative to the others
}

// Check reports the first reason why members cannot all be in a map as they are.
// Assign does without (it bends what does not fit); Check is for telling people.
func Check(members []Member) error {
	if len(members) > MaxMembers {
		return fmt.Errorf("%w: %d members, at most %d fit", ErrMember, len(members), MaxMembers)
	}
	seen := make(map[NodeID]bool, len(members))
	for _, mb := range members {
		if err := mb.check(); err != nil {
			return err
		}
		if seen[mb.ID] {
			return fmt.Errorf("%w: id %q is there twice", ErrMember, mb.ID)
		}
		seen[mb.ID] = true
	}
	return nil
}

func (mb Member) check() error {
	if !mb.ID.fits() {
		return fmt.Errorf("%w: id %q has %d bytes, want 1 to %d", ErrMember, mb.ID, len(mb.ID), MaxID)
	}
	if mb.Weight < 1 || mb.Weight > MaxWeight {
		return fmt.Errorf("%w: weight %d of %q, want 1 to %d", ErrMember, mb.Weight, mb.ID, MaxWeight)
	}
	return nil
}

func (id NodeID) fits() bool { return len(id) >= 1 && len(id) <= MaxID }

// normal returns members as a map keeps them: sorted by id, each id once, every
// weight in bounds. It never refuses, because the input comes from other nodes
// and a leader that panics on it would take the next leader along. The outcome
// does not depend on the order of members, duplicates included.
func normal(members []Member) []Member {
	out := make([]Member, 0, len(members))
	for _, mb := range members {
		if mb.ID.fits() {
			out = append(out, Member{ID: mb.ID, Weight: min(max(mb.Weight, 1), MaxWeight)})
		}
	}
	slices.SortFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.Weight, a.Weight))
	})
	out = slices.CompactFunc(out, func(a, b Member) bool { return a.ID == b.ID })
	return slices.Clip(out[:min(len(out), MaxMembers)])
}
