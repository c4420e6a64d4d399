package ack

import (
	"cmp"
	"maps"
	"slices"

	"shardway/shardmap"
)

// maxDrops bounds the drop records of a State. The oldest record that is not in force is
// removed first.
const maxDrops = 4096

// DropCause is the reason why a node was dropped from the map.
type DropCause uint8

// The causes of a drop.
const (
	CauseSilent       DropCause = iota + 1 // the leader received no fresh heartbeat
	CauseCrashed                           // the leader received crash evidence
	CauseMissedAck                         // the node did not acknowledge a proposal in time
	CauseBehind                            // its log is too far behind
	CauseRemoved                           // an operator removed it
	CauseUnreachable                       // most other members cannot connect to it
	CauseMarkedFailed                      // an operator marked it as failed
)

var causeNames = [...]string{
	CauseSilent: "silent", CauseCrashed: "crashed", CauseMissedAck: "missed-ack", CauseBehind: "behind", CauseRemoved: "removed",
	CauseUnreachable: "unreachable", CauseMarkedFailed: "marked-failed",
}

// String returns the cause as logs and metrics spell it.
func (c DropCause) String() string { return enumName(causeNames[:], uint8(c), "Cause") }

// MissedRound reports whether the dropped node sent heartbeats but did not keep up. Such a
// node must first prove that it keeps up again.
func (c DropCause) MissedRound() bool { return c == CauseMissedAck || c == CauseBehind }

// IsRepeatable reports whether consecutive drops for this cause make the node wait longer each time
// before it may return.
func (c DropCause) IsRepeatable() bool { return c.MissedRound() || c == CauseUnreachable }

// KeepsLease reports whether the dropped node keeps its lease until it has drained and acknowledged the
// proposal, within the deadline of an acknowledgement. The leader receives the heartbeats of such a node, so
// the node can release its shards in order.
func (c DropCause) KeepsLease() bool { return c == CauseUnreachable }

// Drop is the record of a node that was excluded from a map.
type Drop struct {
	// Epoch is the proposal that excluded it.
	Epoch shardmap.Epoch
	Cause DropCause
	// ConsecutiveDrops is the number of consecutive drops of the node for a cause that IsRepeatable. It
	// determines how long the node must wait before it gets shards again.
	ConsecutiveDrops uint32
	// InForce is true until a proposal contains the node again.
	InForce bool
}

// Drop returns the record of the last exclusion of a node from the map. ok is false if there is none.
func (s *State) Drop(node shardmap.NodeID) (drop Drop, ok bool) {
	drop, ok = s.drops[node]
	return drop, ok
}

// IsDropped reports whether a proposal has excluded the node, and no later proposal contains it.
func (s *State) IsDropped(node shardmap.NodeID) bool { return s.drops[node].InForce }

// DroppedBy returns the nodes that the proposal of this epoch excludes and that have not returned
// since, sorted.
func (s *State) DroppedBy(epoch shardmap.Epoch) (nodes []shardmap.NodeID) {
	for id, drop := range s.drops {
		if drop.InForce && drop.Epoch == epoch {
			nodes = append(nodes, id)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// dropRecords contains the last exclusion of each node.
type dropRecords map[shardmap.NodeID]Drop

// withProposal returns a copy of the records after a proposal. It ends the drops of members of the
// proposal, and records the nodes that the proposal excludes.
func (dr dropRecords) withProposal(proposed *shardmap.Map, records []DropRecord) dropRecords {
	drops := maps.Clone(dr)
	for _, member := range proposed.Members() {
		if drop, known := drops[member.ID]; known {
			drop.InForce = false
			drops[member.ID] = drop
		}
	}
	for _, record := range records {
		if !proposed.IsMember(record.Node) {
			setKey(&drops, record.Node, Drop{Epoch: proposed.Epoch(), Cause: record.Cause, ConsecutiveDrops: record.ConsecutiveDrops, InForce: true})
		}
	}
	drops.limit()
	return drops
}

// without returns a copy of the records without the given node.
func (dr dropRecords) without(node shardmap.NodeID) dropRecords {
	drops := maps.Clone(dr)
	delete(drops, node)
	return drops
}

// limit bounds the records, identically on every node. It removes records that are not in force
// first, and older ones before newer ones.
func (dr dropRecords) limit() {
	if len(dr) <= maxDrops {
		return
	}
	ids := slices.SortedFunc(maps.Keys(dr), func(a, b shardmap.NodeID) int {
		dropA, dropB := dr[a], dr[b]
		if dropA.InForce != dropB.InForce {
			if dropB.InForce {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(dropA.Epoch, dropB.Epoch), cmp.Compare(a, b))
	})
	for _, id := range ids[:len(ids)-maxDrops] {
		delete(dr, id)
	}
}
