package shardmap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Limits of a map. Assign corrects members that exceed them, and Decode rejects them.
const (
	MaxMembers = 1024
	MaxID      = 64 // bytes of a NodeID
	MaxWeight  = 1000
)

// errMember reports a member that cannot be in a map. Decode includes its text in an ErrCodec
// error.
var errMember = errors.New("shardmap: invalid member")

// NodeID is the id of a node. The empty NodeID is the owner of an orphaned shard.
type NodeID string

// Member is a node that may own shards.
type Member struct {
	ID     NodeID // 1 to MaxID bytes
	Weight uint32 // 1 to MaxWeight; the number of shards is proportional to it
	// Instances are the app instances of the node that may own shards. They share its shards.
	Instances InstanceSet
}

// validate returns an error that wraps errMember if the member cannot be in a map. Assign corrects
// such members with normalize instead.
func (m Member) validate() error {
	if !m.ID.isValid() {
		return fmt.Errorf("%w: id %q has %d bytes, want 1 to %d", errMember, m.ID, len(m.ID), MaxID)
	}
	if m.Weight < 1 || m.Weight > MaxWeight {
		return fmt.Errorf("%w: weight %d of %q, want 1 to %d", errMember, m.Weight, m.ID, MaxWeight)
	}
	return nil
}

// isValid reports whether the length of the id is within its limits.
func (id NodeID) isValid() bool { return len(id) >= 1 && len(id) <= MaxID }

// normalize returns members in the form that a map contains: sorted by id, without duplicates, with
// normalized sets of instances, and with weights between 1 and MaxWeight. It drops invalid ids. Of several members with one id it
// keeps the heaviest one. Beyond MaxMembers it drops the last members by id. The result does not
// depend on the order of members.
//
// normalize never fails, because its input comes from other nodes: a leader that panicked on it
// would be followed by the next leader with the same panic.
func normalize(members []Member) []Member {
	normalized := make([]Member, 0, len(members))
	for _, member := range members {
		if member.ID.isValid() {
			member.Weight, member.Instances = min(max(member.Weight, 1), MaxWeight), member.Instances.Normalized()
			normalized = append(normalized, member)
		}
	}
	slices.SortFunc(normalized, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Instances, a.Instances))
	})
	normalized = slices.CompactFunc(normalized, func(a, b Member) bool { return a.ID == b.ID })
	return slices.Clip(normalized[:min(len(normalized), MaxMembers)])
}
