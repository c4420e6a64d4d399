package peer

import (
	"context"
	"net"
)

// admit decides whether this node takes the stream that h asks for, learning
// the cluster's id if h may teach it. Under is the connection that h came by.
func (p *Port) admit(ctx context.Context, under net.Conn, h hello) *RefusedError {
	if v, ok := under.(Voucher); ok {
		if err := v.Vouch(h.from.Node); err != nil {
			return refuse(RefusedIdentity, "the dialer says it is node %q: %v", h.from.Node, err)
		}
	}
	if !h.kind.known() || p.handlers[h.kind] == nil {
		return refuse(RefusedKind, "this node handles no streams of kind %s", h.kind)
	}
	if h.wantNode != p.o.Node {
		return refuse(RefusedNode, "wanted node %q, this is node %q", h.wantNode, p.o.Node)
	}
	if (h.wantDisk != "" || h.kind == Raft) && h.wantDisk != p.o.Disk {
		return refuse(RefusedDisk, "wanted node %q with disk %q, its disk is %q",
			h.wantNode, h.wantDisk, p.o.Disk)
	}
	adopt, re := p.checkCluster(h)
	if re != nil {
		return re
	}
	if p.o.Known != nil && !p.o.Known(h.from.Node) {
		return refuse(RefusedUnknown, "node %q is not known here: neither gossip nor the cluster's configuration shows it", h.from.Node)
	}
	m := Meeting{Kind: h.kind, Far: h.from, ToldBoot: h.knownBoot, Told: h.known}
	if why, reason := p.o.Past.Meet(ctx, m); why != 0 {
		return refuse(why, "%s", reason)
	}
	if !adopt {
		return nil
	}
	// It comes last: only a stream that is right in everything else may make a
	// node adopt. Exactly this node and this disk were asked for, by a server of
	// the cluster: its leader has added us.
	if err := p.o.Adopt(h.from.Cluster); err != nil {
		return refuse(RefusedCluster, "this node cannot take cluster %q as its own: %v", h.from.Cluster, err)
	}
	return nil
}

// clustersDiffer is the reason of a RefusedCluster that names the dialer, its cluster and that
// of the node: Belongs reads it.
const clustersDiffer = "node %q belongs to cluster %q, this node to %q"

// judgeCluster reports whether the clusters fit, and whether they do so only
// once this node has adopted the dialer's.
func (p *Port) checkCluster(h hello) (adopt bool, _ *RefusedError) {
	own, theirs := p.o.Cluster(), h.from.Cluster
	switch {
	case h.kind == Control && (own == "" || theirs == ""):
		return false, nil
	case theirs == "":
		return false, refuse(RefusedCluster, "node %q belongs to no cluster yet, this node to %q", h.from.Node, own)
	case own == theirs:
		return false, nil
	case own != "":
		return false, refuse(RefusedCluster, clustersDiffer, h.from.Node, theirs, own)
	case h.kind != Raft || h.wantDisk == "" || p.o.Adopt == nil:
		return false, refuse(RefusedCluster, "node %q belongs to cluster %q, this node to none yet", h.from.Node, theirs)
	}
	return true, nil
}
