package ack

import (
	"cmp"
	"slices"

	"shardway/shardmap"
)

// took keeps what a node gives up shards with, in the place of what it told before. What
// comes late must not take the place of what the node believes to be here: it does not send
// that again.
func (m *member) storeReleases(r Releases) {
	if old := m.releases; old != nil {
		late := m.hasReleases()
		if r.Server == old.Server {
			late = r.Boot < old.Boot || r.Boot == old.Boot && r.Proposal < old.Proposal
		}
		if late {
			return
		}
	}
	m.releases, m.releasesDigest = &r, r.Digest()
}

// handed reports that the leader has what the newest heartbeat has the digest of, bound to
// this very server, boot and acknowledgement.
func (m *member) hasReleases() bool {
	r := m.releases
	return r != nil && m.heartbeat.Released == m.releasesDigest && r.Server == m.heartbeat.Server && r.Boot == m.heartbeat.Boot && r.Proposal == m.heartbeat.Acked
}

// counts reports whether the acknowledgement of e, the open proposal, counts: it is there,
// and so is what the node gives up its shards with.
func (m *member) ackCounts(e shardmap.Epoch) bool {
	return m.hasAcked(e) && (m.heartbeat.Acked != e || m.heartbeat.Released == [32]byte{} || m.hasReleases())
}

// handsOver returns with which releases the shards that move pass on, and the servers that
// get them: those which have acknowledged p. Of a shard that is taken in any other way than
// by the acknowledgement of its owner nobody knows what was released.
func (l *Leader) releasesToCommit(base, p *shardmap.Map) (released []Released, servers []string) {
	total := noteBudget{}
	for _, m := range base.Members() {
		n := l.member(m.ID)
		if !n.hasReleases() || n.heartbeat.Acked != p.Epoch() {
			continue
		}
		for _, r := range n.releases.Shards {
			to := l.nextServer(base, p, n, r.Shard)
			if to == "" {
				continue
			}
			if !total.add(r.Note) {
				l.emit(Event{Kind: EventNoteDropped, Node: n.id, Shard: r.Shard})
				continue
			}
			released, servers = append(released, r), append(servers, to)
		}
	}
	slices.SortFunc(released, func(a, b Released) int { return cmp.Compare(a.Shard, b.Shard) })
	slices.Sort(servers)
	return released, slices.Compact(servers)
}

// heir returns the server that gets a shard of n's, empty: it does not move.
func (l *Leader) nextServer(base, p *shardmap.Map, n *member, s shardmap.Shard) string {
	if int(s) >= p.Len() || base.Owner(s) != n.id || p.Owner(s) == n.id || p.Owner(s) == "" {
		return ""
	}
	return l.member(p.Owner(s)).heartbeat.Server
}
