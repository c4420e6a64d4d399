package node

import (
	"shardway/diagnosis"
	"shardway/proxy"
)

// explain says what is the matter where requests are not served, for their clients.
func (n *Node) explain(why proxy.Reason) proxy.Explanation {
	f := n.watch.result.Load()
	e := proxy.Explanation{Led: f.inputs.Leader != "", Vain: f.noOwners}
	if i := f.first(explaining(why)); i >= 0 {
		e.Finding = f.public[i]
	}
	return e
}

// explaining returns the codes of the findings that can be why requests are held, those
// first that explain the others.
func explaining(why proxy.Reason) []diagnosis.Code {
	switch why {
	case proxy.ReasonNoMap:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.NoPeers, diagnosis.Bootstrapping, diagnosis.DiskStalled, diagnosis.NoHealthyApp, diagnosis.ClustersDiffer, diagnosis.PeerPortUnreachable, diagnosis.Joining, diagnosis.Unavailable}
	case proxy.ReasonOrphaned:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.NoHealthyApp, diagnosis.Unavailable}
	case proxy.ReasonPaused, proxy.ReasonNoLease:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.DuplicateNode, diagnosis.NoLease}
	case proxy.ReasonMoving:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.Lagging, diagnosis.Draining}
	case proxy.ReasonAcquiring:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.Acquiring}
	case proxy.ReasonAbsent:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.Restarting}
	case proxy.ReasonRefused, proxy.ReasonUnreachable:
	}
	return []diagnosis.Code{
		diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoHealthyApp, diagnosis.Unavailable, diagnosis.NoLease, diagnosis.AppUnhealthy, diagnosis.QueueFull,
	}
}
