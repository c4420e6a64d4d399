package ack

import (
	"time"

	"shardway/shardmap"
)

// DueWith is Due with a given condition of the leader, or of a member.
func (d *LeaderDriver) DueWith(what string, of shardmap.NodeID) time.Duration {
	l, m := *d.leader, *d.leader.member(of)
	defer func() { *d.leader.member(of), *d.leader = m, l }()
	switch n := d.leader.member(of); what {
	case "no barrier":
		d.leader.barrierApplied = false
	case "an entry on its way":
		d.leader.submitting = true
	case "the log of before":
		d.leader.roundDone = false
	case "a map to gather for":
		d.leader.changeWantedSince = 0
	case "a change that waits":
		d.leader.policyQueue = make([]policyRequest, 1)
	case "a later term":
		d.leader.leases.revoked = true
	case "a pause after a failure":
		d.leader.resumeAt = d.o.Clock() + time.Millisecond
	case "not heard":
		n.firstHeard, n.heartbeat = 0, Heartbeat{}
	case "evidence of a crash":
		n.crashedBoot = n.heartbeat.Boot
	case "removed":
		n.removed = true
	case "behind":
		n.behindSince = d.o.Clock()
	case "fresh long ago":
		n.lastFreshEcho = 0
	}
	return d.Due()
}

// AwaitsIdle reports whether the open question to the node is unanswered, and whether no map
// has taken shards from the node in this change.
func (d *LeaderDriver) AwaitsIdle(node shardmap.NodeID) (awaits, first bool) {
	o := d.leader.stages.owners[node]
	return d.leader.stages.unanswered[node], o != nil && o.proposals == 0
}

// Staged reports whether the leader defers moves of the node, as of its last step.
func (d *LeaderDriver) Staged(node shardmap.NodeID) bool { return d.leader.lastAssignment.staged[node] }

// KeptNow returns the shards that stay with their owners because of safe drains.
func (d *LeaderDriver) KeptNow() map[shardmap.Shard]bool { return d.leader.keptShards }
