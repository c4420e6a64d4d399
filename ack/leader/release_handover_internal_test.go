package leader

import (
	"testing"

	"shardway/ack"
)

// releasesOfA returns the releases of node a for proposal 9.
func releasesOfA(shards ...ack.Released) ack.Releases {
	return ack.Releases{FormatVersion: ack.MinFormatVersion, Node: "a", Server: "a/1", Boot: 7, Proposal: 9, Shards: shards}
}

// The digest in the newest heartbeat selects the valid releases, of the same server, boot and
// acknowledgement.
func TestReleasesAreBound(t *testing.T) {
	r := releasesOfA(ack.Released{Shard: 3})
	beat := ack.Heartbeat{Node: "a", Server: "a/1", Boot: 7, Acked: 9, ReleasesDigest: r.Digest()}
	n := member{id: "a", heartbeat: beat}
	if n.hasReleases() || n.hasCompleteAck(9) || !n.hasAcked(9) {
		t.Error("an acknowledgement counts before its releases have arrived")
	}
	n.storeReleases(r)
	if !n.hasReleases() || !n.hasCompleteAck(9) {
		t.Error("an acknowledgement does not count although its releases have arrived")
	}
	for what, change := range map[string]func(*ack.Heartbeat){
		"another disk":            func(h *ack.Heartbeat) { h.Server = "a/2" },
		"another boot":            func(h *ack.Heartbeat) { h.Boot = 8 },
		"another acknowledgement": func(h *ack.Heartbeat) { h.Acked = 10 },
		"other releases":          func(h *ack.Heartbeat) { h.ReleasesDigest[0]++ },
		"no releases":             func(h *ack.Heartbeat) { h.ReleasesDigest = [32]byte{} },
	} {
		n.heartbeat = beat
		change(&n.heartbeat)
		if n.hasReleases() {
			t.Errorf("%s: the releases are valid", what)
		}
	}
	// Late releases do not replace it, because the node has its confirmation.
	n.heartbeat = beat
	for _, late := range []func(*ack.Releases){
		func(r *ack.Releases) { r.Proposal = 8 }, func(r *ack.Releases) { r.Boot = 6 }, func(r *ack.Releases) { r.Server = "a/0" },
	} {
		old := releasesOfA(ack.Released{Shard: 3})
		late(&old)
		if n.storeReleases(old); !n.hasReleases() {
			t.Errorf("outdated releases %+v replace the stored ones", old)
		}
	}
	// Releases of the next process on this disk are not late, even before its heartbeat.
	next := releasesOfA(ack.Released{Shard: 3})
	next.Boot = 8
	n.storeReleases(next)
	if n.heartbeat = (ack.Heartbeat{Node: "a", Server: "a/1", Boot: 8, Acked: 9, ReleasesDigest: next.Digest()}); !n.hasReleases() {
		t.Error("the releases of the next process count as outdated")
	}
	n.heartbeat.ReleasesDigest = [32]byte{}
	if !n.hasCompleteAck(9) {
		t.Error("an acknowledgement without releases does not count")
	}
}
