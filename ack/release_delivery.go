package ack

import (
	"time"

	"shardway/shardmap"
)

// delivery is what the last acknowledgement, or a goodbye, gives up shards with, on its way
// to the leader.
type releaseDelivery struct {
	releases *Releases // nil: nothing, or nobody has taken it in time
	digest   [32]byte
	received bool
	resendAt time.Duration // when it is sent next
	giveUpAt time.Duration // until when
	term     uint64        // of the leader that has it, or was asked to take it again
}

// delivers reports that it is on its way.
func (d *releaseDelivery) pending() bool { return d.releases != nil && !d.received }

// untouched returns the note that came with a shard of the given ownership epoch, and true
// if this process knows that what the note points at is as it was released: it was, for
// this very disk, and neither this process has served the shard under that epoch nor one
// before it may have. From is whose release it is.
func (m *hookMachine) inheritedNote(s shardmap.Shard, h *heldShard, epoch shardmap.Epoch) (note []byte, from shardmap.NodeID, ok bool) {
	state := m.seen.state
	if h.served && h.epoch == epoch {
		return nil, "", false // its app may have changed it
	}
	if l, ok := state.keptNotes[s]; ok && l.server == m.server && m.boot == l.boot+1 { // no process was between
		if l.released {
			return l.note, m.self, true
		}
		return l.note, state.OwnerBefore(s), true
	}
	if l, ok := state.releaseNotes[s]; ok && l.server == m.server && m.hadLease && epoch > m.firstLeaseEpoch {
		return l.note, state.OwnerBefore(s), true
	}
	return nil, "", false
}

// giveUp puts together what the acknowledgement of e gives up shards with: what the app
// has released under the ownership epoch that ends, also for an earlier proposal, and what
// it has never acquired, as it came. A node that is to be back gives up all that it has.
func (m *hookMachine) prepareRelease(now time.Duration, e shardmap.Epoch) {
	m.releaseDelivery = releaseDelivery{}
	r := &Releases{Level: m.seen.state.Level(), Node: m.self, Server: m.server, Boot: m.boot, Proposal: e}
	total := noteBudget{}
	for i := range m.shards {
		s := shardmap.Shard(i)
		x, ok := m.releaseOf(s, &m.shards[s])
		switch {
		case !ok:
		case total.add(x.Note):
			r.Shards = append(r.Shards, x)
		default:
			r.Over = append(r.Over, s)
		}
	}
	if len(r.Shards)+len(r.Over) == 0 {
		return
	}
	by := max(now, m.releaseBy+m.deliverTime(), m.stopBy)
	if m.seen.returns { // also of what it acknowledges to a later leader when it has said goodbye
		by = max(by, m.stopBy+m.deliverTime(), now+m.deliverTime())
	}
	m.releaseDelivery = releaseDelivery{releases: r, digest: r.Digest(), resendAt: now, giveUpAt: by}
}

// gives returns with what a shard is given up, and false if it is not, or nobody knows.
func (m *hookMachine) releaseOf(s shardmap.Shard, h *heldShard) (Released, bool) {
	st := m.ownershipOf(s)
	if !st.owned || m.seen.state.Last().Owner(s) == m.self && !m.seen.returns {
		return Released{}, false
	}
	if h.released && h.epoch == st.epoch {
		return Released{Shard: s, Note: h.note}, true
	}
	note, from, ok := m.inheritedNote(s, h, st.epoch)
	if from == m.self {
		from = "" // that of its last process is its own
	}
	return Released{Shard: s, From: from, Note: note}, ok
}

// deliver sends what is on its way. It returns true if nobody has taken it in time: then
// the shards move unreleased, and the acknowledgement says so.
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

// told takes from an answer whether the leader has it. A later leader asks for every
// acknowledgement anew, but for no goodbye: that one gets it again.
func (m *hookMachine) answerReceived(now time.Duration, ans Answer, parted bool) {
	m.restartIndex = max(m.restartIndex, ans.RestartIndex)
	if m.recovery.answerReceived(now, ans.Term) {
		m.dirty = true
	}
	switch {
	case m.releases == nil || ans.Term < m.term:
	case ans.Taken && m.releases.Proposal == ans.Epoch:
		m.received, m.term = true, ans.Term
	case parted && !ans.Taken && ans.Term > m.term:
		m.received, m.term, m.resendAt, m.giveUpAt = false, ans.Term, now, now+m.deliverTime()
	}
}
