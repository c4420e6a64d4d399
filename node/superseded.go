package node

import (
	"context"
	"time"

	"shardway/node/clusterid"
	"shardway/node/gossip"
)

const (
	// supersededWithin bounds the question to whose cluster is said to supersede this one's, by
	// a node that serves; one that does not yet must not begin meanwhile.
	supersededWithin = 2 * time.Second
	supersededSoon   = 250 * time.Millisecond
	// supersededPause is the pause before somebody is asked again.
	supersededPause = time.Second
)

// superseding is what became of a refusal that says that this node's cluster is superseded.
type superseding struct {
	said   *gossip.RefusedError
	served bool   // this node did as that came
	by     string // the cluster that does supersede it; empty: nobody says so itself
}

// superseded asks the node of which gossip says that its cluster supersedes this one's. Gossip
// may come again long after it was said, from anybody who has recorded it; and who stops for
// what the node says itself does so for good. A node that does not serve yet stops all the
// same, for this time: where the other cluster cannot be asked, it would serve beside it.
func (n *Node) superseded(ctx context.Context, r *gossip.RefusedError, serves bool) superseding {
	s, within := superseding{said: r, served: serves}, supersededSoon
	if serves {
		within = supersededWithin
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	by, err := n.port.Belongs(asking, r.Member, r.Peer)
	if err == nil && clusterid.Supersedes(by, n.cluster()) {
		r.Theirs, s.by = by, by
		return s
	}
	n.log.Warn().Err(err).Str("peer", r.Member).Str("addr", r.Peer).Str("belongs", by).Str("said", r.Theirs).
		Msg("gossip reports recovered cluster, node disagrees")
	if serves {
		select {
		case <-time.After(supersededPause):
		case <-ctx.Done():
		}
	}
	return s
}
