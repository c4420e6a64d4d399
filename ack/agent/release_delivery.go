package agent

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// releaseDelivery sends the release notes of the last acknowledgement, or of a goodbye, to the
// leader until the leader confirms them.
type releaseDelivery struct {
	releases   *ack.Releases // nil means that there are none, or that no leader confirmed them in time
	digest     [32]byte
	confirmed  bool
	resendAt   time.Duration
	giveUpAt   time.Duration
	leaderTerm uint64 // term of the leader that confirmed them, or must confirm them again
}

// awaitsConfirmation reports whether releases wait for a confirmation.
func (d *releaseDelivery) awaitsConfirmation() bool { return d.releases != nil && !d.confirmed }

// inheritedNote returns the note of the release before the given ownership epoch, and the node that
// released the shard. ok is true only if the state to which the note refers is certainly unchanged:
// the release was recorded for this disk, and neither this process nor an earlier one can have
// served the shard under that epoch.
func (m *hookMachine) inheritedNote(shard shardmap.Shard, held *heldShard, epoch shardmap.Epoch) (note []byte, from shardmap.NodeID, ok bool) {
	state := m.inputs.state
	if held.served && held.epoch == epoch {
		return nil, "", false // the app may have changed the state
	}
	if kept, ok := state.KeptRelease(shard); ok && kept.Server == m.server && m.boot == kept.Boot+1 { // this is the next boot after the release, so no other process has served since
		if kept.PassedOn {
			return kept.Note, state.PreviousOwner(shard), true
		}
		return kept.Note, m.self, true
	}
	if note, server, ok := state.ReleaseNote(shard); ok && server == m.server && m.hadLease && epoch > m.firstLeaseEpoch {
		return note, state.PreviousOwner(shard), true
	}
	return nil, "", false
}

// prepareReleases collects the releases that belong to the acknowledgement of the proposal with
// this epoch. These are shards that the app has released under the ending ownership epoch, also for
// an earlier proposal, and shards that it never acquired, with the note they came with. A node that
// restarts in place lists all its shards.
func (m *hookMachine) prepareReleases(now time.Duration, epoch shardmap.Epoch) {
	m.releaseDelivery = releaseDelivery{}
	releases := &ack.Releases{FormatVersion: m.inputs.state.FormatVersion(), Node: m.self, Server: m.server, Boot: m.boot, Proposal: epoch}
	budget := ack.NoteBudget{}
	for i := range m.shards {
		shard := shardmap.Shard(i)
		release, ok := m.releaseOf(shard, &m.shards[shard])
		switch {
		case !ok:
		case budget.Add(release.Note):
			releases.Shards = append(releases.Shards, release)
		default:
			releases.OverLimit = append(releases.OverLimit, shard)
		}
	}
	if len(releases.Shards)+len(releases.OverLimit) == 0 {
		return
	}
	deadline := max(now, m.releaseDeadline+m.deliveryReserve(), m.goodbyeDeadline)
	if m.inputs.restartsInPlace { // a later leader gets the acknowledgement after the goodbye, too
		deadline = max(deadline, m.goodbyeDeadline+m.deliveryReserve(), now+m.deliveryReserve())
	}
	m.releaseDelivery = releaseDelivery{releases: releases, digest: releases.Digest(), resendAt: now, giveUpAt: deadline}
}

// releaseOf returns the release of a shard that the node gives up. ok is false if the node
// keeps the shard or there is no release.
func (m *hookMachine) releaseOf(shard shardmap.Shard, held *heldShard) (ack.Released, bool) {
	ownership := m.ownershipOf(shard)
	if !ownership.isOwner || m.inputs.state.Proposed().Owner(shard) == m.self && !m.inputs.restartsInPlace {
		return ack.Released{}, false
	}
	if held.released && held.epoch == ownership.epoch {
		return ack.Released{Shard: shard, Note: held.note}, true
	}
	note, from, ok := m.inheritedNote(shard, held, ownership.epoch)
	if from == m.self {
		from = "" // the previous process of this node counts as the node itself
	}
	return ack.Released{Shard: shard, From: from, Note: note}, ok
}

// sendReleases delivers pending releases when they are due. It returns true if no leader
// confirmed them in time: the shards then move unreleased, and the next heartbeat reports
// that.
func (m *hookMachine) sendReleases(now time.Duration) (changed bool) {
	switch {
	case !m.awaitsConfirmation():
	case now >= m.giveUpAt:
		m.releaseDelivery = releaseDelivery{}
		return true
	case now >= m.resendAt:
		m.resendAt = now + resendInterval
		m.options.SendReleases(*m.releases)
	}
	return false
}

// answerReceived applies a response of a leader. A later leader asks for every acknowledgement
// again, but not for a goodbye, so a stopped node sends the releases again by itself.
func (m *hookMachine) answerReceived(now time.Duration, answer ack.Answer, stopped bool) {
	m.restartIndex = max(m.restartIndex, answer.RestartIndex)
	if m.leaseRecovery.answerReceived(now, answer.Term) {
		m.inputsChanged = true
	}
	switch {
	case m.releases == nil || answer.Term < m.leaderTerm:
	case answer.ReleasesReceived && m.releases.Proposal == answer.Epoch:
		m.confirmed, m.leaderTerm = true, answer.Term
	case stopped && !answer.ReleasesReceived && answer.Term > m.leaderTerm:
		m.confirmed, m.leaderTerm, m.resendAt, m.giveUpAt = false, answer.Term, now, now+m.deliveryReserve()
	}
}

// Releases returns the releases of the last acknowledgement or goodbye, and whether a leader has
// confirmed them. releases is nil if there are none, or if no leader confirmed them in time.
func (a *Agent) Releases() (releases *ack.Releases, confirmed bool) {
	if a.hooks == nil {
		return nil, false
	}
	return a.hooks.releases, a.hooks.confirmed
}
