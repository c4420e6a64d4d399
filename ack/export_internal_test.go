package ack

import (
	"cmp"
	"time"

	"shardway/shardmap"
)

// LeaseTerm returns the term of the leader whose lease is in force, zero without one. An
// answer may have shown that the process stood still, which ends the lease before its time
// is over; requests know with the look that follows at once.
func (a *Agent) LeaseTerm() uint64 { return cmp.Or(a.holder.Term(), a.inForce) }

// Releases returns what the last acknowledgement gives up shards with, nil for nothing.
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

// Taken reports that a leader has said that it has that.
func (a *Agent) Taken() bool { return a.hooks != nil && a.hooks.taken }

// EchoTerm returns the term of the leader that answered last.
func (a *Agent) EchoTerm() uint64 { return a.echoTerm }

// DueWith is Due while something is the matter with the leader, or with a member.
func (t *Turn) DueWith(what string, of shardmap.NodeID) time.Duration {
	l, m := *t.leader, *t.leader.node(of)
	defer func() { *t.leader.node(of), *t.leader = m, l }()
	switch n := t.leader.node(of); what {
	case "no barrier":
		t.leader.barrier = false
	case "an entry on its way":
		t.leader.submitting = true
	case "the log of before":
		t.leader.settled = false
	case "a map to gather for":
		t.leader.wantSince = 0
	case "a change that waits":
		t.leader.line = make([]asked, 1)
	case "a later term":
		t.leader.grants.revoked = true
	case "a pause after a failure":
		t.leader.resumeAt = t.o.Clock() + time.Millisecond
	case "not heard":
		n.firstHeard, n.beat = 0, Heartbeat{}
	case "evidence of a crash":
		n.evidence = n.beat.Boot
	case "removed":
		n.removed = true
	case "behind":
		n.behindSince = t.o.Clock()
	case "fresh long ago":
		n.lastFresh = 0
	}
	return t.Due()
}

// AwaitsIdle reports that the leader's open question to the node is not answered, and that no
// map has taken shards from the node in this change.
func (t *Turn) AwaitsIdle(node shardmap.NodeID) (awaits, first bool) {
	o := t.leader.stages.owners[node]
	return t.leader.stages.unanswered[node], o != nil && o.maps == 0
}

// Staged reports that the leader defers moves of the node, as of its last look.
func (t *Turn) Staged(node shardmap.NodeID) bool { return t.leader.memo.staged[node] }

// KeptNow returns the shards that stay with their owners because of safe drains.
func (t *Turn) KeptNow() map[shardmap.Shard]bool { return t.leader.keptNow }
