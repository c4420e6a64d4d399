package node

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/admin"
	"shardway/node/logs"
	"shardway/shardmap"
)

// releasesTimeout bounds one attempt to bring the leader what this node gives up shards
// with. The machine asks for the next.
const releasesTimeout = time.Second

// overs is how many notes do not fit of those for one proposal.
type overs struct {
	proposal shardmap.Epoch
	notes    int
}

// deliver has bringReleases take what the machine gives up shards with to the leader. The
// agent's goroutine calls it, again and again until the leader has it.
func (h *hooking) deliver(r ack.Releases) {
	if said := (overs{r.Proposal, len(r.Over)}); said != h.over {
		h.over = said
		for i, s := range r.Over {
			if i == maxWarned {
				h.log.Warn().Int("shards", len(r.Over)).Msg("more releases out of range")
				break
			}
			warnOfRoom(&h.log, r.Node, s)
		}
	}
	replaceLatest(h.given, r)
}

// warnOfRoom says that a shard moves unreleased because its note does not fit beside the
// others.
func warnOfRoom(log *zerolog.Logger, node shardmap.NodeID, s shardmap.Shard) {
	log.Warn().Str("peer", string(node)).Uint32("shard", uint32(s)).Int("max_notes", ack.MaxNotes).Int("max_bytes", ack.MaxNoteBytes).
		Str("remedy", "write the location of the state into the note instead of the state").
		Msg("note refused, map change too large")
}

// bringReleases takes what this node gives up shards with to whoever leads, the newest
// first. What gets lost is sent again.
func (n *Node) bringReleases(ctx context.Context) {
	for {
		var r ack.Releases
		select {
		case <-ctx.Done():
			return
		case r = <-n.agent.hooking.given:
		}
		leader := n.raft.Leader()
		switch leader {
		case "":
		case string(n.self):
			n.sendToLeaderLoop(ack.ReleasesReceived{Releases: r})
		default:
			b, _ := r.MarshalBinary()
			asking, cancel := context.WithTimeout(ctx, releasesTimeout)
			err := n.ask(asking, leader, request{What: askRelease, Releases: b}, nil)
			cancel()
			if err != nil {
				n.log.Debug().Err(err).Str("peer", leader).Msg("releases not delivered")
			}
		}
	}
}

// released takes what another node gives up its shards with, if this one leads.
func (n *Node) released(node string, b []byte) error {
	var r ack.Releases
	if err := r.UnmarshalBinary(b); err != nil || string(r.Node) != node {
		if n.invalidHeartbeats.Pass(node) {
			n.log.Warn().Err(err).Str("peer", node).Str("claimed", logs.Cut(string(r.Node))).Msg("invalid releases from node")
		}
		return fmt.Errorf("%w: invalid releases", admin.ErrInvalid)
	}
	if n.leading.Load() == nil {
		return admin.ErrNoLeader
	}
	n.sendToLeaderLoop(ack.ReleasesReceived{Releases: r})
	return nil
}
