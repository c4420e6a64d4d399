package agent

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// releaseDelivery sends the release notes of the last acknowledgement, or of a goodbye, to the
// leader until the leader confirms them.
type releaseDelivery struct {
	releases *ack.Releases // nil means that there are none, or that no leader confirmed them in time
	digest   [32]byte
	received bool
	resendAt time.Duration
	giveUpAt time.Duration
	term     uint64 // term of the leader that confirmed them, or must confirm them again
}

// pending reports whether releases wait for a confirmation.
func (d *releaseDelivery) pending() bool { return d.releases != nil && !d.received }

// inheritedNote returns the note of the release before the given ownership epoch, and the node
// that released the shard. ok is true only if the state to which the note refers is certainly unchanged:
// the release was recorded for this disk, and neither this process nor an earlier one can have
// served the shard under that epoch.
func (m *hookMachine) inheritedNote(s shardmap.Shard, h *heldShard, epoch shardmap.Epoch) (note []byte, from shardmap.NodeID, ok bool) {
	state := m.seen.state
	if h.served && h.epoch == epoch {
		return nil, "", false // the app may have changed the state
	}
	if k, ok := state.Kept(s); ok && k.Server == m.server && m.boot == k.Boot+1 { // this is the next boot after the release, so no other process has served since
		if k.PassedOn {
			return k.Note, state.OwnerBefore(s), true
		}
		return k.Note, m.self, true
	}
	if note, server, ok := state.Released(s); ok && server == m.server && m.hadLease && epoch > m.firstLeaseEpoch {
		return note, state.OwnerBefore(s), true
	}
	return nil, "", false
}

// prepareRelease collects the releases that belong to the acknowledgement of e. These are
// shards that the app has released under the ending ownership epoch, also for an earlier
// proposal, and shards that it never acquired, with the note they came with. A node that
// restarts in place lists all its shards.
func (m *hookMachine) prepareRelease(now time.Duration, e shardmap.Epoch) {
	m.releaseDelivery = releaseDelivery{}
	r := &ack.Releases{Level: m.seen.state.Level(), Node: m.self, Server: m.server, Boot: m.boot, Proposal: e}
	total := ack.NoteBudget{}
	for i := range m.shards {
		s := shardmap.Shard(i)
		x, ok := m.releaseOf(s, &m.shards[s])
		switch {
		case !ok:
		case total.Add(x.Note):
			r.Shards = append(r.Shards, x)
		default:
			r.Over = append(r.Over, s)
		}
	}
	if len(r.Shards)+len(r.Over) == 0 {
		return
	}
	by := max(now, m.releaseBy+m.deliverTime(), m.stopBy)
	if m.seen.returns { // a later leader gets the acknowledgement after the goodbye, too
		by = max(by, m.stopBy+m.deliverTime(), now+m.deliverTime())
	}
	m.releaseDelivery = releaseDelivery{releases: r, digest: r.Digest(), resendAt: now, giveUpAt: by}
}

// releaseOf returns the release of a shard that the node gives up. ok is false if the node
// keeps the shard or there is no release.
func (m *hookMachine) releaseOf(s shardmap.Shard, h *heldShard) (ack.Released, bool) {
	st := m.ownershipOf(s)
	if !st.owned || m.seen.state.Last().Owner(s) == m.self && !m.seen.returns {
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
	case !m.pending():
	case now >= m.giveUpAt:
		m.releaseDelivery = releaseDelivery{}
		return true
	case now >= m.resendAt:
		m.resendAt = now + resendInterval
		m.o.Deliver(*m.releases)
	}
	return false
}

// answerReceived applies a response of a leader. A later leader asks for every acknowledgement
// again, but not for a goodbye, so a stopped node sends the releases again by itself.
func (m *hookMachine) answerReceived(now time.Duration, ans ack.Answer, parted bool) {
	m.restartIndex = max(m.restartIndex, ans.RestartIndex)
	if m.recovery.answerReceived(now, ans.Term) {
		m.dirty = true
	}
	switch {
	case m.releases == nil || ans.Term < m.term:
	case ans.ReleasesReceived && m.releases.Proposal == ans.Epoch:
		m.received, m.term = true, ans.Term
	case parted && !ans.ReleasesReceived && ans.Term > m.term:
		m.received, m.term, m.resendAt, m.giveUpAt = false, ans.Term, now, now+m.deliverTime()
	}
}

// Releases returns the releases of the last acknowledgement or goodbye, and whether a leader has
// confirmed them. r is nil if there are none, or if no leader confirmed them in time.
func (a *Agent) Releases() (r *ack.Releases, confirmed bool) {
	if a.hooks == nil {
		return nil, false
	}
	return a.hooks.releases, a.hooks.received
}
