package leader

import (
	"cmp"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// storeReleases stores the releases of a node in place of earlier ones. It ignores outdated ones:
// the node does not send the newer ones again after their confirmation.
func (m *member) storeReleases(releases ack.Releases) {
	if old := m.releases; old != nil {
		outdated := m.hasReleases()
		if releases.Server == old.Server {
			outdated = releases.Boot < old.Boot || releases.Boot == old.Boot && releases.Proposal < old.Proposal
		}
		if outdated {
			return
		}
	}
	m.releases, m.releasesDigest = &releases, releases.Digest()
}

// hasReleases reports whether the leader has the releases whose digest is in the newest
// heartbeat, for the same server, boot and acknowledgement.
func (m *member) hasReleases() bool {
	releases := m.releases
	return releases != nil && m.heartbeat.ReleasesDigest == m.releasesDigest && releases.Server == m.heartbeat.Server && releases.Boot == m.heartbeat.Boot && releases.Proposal == m.heartbeat.Acked
}

// hasCompleteAck reports whether the acknowledgement of the open proposal counts: it has arrived,
// and so have its releases.
func (m *member) hasCompleteAck(epoch shardmap.Epoch) bool {
	return m.hasAcked(epoch) && (m.heartbeat.Acked != epoch || m.heartbeat.ReleasesDigest == [32]byte{} || m.hasReleases())
}

// releasesToCommit returns the releases of the moving shards, and the servers that get them: those
// that have acknowledged the proposal. The release of a shard is unknown if the shard is taken
// without the acknowledgement of its owner.
func (l *Leader) releasesToCommit(committed, proposed *shardmap.Map) (released []ack.Released, servers []string) {
	budget := ack.NoteBudget{}
	for _, member := range committed.Members() {
		node := l.member(member.ID)
		if !node.hasReleases() || node.heartbeat.Acked != proposed.Epoch() {
			continue
		}
		for _, release := range node.releases.Shards {
			to := l.nextServer(committed, proposed, node, release.Shard)
			if to == "" {
				continue
			}
			if !budget.Add(release.Note) {
				l.emit(Event{Kind: EventNoteRejected, Node: node.id, Shard: release.Shard})
				continue
			}
			released, servers = append(released, release), append(servers, to)
		}
	}
	slices.SortFunc(released, func(a, b ack.Released) int { return cmp.Compare(a.Shard, b.Shard) })
	slices.Sort(servers)
	return released, slices.Compact(servers)
}

// nextServer returns the server that gets a shard of the node; empty if the shard does not move.
func (l *Leader) nextServer(committed, proposed *shardmap.Map, node *member, shard shardmap.Shard) string {
	if int(shard) >= proposed.Len() || committed.Owner(shard) != node.id || proposed.Owner(shard) == node.id || proposed.Owner(shard) == "" {
		return ""
	}
	return l.member(proposed.Owner(shard)).heartbeat.Server
}
