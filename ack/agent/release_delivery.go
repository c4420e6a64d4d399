package agent

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// resendInterval is the time between two deliveries of the release notes.
const resendInterval = 100 * time.Millisecond

// releaseDelivery sends the releases of the last acknowledgement, or of a goodbye, to the leader
// until a leader confirms them.
type releaseDelivery struct {
	send func(ack.Releases) // HookOptions.SendReleases

	releases *ack.Releases // nil means that there are none, or that no leader confirmed them in time
	digest   [32]byte      // of releases, for heartbeats; zero if releases is nil
	// firstHeartbeat is the number of the first heartbeat with the digest; zero means that none was sent.
	firstHeartbeat uint64

	confirmed  bool
	leaderTerm uint64        // term of the leader that confirmed them, or must confirm them again
	resendAt   time.Duration // when they are sent again
	giveUpAt   time.Duration // when the shards move unreleased for lack of a confirmation
}

// awaitsConfirmation reports whether releases wait for a confirmation.
func (d *releaseDelivery) awaitsConfirmation() bool { return d.releases != nil && !d.confirmed }

// begin begins the delivery of releases that a leader must confirm until giveUpAt.
func (d *releaseDelivery) begin(now time.Duration, releases *ack.Releases, giveUpAt time.Duration) {
	*d = releaseDelivery{send: d.send, releases: releases, digest: releases.Digest(), resendAt: now, giveUpAt: giveUpAt}
}

// discard ends the delivery and discards the releases.
func (d *releaseDelivery) discard() { *d = releaseDelivery{send: d.send} }

// sendDue sends pending releases when they are due. It returns true if no leader confirmed them in
// time: the shards then move unreleased, and the next heartbeat reports that.
func (d *releaseDelivery) sendDue(now time.Duration) (gaveUp bool) {
	switch {
	case !d.awaitsConfirmation():
	case now >= d.giveUpAt:
		d.discard()
		return true
	case now >= d.resendAt:
		d.resendAt = now + resendInterval
		d.send(*d.releases)
	}
	return false
}

// recordHeartbeat records that a heartbeat with this number and the digest is sent.
func (d *releaseDelivery) recordHeartbeat(number uint64) {
	if d.releases != nil && d.firstHeartbeat == 0 {
		d.firstHeartbeat = number
	}
}

// prepareReleases collects the releases that belong to the acknowledgement of the proposal with
// this epoch, and starts their delivery. These are shards that the app has released under the
// ending ownership epoch, also for an earlier proposal, and shards that it never acquired, with the
// note they came with. A node that restarts in place lists all its shards.
func (m *hookMachine) prepareReleases(now time.Duration, epoch shardmap.Epoch) {
	m.delivery.discard()
	releases := &ack.Releases{
		FormatVersion: m.inputs.state.FormatVersion(),
		Node:          m.process.node, Server: m.process.server, Boot: m.process.boot, Proposal: epoch,
	}
	budget := ack.NoteBudget{}
	for i := range m.shards {
		shard := shardmap.Shard(i)
		release, ok := m.releaseOf(shard, &m.shards[shard])
		if !ok {
			continue
		}
		if budget.Add(release.Note) {
			releases.Shards = append(releases.Shards, release)
		} else {
			releases.OverLimit = append(releases.OverLimit, shard)
		}
	}
	if len(releases.Shards)+len(releases.OverLimit) > 0 {
		m.delivery.begin(now, releases, m.deadlines.deliveryDeadline(now))
	}
}

// prepareKeptReleases collects the releases of a restart in place for the next process, once for
// each committed map. acked is the last acknowledged proposal; zero means none.
func (m *hookMachine) prepareKeptReleases(now time.Duration, acked shardmap.Epoch) {
	epoch := m.inputs.state.Committed().Epoch()
	if m.inputs.restartsInPlace && m.keptReleasesEpoch != epoch && acked > 0 {
		m.keptReleasesEpoch = epoch
		m.prepareReleases(now, acked)
	}
}

// releaseOf returns the release of a shard that the node gives up. ok is false if the node
// keeps the shard or there is no release.
func (m *hookMachine) releaseOf(shard shardmap.Shard, held *heldShard) (release ack.Released, ok bool) {
	ownership := m.ownershipOf(shard)
	if !ownership.isOwner || !m.isMoving(shard) && !m.inputs.restartsInPlace {
		return ack.Released{}, false
	}
	if held.released && held.epoch == ownership.epoch {
		return ack.Released{Shard: shard, Note: held.note}, true
	}
	note, from, ok := m.process.inheritedNote(m.inputs.state, shard, held, ownership.epoch)
	if from == m.inputs.state.Committed().OwnerInstanceID(shard) {
		from = "" // the previous process of this node counts as the owner itself
	}
	return ack.Released{Shard: shard, From: from, Note: note}, ok
}

// handleAnswer applies a response of a leader. stopped is set if the node has sent its goodbye.
func (m *hookMachine) handleAnswer(now time.Duration, answer ack.Answer, stopped bool) {
	m.process.recordRestartIndex(answer.RestartIndex)
	if graceEnded := m.leaseRecovery.handleAnswer(now, answer.Term); graceEnded {
		m.inputsChanged = true
	}
	m.delivery.handleAnswer(now, answer, stopped, m.deadlines.deliveryReserve())
}

// handleAnswer records a confirmation. A later leader that lacks the releases asks for each
// acknowledgement again, but not for a goodbye, so a stopped node resends the releases to that
// leader for up to deliveryTime.
//
// Only a response to a heartbeat that contained the digest confirms the releases. An earlier
// response may refer to earlier releases of the same proposal, which a restart in place replaces.
func (d *releaseDelivery) handleAnswer(now time.Duration, answer ack.Answer, stopped bool, deliveryTime time.Duration) {
	if d.releases == nil || answer.Term < d.leaderTerm {
		return
	}
	containedDigest := d.firstHeartbeat != 0 && answer.HeartbeatNumber >= d.firstHeartbeat
	if answer.ReleasesReceived && containedDigest && d.releases.Proposal == answer.Epoch {
		d.confirmed, d.leaderTerm = true, answer.Term
		return
	}
	laterLeaderLacksThem := !answer.ReleasesReceived && answer.Term > d.leaderTerm
	if stopped && laterLeaderLacksThem {
		d.confirmed, d.leaderTerm = false, answer.Term
		d.resendAt, d.giveUpAt = now, now+deliveryTime
	}
}

// Releases returns the releases of the last acknowledgement or goodbye, and whether a leader has
// confirmed them. releases is nil if there are none, or if no leader confirmed them in time.
func (a *Agent) Releases() (releases *ack.Releases, confirmed bool) {
	if a.hooks == nil {
		return nil, false
	}
	return a.hooks.delivery.releases, a.hooks.delivery.confirmed
}
