package node

import (
	"context"
	"time"

	"shardway/node/clusterid"
	"shardway/node/gossip"
)

const (
	// supersededWithin bounds the request to a node whose cluster claims to supersede the cluster of
	// this node. supersededSoon is the bound if this node does not serve yet: it is short, so that this
	// node does not start to serve before it knows the result.
	supersededWithin = 2 * time.Second
	supersededSoon   = 250 * time.Millisecond
	// supersededPause is the pause after a claim that was not confirmed. The next claim is checked after it.
	supersededPause = time.Second
)

// supersedeCheck is the result of the check of a claim that another cluster supersedes the cluster of this
// node. A cluster that was recovered from a backup or from one survivor supersedes the old cluster.
type supersedeCheck struct {
	claim  *gossip.RefusedError // the claim, which came from gossip
	served bool                 // this node served requests when the claim arrived
	by     string               // the superseding cluster, confirmed by one of its nodes; empty means not confirmed
}

// superseded checks the claim r: it asks the other node itself to which cluster it belongs. serves reports
// whether this node serves requests. Gossip alone is not enough, because everyone who has recorded a
// gossip message can send it again much later, and a node that stops because of a confirmed claim never
// serves again (see disk.Dir.Supersede). A node that does not serve yet stops after an unconfirmed claim,
// too, but it may be started again: if the other cluster could not be asked, both clusters would serve.
func (n *Node) superseded(ctx context.Context, r *gossip.RefusedError, serves bool) supersedeCheck {
	s, within := supersedeCheck{claim: r, served: serves}, supersededSoon
	if serves {
		within = supersededWithin
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	by, err := n.port.ClusterOf(asking, r.Member, r.Peer)
	if err == nil && clusterid.Supersedes(by, n.cluster()) {
		r.Theirs, s.by = by, by // the confirmed cluster replaces the one that gossip has reported
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
