package node

import (
	"context"
	"fmt"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/chanutil"
	"shardway/node/control"
	"shardway/node/leaderloop"
	"shardway/node/logs"
	"shardway/shardmap"
)

// releasesTimeout bounds one attempt to send the release notes to the leader. The machine schedules the
// next attempt.
const releasesTimeout = time.Second

// exceededNotes is the number of release notes of one proposal that exceed the limit of the total size of all notes.
// A release note is a short text that the app returns when it releases a shard, for the app of the next
// owner.
type exceededNotes struct {
	proposal shardmap.Epoch
	notes    int
}

// deliver schedules r to be sent to the leader by bringReleases, and logs notes that exceed the limit.
// The goroutine of agent.run calls it repeatedly until the leader has recorded r.
func (h *hooking) deliver(r ack.Releases) {
	if said := (exceededNotes{r.Proposal, len(r.OverLimit)}); said != h.over {
		h.over = said
		for i, s := range r.OverLimit {
			if i == maxWarned {
				h.log.Warn().Int("shards", len(r.OverLimit)).Msg("more releases out of range")
				break
			}
			leaderloop.WarnNoteRefused(&h.log, r.Node, s)
		}
	}
	chanutil.Replace(h.given, r)
}

// bringReleases sends the newest release notes of this node to the leader, until ctx ends. It does not retry
// itself: the machine calls deliver again until the leader has recorded the notes.
func (n *Node) bringReleases(ctx context.Context) {
	for {
		var r ack.Releases
		select {
		case <-ctx.Done():
			return
		case r = <-n.agent.hooking.given:
		}
		to := n.raft.Leader()
		switch to {
		case "":
		case string(n.self):
			n.sendToLeaderLoop(leader.ReleasesReceived{Releases: r})
		default:
			b, _ := r.MarshalBinary()
			asking, cancel := context.WithTimeout(ctx, releasesTimeout)
			err := n.client.Call(asking, to, control.Request{Kind: control.Release, Releases: b}, nil)
			cancel()
			if err != nil {
				n.log.Debug().Err(err).Str("peer", to).Msg("releases not delivered")
			}
		}
	}
}

// released passes the release notes of another node to the leader loop, if this node leads.
func (n *Node) released(node string, b []byte) error {
	var r ack.Releases
	if err := r.UnmarshalBinary(b); err != nil || string(r.Node) != node {
		if n.invalidHeartbeats.Pass(node) {
			n.log.Warn().Err(err).Str("peer", node).Str("claimed", logs.Cut(string(r.Node))).Msg("invalid releases from node")
		}
		return fmt.Errorf("%w: invalid releases", api.ErrInvalid)
	}
	if n.leading.Load() == nil {
		return api.ErrNoLeader
	}
	n.sendToLeaderLoop(leader.ReleasesReceived{Releases: r})
	return nil
}
