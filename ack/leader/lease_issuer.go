package leader

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// leaseIssuer decides which nodes get a lease, and for how long.
//
// A heartbeat of a voter contains the Raft term of the voter, and echoes a response of the leader.
// If this term equals the term of the leader, the voter had not voted in a newer term when that
// response was sent. The quorum time is the latest time that a quorum of voters has confirmed in
// this way. No lease ends later than quorum time + lease, so every lease of an old leader has
// expired one lease after the next election.
type leaseIssuer struct {
	self        string // Raft server id of the leader itself
	voters      []string
	nonvoters   []string
	confirmedAt map[string]time.Duration // by server; see confirm
	// barrierStart is when the barrier of this leader started; negative before it is applied.
	barrierStart time.Duration
	// inheritedMap is the committed map at the time of the barrier. Its owners may have leases of
	// the previous leader.
	inheritedMap *shardmap.Map
	// inheritedServers are the servers of the configuration at the time of the election. Only their
	// processes may have leases of the previous leader. nil means that the leader has not read them yet.
	inheritedServers []string
	// revoked is set if the Raft term of the leader's node has changed. It never becomes false
	// again.
	revoked bool
	sortBuf []time.Duration // reused by quorumTime
}

func newLeaseIssuer(self string, inheritedMap *shardmap.Map) leaseIssuer {
	return leaseIssuer{self: self, confirmedAt: map[string]time.Duration{}, barrierStart: -1, inheritedMap: inheritedMap}
}

// setServers sets the servers of the latest configuration.
func (li *leaseIssuer) setServers(servers Servers) {
	li.voters, li.nonvoters = slices.Clone(servers.Voters), slices.Clone(servers.Nonvoters)
	if li.inheritedServers == nil {
		li.inheritedServers = slices.Concat(li.voters, li.nonvoters)
	}
}

// isConfigured reports whether the server is in the latest configuration.
func (li *leaseIssuer) isConfigured(server string) bool {
	return slices.Contains(li.voters, server) || slices.Contains(li.nonvoters, server)
}

// barrierApplied reports whether all entries of earlier leaders are applied.
func (li *leaseIssuer) barrierApplied() bool { return li.barrierStart >= 0 }

// termRead confirms the leader itself as of the moment before it read its Raft term. A changed term
// ends all granting permanently.
func (li *leaseIssuer) termRead(ownTerm uint64, read TermRead) {
	if read.Term != ownTerm {
		li.revoked = true
		return
	}
	li.confirm(li.self, read.After)
}

// confirm records that a server had not voted in a newer term until the time at.
func (li *leaseIssuer) confirm(server string, at time.Duration) {
	if old, ok := li.confirmedAt[server]; !ok || at > old {
		li.confirmedAt[server] = at
	}
}

// quorumTime returns the quorum time. ok is false if no lease may be granted.
func (li *leaseIssuer) quorumTime() (time.Duration, bool) {
	if li.revoked || li.barrierStart < 0 || len(li.voters) == 0 {
		return 0, false
	}
	li.sortBuf = li.sortBuf[:0]
	for _, voter := range li.voters {
		at, ok := li.confirmedAt[voter]
		if !ok {
			at = -1
		}
		li.sortBuf = append(li.sortBuf, at)
	}
	slices.Sort(li.sortBuf)
	// With n voters, n/2+1 of them have confirmed the element at (n-1)/2.
	confirmedByQuorum := li.sortBuf[(len(li.sortBuf)-1)/2]
	return max(confirmedByQuorum, li.barrierStart), true
}

// grant returns the length of a lease from now on, with the given timing. Zero means that no lease
// may be granted.
func (li *leaseIssuer) grant(now time.Duration, timing ack.Timing) time.Duration {
	quorumTime, ok := li.quorumTime()
	if !ok {
		return 0
	}
	remaining := quorumTime + timing.Lease - now
	return min(max(remaining, 0), timing.Lease)
}

// mayGrant reports whether the node may have a lease, under the conditions of
// docs/internals/protocol-leases.md, "When a lease starts and ends". submittedCommit is the map whose
// commit is on its way into the log; zero means none.
func (li *leaseIssuer) mayGrant(in inputs, node *member, submittedCommit shardmap.Epoch) bool {
	if !li.barrierApplied() || node.heartbeat.Goodbye || node.heartbeat.Gateway {
		return false
	}
	if !li.isConfigured(node.heartbeat.Server) {
		return false
	}
	if !hasRequiredAck(in, node, submittedCommit) || li.mayBeDuplicate(in, node) {
		return false
	}
	// The last echo must be recent, otherwise the node may not receive the responses.
	if node.echoedResponseSentAt < 0 || in.now-node.echoedResponseSentAt > in.timing.DeadAfter/2 {
		return false
	}
	// The first lease of a process needs a proof of leadership that is newer than the process.
	quorumTime, ok := li.quorumTime()
	return ok && (node.hadLease || quorumTime > node.firstHeartbeatAt)
}

// hasRequiredAck reports whether the node has acknowledged every map that a lease requires. The
// parameters are those of mayGrant.
func hasRequiredAck(in inputs, node *member, submittedCommit shardmap.Epoch) bool {
	// As soon as the leader has submitted the commit of a proposal, a lease requires the acknowledgement
	// of this proposal, although the commit is not applied yet.
	requiredAck := max(in.state.Committed().Epoch(), submittedCommit)
	if requiredAck == 0 || node.heartbeat.Acked < requiredAck {
		return false
	}
	// A node that a proposal has excluded gets no lease until it has acknowledged this proposal.
	// Otherwise other nodes could never take its shards (reason 14 of docs/internals/protocol-reasons.md).
	// A node that only other members cannot reach keeps its lease until the deadline of
	// membership.denyLateLeases. drop is the record of the exclusion.
	drop, _ := in.state.Drop(node.id)
	if drop.InForce && !drop.Cause.KeepsLease() && node.heartbeat.Acked < drop.Epoch {
		return false
	}
	return node.heartbeat.Acked >= node.leaseDeniedUntil
}

// mayBeDuplicate reports whether another process under its node id may still have a lease of the
// previous leader. A process is the only one if its server was in the configuration at the time of the
// election, and it has echoed a response of an earlier leader.
func (li *leaseIssuer) mayBeDuplicate(in inputs, node *member) bool {
	oldLeasesMayRun := in.now-in.electedAt <= in.timing.LeaseExpiry()
	mayBeOther := node.noInitialEcho || !slices.Contains(li.inheritedServers, node.heartbeat.Server)
	return mayBeOther && oldLeasesMayRun && li.inheritedMap.ShardCount(node.id) > 0
}
