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
	releases *ack.Releases // nil means that there are none, or that no leader confirmed them in time
	digest   [32]byte      // of releases, for heartbeats; zero if releases is nil

	confirmed  bool
	leaderTerm uint64        // term of the leader that confirmed them, or must confirm them again
	resendAt   time.Duration // when they are sent again
	giveUpAt   time.Duration // when the shards move unreleased without a confirmation
}

// awaitsConfirmation reports whether releases wait for a confirmation.
func (d *releaseDelivery) awaitsConfirmation() bool { return d.releases != nil && !d.confirmed }

// inheritedNote returns the note of the release before the given ownership epoch, and the node that
// released the shard. ok is true only if the state to which the note refers is certainly unchanged:
// the release was recorded for this disk, and neither this process nor an earlier one can have
// served the shard under that epoch.
func (m *hookMachine) inheritedNote(shard shardmap.Shard, held *heldShard, epoch shardmap.Epoch) (note []byte, from shardmap.NodeID, ok bool) {
	if held.served && held.epoch == epoch {
		return nil, "", false // the app may have changed the state
	}
	previousOwner := m.inputs.state.PreviousOwner(shard)
	if kept, ok := m.keptRelease(shard); ok {
		if kept.PassedOn {
			return kept.Note, previousOwner, true
		}
		return kept.Note, m.self, true
	}
	if note, ok := m.movedNote(shard, epoch); ok {
		return note, previousOwner, true
	}
	return nil, "", false
}

// keptRelease returns the release of the shard by the previous process of this node, which has
// restarted in place. ok is false if another process may have served the shard since: only the next
// boot on the same disk is certainly the next process.
func (m *hookMachine) keptRelease(shard shardmap.Shard) (kept ack.KeptRelease, ok bool) {
	kept, ok = m.inputs.state.KeptRelease(shard)
	isNextProcess := kept.Server == m.server && m.boot == kept.Boot+1
	return kept, ok && isNextProcess
}

// movedNote returns the note with which the previous owner released the shard. ok is false if it did
// not, or if an earlier process of this node may have owned the shard under the given ownership
// epoch.
func (m *hookMachine) movedNote(shard shardmap.Shard, epoch shardmap.Epoch) (note []byte, ok bool) {
	note, server, ok := m.inputs.state.ReleaseNote(shard)
	isFirstProcess := m.hadLease && epoch > m.firstLeaseEpoch
	return note, ok && server == m.server && isFirstProcess
}

// prepareReleases collects the releases that belong to the acknowledgement of the proposal with
// this epoch, and starts their delivery. These are shards that the app has released under the
// ending ownership epoch, also for an earlier proposal, and shards that it never acquired, with the
// note they came with. A node that restarts in place lists all its shards.
func (m *hookMachine) prepareReleases(now time.Duration, epoch shardmap.Epoch) {
	m.releaseDelivery = releaseDelivery{}
	releases := &ack.Releases{FormatVersion: m.inputs.state.FormatVersion(), Node: m.self, Server: m.server, Boot: m.boot, Proposal: epoch}
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
	if len(releases.Shards)+len(releases.OverLimit) == 0 {
		return
	}
	m.releaseDelivery = releaseDelivery{releases: releases, digest: releases.Digest(), resendAt: now, giveUpAt: m.deliveryDeadline(now)}
}

// deliveryDeadline returns when the node stops waiting for the confirmation of releases that it
// begins to send now.
func (m *hookMachine) deliveryDeadline(now time.Duration) time.Duration {
	deadline := max(now, m.releaseDeadline+m.deliveryReserve(), m.goodbyeDeadline)
	if m.inputs.restartsInPlace { // a later leader gets the acknowledgement after the goodbye, too
		deadline = max(deadline, m.goodbyeDeadline+m.deliveryReserve(), now+m.deliveryReserve())
	}
	return deadline
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
	moves := m.inputs.state.Proposed().Owner(shard) != m.self
	if !ownership.isOwner || !moves && !m.inputs.restartsInPlace {
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

// answerReceived applies a response of a leader. stopped means that the node has sent its goodbye.
func (m *hookMachine) answerReceived(now time.Duration, answer ack.Answer, stopped bool) {
	m.restartIndex = max(m.restartIndex, answer.RestartIndex)
	if graceEnded := m.leaseRecovery.answerReceived(now, answer.Term); graceEnded {
		m.inputsChanged = true
	}
	m.releaseDelivery.answerReceived(now, answer, stopped, m.deliveryReserve())
}

// answerReceived records a confirmation. A later leader that lacks the releases asks for every
// acknowledgement again, but not for a goodbye. So a stopped node sends the releases to that leader
// again, for up to deliveryTime.
func (d *releaseDelivery) answerReceived(now time.Duration, answer ack.Answer, stopped bool, deliveryTime time.Duration) {
	if d.releases == nil || answer.Term < d.leaderTerm {
		return
	}
	if answer.ReleasesReceived && d.releases.Proposal == answer.Epoch {
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
	return a.hooks.releases, a.hooks.confirmed
}
