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
	if m.releases != nil && m.isOutdated(releases) {
		return
	}
	m.releases, m.releasesDigest = &releases, releases.Digest()
}

// isOutdated reports whether the stored releases are newer than releases. On another disk, the
// stored ones are valid if the newest heartbeat refers to them.
func (m *member) isOutdated(releases ack.Releases) bool {
	stored := m.releases
	if releases.Server != stored.Server {
		return m.hasReleases()
	}
	if releases.Boot != stored.Boot {
		return releases.Boot < stored.Boot
	}
	return releases.Proposal < stored.Proposal
}

// hasReleases reports whether the leader has the releases whose digest is in the newest
// heartbeat, for the same server, boot and acknowledgement.
func (m *member) hasReleases() bool {
	stored := m.releases
	if stored == nil || stored.Server != m.heartbeat.Server || stored.Boot != m.heartbeat.Boot {
		return false
	}
	return m.heartbeat.ReleasesDigest == m.releasesDigest && stored.Proposal == m.heartbeat.Acked
}

// hasCompleteAck reports whether the member has acknowledged the epoch, and the leader has received
// all that belongs to this acknowledgement. The releases are required only if the newest heartbeat
// acknowledges exactly this epoch and refers to releases.
func (m *member) hasCompleteAck(epoch shardmap.Epoch) bool {
	if !m.hasAcked(epoch) {
		return false
	}
	ackedNewerEpoch := m.heartbeat.Acked != epoch
	hasNoReleases := m.heartbeat.ReleasesDigest == [32]byte{}
	return ackedNewerEpoch || hasNoReleases || m.hasReleases()
}

// handover contains the releases that a commit passes to the next owners.
type handover struct {
	released []ack.Released // ascending by shard
	servers  []string       // the servers that get these shards, sorted
	rejected []Event        // EventNoteRejected for each release whose note exceeds the limit
}

// collectHandover collects the releases of the moving shards from the owners that have acknowledged
// the open proposal. The release of a shard is unknown if the shard is taken without the
// acknowledgement of its owner.
func (mt *memberTracker) collectHandover(in inputs) handover {
	var result handover
	budget := ack.NoteBudget{}
	proposed := in.state.Proposed()
	for _, owner := range in.state.Committed().Members() {
		node := mt.getOrCreate(owner.ID)
		if !node.hasReleases() || node.heartbeat.Acked != proposed.Epoch() {
			continue
		}
		for _, release := range node.releases.Shards {
			server := mt.nextServer(in, node.id, release.Shard)
			switch {
			case server == "":
			case !budget.Add(release.Note):
				result.rejected = append(result.rejected, Event{Kind: EventNoteRejected, Node: node.id, Shard: release.Shard})
			default:
				result.released, result.servers = append(result.released, release), append(result.servers, server)
			}
		}
	}
	slices.SortFunc(result.released, func(a, b ack.Released) int { return cmp.Compare(a.Shard, b.Shard) })
	slices.Sort(result.servers)
	result.servers = slices.Compact(result.servers)
	return result
}

// nextServer returns the server that gets a shard of the owner; empty if the shard does not move.
func (mt *memberTracker) nextServer(in inputs, owner shardmap.NodeID, shard shardmap.Shard) string {
	committed, proposed := in.state.Committed(), in.state.Proposed()
	if int(shard) >= proposed.Len() || committed.Owner(shard) != owner {
		return ""
	}
	nextOwner := proposed.Owner(shard)
	if nextOwner == "" || proposed.HasSameOwner(committed, shard) {
		return ""
	}
	return mt.getOrCreate(nextOwner).heartbeat.Server
}
