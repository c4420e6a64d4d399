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
func (m *hookMachine) inheritedNote(s shardmap.Shard, h *heldShard, epoch shardmap.Epoch) (note []byte, from shardmap.NodeID, ok bool) {
	state := m.inputs.state
	if h.served && h.epoch == epoch {
		return nil, "", false // the app may have changed the state
	}
	if k, ok := state.KeptRelease(s); ok && k.Server == m.server && m.boot == k.Boot+1 { // this is the next boot after the release, so no other process has served since
		if k.PassedOn {
			return k.Note, state.PreviousOwner(s), true
		}
		return k.Note, m.self, true
	}
	if note, server, ok := state.ReleaseNote(s); ok && server == m.server && m.hadLease && epoch > m.firstLeaseEpoch {
		return note, state.PreviousOwner(s), true
	}
	return nil, "", false
}

// prepareReleases collects the releases that belong to the acknowledgement of e. These are
// shards that the app has released under the ending ownership epoch, also for an earlier
// proposal, and shards that it never acquired, with the note they came with. A node that
// restarts in place lists all its shards.
func (m *hookMachine) prepareReleases(now time.Duration, e shardmap.Epoch) {
	m.releaseDelivery = releaseDelivery{}
	r := &ack.Releases{FormatVersion: m.inputs.state.FormatVersion(), Node: m.self, Server: m.server, Boot: m.boot, Proposal: e}
	total := ack.NoteBudget{}
	for i := range m.shards {
		s := shardmap.Shard(i)
		x, ok := m.releaseOf(s, &m.shards[s])
		switch {
		case !ok:
		case total.Add(x.Note):
			r.Shards = append(r.Shards, x)
		default:
			r.OverLimit = append(r.OverLimit, s)
		}
	}
	if len(r.Shards)+len(r.OverLimit) == 0 {
		return
	}
	by := max(now, m.releaseDeadline+m.deliveryReserve(), m.goodbyeDeadline)
	if m.inputs.restartsInPlace { // a later leader gets the acknowledgement after the goodbye, too
		by = max(by, m.goodbyeDeadline+m.deliveryReserve(), now+m.deliveryReserve())
	}
	m.releaseDelivery = releaseDelivery{releases: r, digest: r.Digest(), resendAt: now, giveUpAt: by}
}

// releaseOf returns the release of a shard that the node gives up. ok is false if the node
// keeps the shard or there is no release.
func (m *hookMachine) releaseOf(s shardmap.Shard, h *heldShard) (ack.Released, bool) {
	st := m.ownershipOf(s)
	if !st.isOwner || m.inputs.state.Proposed().Owner(s) == m.self && !m.inputs.restartsInPlace {
		return ack.Released{}, false
	}
	if h.released && h.epoch == st.epoch {
		return ack.Released{Shard: s, Note: h.note}, true
	}
	note, from, ok := m.inheritedNote(s, h, st.epoch)
	if from == m.self {
		from = "" // the previous process of this node counts as the node itself
	}
	return ack.Released{Shard: s, From: from, Note: note}, ok
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
func (m *hookMachine) answerReceived(now time.Duration, ans ack.Answer, parted bool) {
	m.restartIndex = max(m.restartIndex, ans.RestartIndex)
	if m.leaseRecovery.answerReceived(now, ans.Term) {
		m.inputsChanged = true
	}
	switch {
	case m.releases == nil || ans.Term < m.leaderTerm:
	case ans.ReleasesReceived && m.releases.Proposal == ans.Epoch:
		m.confirmed, m.leaderTerm = true, ans.Term
	case parted && !ans.ReleasesReceived && ans.Term > m.leaderTerm:
		m.confirmed, m.leaderTerm, m.resendAt, m.giveUpAt = false, ans.Term, now, now+m.deliveryReserve()
	}
}

// Releases returns the releases of the last acknowledgement or goodbye, and whether a leader has
// confirmed them. r is nil if there are none, or if no leader confirmed them in time.
func (a *Agent) Releases() (r *ack.Releases, confirmed bool) {
	if a.hooks == nil {
		return nil, false
	}
	return a.hooks.releases, a.hooks.confirmed
}
