package leader

import (
	"cmp"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// storeReleases stores the releases of a node in place of earlier ones. It ignores late ones:
// the node does not send the newer ones again after their confirmation.
func (m *member) storeReleases(r ack.Releases) {
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

// hasReleases reports whether the leader has the releases whose digest is in the newest
// heartbeat, for the same server, boot and acknowledgement.
func (m *member) hasReleases() bool {
	r := m.releases
	return r != nil && m.heartbeat.ReleasesDigest == m.releasesDigest && r.Server == m.heartbeat.Server && r.Boot == m.heartbeat.Boot && r.Proposal == m.heartbeat.Acked
}

// hasCompleteAck reports whether the acknowledgement of e, the open proposal, counts: it has
// arrived, and so have its releases.
func (m *member) hasCompleteAck(e shardmap.Epoch) bool {
	return m.hasAcked(e) && (m.heartbeat.Acked != e || m.heartbeat.ReleasesDigest == [32]byte{} || m.hasReleases())
}

// releasesToCommit returns the releases of the moving shards, and the servers that get them:
// those that have acknowledged p. The release of a shard is unknown if the shard is taken
// without the acknowledgement of its owner.
func (l *Leader) releasesToCommit(base, p *shardmap.Map) (released []ack.Released, servers []string) {
	total := ack.NoteBudget{}
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
			if !total.Add(r.Note) {
				l.emit(Event{Kind: EventNoteDropped, Node: n.id, Shard: r.Shard})
				continue
			}
			released, servers = append(released, r), append(servers, to)
		}
	}
	slices.SortFunc(released, func(a, b ack.Released) int { return cmp.Compare(a.Shard, b.Shard) })
	slices.Sort(servers)
	return released, slices.Compact(servers)
}

// nextServer returns the server that gets shard s of n; empty if the shard does not move.
func (l *Leader) nextServer(base, p *shardmap.Map, n *member, s shardmap.Shard) string {
	if int(s) >= p.Len() || base.Owner(s) != n.id || p.Owner(s) == n.id || p.Owner(s) == "" {
		return ""
	}
	return l.member(p.Owner(s)).heartbeat.Server
}
