package peer

// admit decides whether this node takes the stream that h asks for, learning
// the cluster's id if h may teach it.
func (p *Port) admit(h hello) *RefusedError {
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
	return p.admitCluster(h)
}

// admitCluster comes last: it may adopt, and only a stream that is right in
// everything else may make it.
func (p *Port) admitCluster(h hello) *RefusedError {
	own, theirs := p.o.Cluster(), h.from.Cluster
	switch {
	case h.kind == Control && (own == "" || theirs == ""):
		return nil
	case theirs == "":
		return refuse(RefusedCluster, "node %q belongs to no cluster yet, this node to %q", h.from.Node, own)
	case own == theirs:
		return nil
	case own != "":
		return refuse(RefusedCluster, "node %q belongs to cluster %q, this node to %q", h.from.Node, theirs, own)
	case h.kind != Raft || h.wantDisk == "" || p.o.Adopt == nil:
		return refuse(RefusedCluster, "node %q belongs to cluster %q, this node to none yet", h.from.Node, theirs)
	}
	// Exactly this node and this disk were asked for, by a server of the
	// cluster: its leader has added us.
	if err := p.o.Adopt(theirs); err != nil {
		return refuse(RefusedCluster, "this node cannot take cluster %q as its own: %v", theirs, err)
	}
	return nil
}
