package peer

import (
	"context"
	"net"
)

// admit decides whether this node accepts the stream that h requests. It adopts the cluster of the
// dialer if h permits that. under is the connection on which h arrived.
func (p *Port) admit(ctx context.Context, under net.Conn, h hello) *RefusedError {
	if v, ok := under.(NodeVerifier); ok {
		if err := v.VerifyNode(h.from.Node); err != nil {
			return refuse(RefusedIdentity, "the dialer says it is node %q: %v", h.from.Node, err)
		}
	}
	if !h.kind.known() || p.handlers[h.kind] == nil {
		return refuse(RefusedKind, "this node handles no streams of kind %s", h.kind)
	}
	if h.wantNode != p.options.Node {
		return refuse(RefusedNode, "wanted node %q, this is node %q", h.wantNode, p.options.Node)
	}
	if (h.wantDisk != "" || h.kind == Raft) && h.wantDisk != p.options.Disk {
		return refuse(RefusedDisk, "wanted node %q with disk %q, its disk is %q",
			h.wantNode, h.wantDisk, p.options.Disk)
	}
	adopt, re := p.checkCluster(h)
	if re != nil {
		return re
	}
	if p.options.Known != nil && !p.options.Known(h.from.Node) {
		return refuse(RefusedUnknown, "node %q is not known here: neither gossip nor the cluster's configuration shows it", h.from.Node)
	}
	m := Meeting{Kind: h.kind, Peer: h.from, PeerKnownBoot: h.knownBoot, PeerKnown: h.known}
	if why, reason := p.options.Past.Meet(ctx, m); why != 0 {
		return refuse(why, "%s", reason)
	}
	if !adopt {
		return nil
	}
	// This is the last check: only a stream that has passed all others may change the cluster of
	// this node. A server of the cluster requested exactly this node and disk, so its leader has
	// added this node.
	if err := p.options.Adopt(h.from.Cluster); err != nil {
		return refuse(RefusedCluster, "this node cannot take cluster %q as its own: %v", h.from.Cluster, err)
	}
	return nil
}

// clustersDiffer is the reason of a RefusedCluster that contains the dialer, its cluster and the
// cluster of the node. Port.Belongs parses it.
const clustersDiffer = "node %q belongs to cluster %q, this node to %q"

// checkCluster reports whether the clusters match, and whether this node must first adopt the
// cluster of the dialer.
func (p *Port) checkCluster(h hello) (adopt bool, _ *RefusedError) {
	own, theirs := p.options.Cluster(), h.from.Cluster
	switch {
	case h.kind == Control && (own == "" || theirs == ""):
		return false, nil
	case theirs == "":
		return false, refuse(RefusedCluster, "node %q belongs to no cluster yet, this node to %q", h.from.Node, own)
	case own == theirs:
		return false, nil
	case own != "":
		return false, refuse(RefusedCluster, clustersDiffer, h.from.Node, theirs, own)
	case h.kind != Raft || h.wantDisk == "" || p.options.Adopt == nil:
		return false, refuse(RefusedCluster, "node %q belongs to cluster %q, this node to none yet", h.from.Node, theirs)
	}
	return true, nil
}
