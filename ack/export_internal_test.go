package ack

import (
	"cmp"
	"time"

	"shardway/shardmap"
)

// LeaseTerm returns the term of the leader that granted the present lease, zero without one.
// An answer may have shown that the process was paused, which ends the lease early; requests
// see that after the next poll.
func (a *Agent) LeaseTerm() uint64 { return cmp.Or(a.holder.Term(), a.leaseTerm) }

// Releases returns the releases of the last acknowledgement, nil if there are none.
func (a *Agent) Releases() *Releases {
	if a.hooks == nil {
		return nil
	}
	return a.hooks.releases
}

// Serves reports whether the app has the shard under the epoch, and may be asked for it.
func (a *Agent) Serves(s shardmap.Shard, e shardmap.Epoch) bool {
	return a.hooks != nil && int(s) < len(a.hooks.acquired) && a.hooks.acquired[s] == e && e > 0
}

// Taken reports whether a leader has confirmed them.
func (a *Agent) Taken() bool { return a.hooks != nil && a.hooks.received }

// EchoTerm returns the term of the leader that answered last.
func (a *Agent) EchoTerm() uint64 { return a.answerTerm }

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
