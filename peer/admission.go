package peer

import (
	"context"
	"net"
)

// admit decides whether this node accepts the stream that a hello requests. It adopts the cluster
// of the dialer if the hello permits that. conn is the connection on which the hello arrived.
func (p *Port) admit(ctx context.Context, conn net.Conn, greeting hello) *RefusedError {
	if verifier, ok := conn.(NodeVerifier); ok {
		if err := verifier.VerifyNode(greeting.sender.Node); err != nil {
			return newRefusal(RefusedWrongCertificate, "the dialer says it is node %q: %v", greeting.sender.Node, err)
		}
	}
	if refusal := p.checkDestination(greeting); refusal != nil {
		return refusal
	}
	mustAdopt, refusal := p.checkCluster(greeting)
	if refusal != nil {
		return refusal
	}
	if p.options.IsKnownNode != nil && !p.options.IsKnownNode(greeting.sender.Node) {
		return newRefusal(RefusedUnknownNode, "node %q is not known here: neither gossip nor the cluster's configuration shows it", greeting.sender.Node)
	}
	handshake := Handshake{Kind: greeting.kind, Peer: greeting.sender, BootKnownToPeer: greeting.knownBoot, RecordKnownToPeer: greeting.knownRecord}
	if code, reason := p.options.DiskRecords.CheckHandshake(ctx, handshake); code != 0 {
		return newRefusal(code, "%s", reason)
	}
	if !mustAdopt {
		return nil
	}
	// This is the last check: only a stream that has passed all others may change the cluster of
	// this node. A server of the cluster requested exactly this node and disk, so its leader has
	// added this node.
	if err := p.options.AdoptCluster(greeting.sender.Cluster); err != nil {
		return newRefusal(RefusedClusterMismatch, "this node cannot take cluster %q as its own: %v", greeting.sender.Cluster, err)
	}
	return nil
}

// checkDestination checks that this node is the node that the dialer wants, with the wanted disk, and
// that it handles streams of this kind.
func (p *Port) checkDestination(greeting hello) *RefusedError {
	if !greeting.kind.known() || p.handlers[greeting.kind] == nil {
		return newRefusal(RefusedUnsupportedKind, "this node handles no streams of kind %s", greeting.kind)
	}
	if greeting.wantedNode != p.options.Node {
		return newRefusal(RefusedWrongNode, "wanted node %q, this is node %q", greeting.wantedNode, p.options.Node)
	}
	mustHaveDisk := greeting.wantedDisk != "" || greeting.kind == Raft
	if mustHaveDisk && greeting.wantedDisk != p.options.Disk {
		return newRefusal(RefusedWrongDisk, "wanted node %q with disk %q, its disk is %q",
			greeting.wantedNode, greeting.wantedDisk, p.options.Disk)
	}
	return nil
}

// clustersDiffer is the reason of a RefusedClusterMismatch that contains the dialer, its cluster and the
// cluster of the node. Port.ClusterOf parses it.
const clustersDiffer = "node %q belongs to cluster %q, this node to %q"

// checkCluster returns a refusal if the clusters of the two nodes do not match. mustAdopt reports whether this node
// belongs to no cluster, and must adopt the cluster of the dialer before it accepts the stream. Only a Raft stream
// that names the disk of this node may cause that.
func (p *Port) checkCluster(greeting hello) (mustAdopt bool, _ *RefusedError) {
	ownCluster, dialerCluster := p.options.Cluster(), greeting.sender.Cluster
	oneHasNone := ownCluster == "" || dialerCluster == ""
	if greeting.kind == Control && oneHasNone {
		return false, nil
	}
	if dialerCluster == "" {
		return false, newRefusal(RefusedClusterMismatch, "node %q belongs to no cluster yet, this node to %q", greeting.sender.Node, ownCluster)
	}
	if ownCluster == dialerCluster {
		return false, nil
	}
	if ownCluster != "" {
		return false, newRefusal(RefusedClusterMismatch, clustersDiffer, greeting.sender.Node, dialerCluster, ownCluster)
	}
	mayAdopt := greeting.kind == Raft && greeting.wantedDisk != "" && p.options.AdoptCluster != nil
	if !mayAdopt {
		return false, newRefusal(RefusedClusterMismatch, "node %q belongs to cluster %q, this node to none yet", greeting.sender.Node, dialerCluster)
	}
	return true, nil
}
